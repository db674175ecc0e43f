"""An account of a platform as it stands: connected or not, why not, and what comes next."""

from enum import StrEnum

import msgspec

from holdfast.core.errors import HoldfastError, IllegalMove


class AccountState(StrEnum):
    NEW = "new"  # nobody has tried it yet
    CONNECTING = "connecting"
    CONNECTED = "connected"  # its door is open; that it is so now, only its last round trip proves
    AWAY = "away"  # it has no line, and is tried again by itself
    PARKED = "parked"  # refused for good: it waits for a person
    PAUSED = "paused"  # a person does not want it now
    CLOSED = "closed"  # the gateway goes


_ENDS = frozenset({AccountState.PAUSED, AccountState.CLOSED})
_FAILS = frozenset({AccountState.AWAY, AccountState.PARKED})
MOVES: dict[AccountState, frozenset[AccountState]] = {
    AccountState.NEW: _ENDS | {AccountState.CONNECTING},
    # To what it was at: a pause was taken back before it had been let go.
    AccountState.CONNECTING: _ENDS | _FAILS | {AccountState.CONNECTED, AccountState.CONNECTING},
    AccountState.CONNECTED: _ENDS | _FAILS | {AccountState.CONNECTING},
    AccountState.AWAY: _ENDS | {AccountState.CONNECTING},
    AccountState.PARKED: _ENDS | {AccountState.CONNECTING},
    AccountState.PAUSED: frozenset({AccountState.CLOSED, AccountState.CONNECTING}),
    AccountState.CLOSED: frozenset(),
}


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """How an account stands, for whoever asks."""

    state: AccountState = AccountState.NEW
    since: float = 0.0
    why: str = ""  # it is not connected
    remedy: str = ""  # what a person can do about that
    next_try: float | None = None  # when it is tried again by itself
    failures: int = 0  # in a row

    def to(
        self,
        state: AccountState,
        *,
        at: float,
        why: str = "",
        remedy: str = "",
        next_try: float | None = None,
        failures: int = 0,
    ) -> "Standing":
        """The only way from one state to another; raises `IllegalMove` where there is none."""
        if state not in MOVES[self.state]:
            raise IllegalMove(f"an account does not go from {self.state} to {state}")
        return Standing(
            state=state, since=at, why=why, remedy=remedy, next_try=next_try, failures=failures
        )


class PausedAccount(msgspec.Struct, frozen=True, kw_only=True):
    """An account that somebody has paused: it stays so, whoever starts the gateway."""

    platform: str
    account: str
    at: float


class NoSuchAccount(HoldfastError):
    """Nothing answers to that name."""

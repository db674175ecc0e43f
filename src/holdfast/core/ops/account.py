"""The connection state of a platform account: connected or not, why not, and what happens next."""

from enum import StrEnum

import msgspec

from holdfast.core.errors import HoldfastError, InvalidTransition


class AccountState(StrEnum):
    NEW = "new"  # nobody has tried it yet
    CONNECTING = "connecting"
    CONNECTED = "connected"  # its door is open; that it is so now, only its last round trip proves
    RETRYING = "retrying"  # it has no line, and is tried again by itself
    BLOCKED = "blocked"  # refused for good: it waits for a person
    PAUSED = "paused"  # a person does not want it now
    CLOSED = "closed"  # the gateway goes


_STOPPED_STATES = frozenset({AccountState.PAUSED, AccountState.CLOSED})
_FAILED_STATES = frozenset({AccountState.RETRYING, AccountState.BLOCKED})
ACCOUNT_TRANSITIONS: dict[AccountState, frozenset[AccountState]] = {
    AccountState.NEW: _STOPPED_STATES | {AccountState.CONNECTING},
    # To what it was at: a pause was taken back before it had been let go.
    AccountState.CONNECTING: _STOPPED_STATES
    | _FAILED_STATES
    | {AccountState.CONNECTED, AccountState.CONNECTING},
    AccountState.CONNECTED: _STOPPED_STATES | _FAILED_STATES | {AccountState.CONNECTING},
    AccountState.RETRYING: _STOPPED_STATES | {AccountState.CONNECTING},
    AccountState.BLOCKED: _STOPPED_STATES | {AccountState.CONNECTING},
    AccountState.PAUSED: frozenset({AccountState.CLOSED, AccountState.CONNECTING}),
    AccountState.CLOSED: frozenset(),
}


class ConnectionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How an account stands, for whoever asks."""

    state: AccountState = AccountState.NEW
    since: float = 0.0
    why: str = ""  # it is not connected
    remedy: str = ""  # what a person can do about that
    next_attempt_at: float | None = None  # when it is tried again by itself
    failures: int = 0  # in a row

    def transition(
        self,
        state: AccountState,
        *,
        at: float,
        why: str = "",
        remedy: str = "",
        next_attempt_at: float | None = None,
        failures: int = 0,
    ) -> "ConnectionStatus":
        """The only way from one state to another; raises `InvalidTransition` where there is none."""
        if state not in ACCOUNT_TRANSITIONS[self.state]:
            raise InvalidTransition(f"an account does not go from {self.state} to {state}")
        return ConnectionStatus(
            state=state,
            since=at,
            why=why,
            remedy=remedy,
            next_attempt_at=next_attempt_at,
            failures=failures,
        )


class PausedAccount(msgspec.Struct, frozen=True, kw_only=True):
    """An account that somebody has paused: it stays so, whoever starts the gateway."""

    platform: str
    account: str
    at: float


class NoSuchAccount(HoldfastError):
    """Nothing answers to that name."""

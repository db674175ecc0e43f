"""The connection state of a platform account: connected or not, why not, and what happens next."""

from enum import StrEnum

import msgspec

from holdfast.core.errors import HoldfastError, InvalidTransition
from holdfast.core.text.translatable import NO_TEXT, Translatable


class AccountState(StrEnum):
    NEW = "new"  # no attempt was made yet
    CONNECTING = "connecting"
    CONNECTED = "connected"  # its context is open; only its last round trip proves the connection
    RETRYING = "retrying"  # not connected; retried automatically
    BLOCKED = "blocked"  # permanently refused: a person must act
    PAUSED = "paused"  # paused by a person
    CLOSED = "closed"  # the gateway stops


_STOPPED_STATES = frozenset({AccountState.PAUSED, AccountState.CLOSED})
_FAILED_STATES = frozenset({AccountState.RETRYING, AccountState.BLOCKED})
ACCOUNT_TRANSITIONS: dict[AccountState, frozenset[AccountState]] = {
    AccountState.NEW: _STOPPED_STATES | {AccountState.CONNECTING},
    # To the same state: a pause was reverted before the account was disconnected.
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
    """The connection status of an account."""

    state: AccountState = AccountState.NEW
    since: float = 0.0
    why: Translatable = NO_TEXT  # why it is not connected
    remedy: Translatable = NO_TEXT  # what a person can do about that
    next_attempt_at: float | None = None  # when it is retried automatically
    failures: int = 0  # in a row

    def transition(
        self,
        state: AccountState,
        *,
        at: float,
        why: Translatable = NO_TEXT,
        remedy: Translatable = NO_TEXT,
        next_attempt_at: float | None = None,
        failures: int = 0,
    ) -> "ConnectionStatus":
        """The only way to change the state; raises `InvalidTransition` if the change is not
        allowed."""
        if state not in ACCOUNT_TRANSITIONS[self.state]:
            raise InvalidTransition(
                "an account cannot go from {state} to {to}", state=self.state, to=state
            )
        return ConnectionStatus(
            state=state,
            since=at,
            why=why,
            remedy=remedy,
            next_attempt_at=next_attempt_at,
            failures=failures,
        )


class PausedAccount(msgspec.Struct, frozen=True, kw_only=True):
    """An account that a person has paused. It stays paused across restarts."""

    platform: str
    account: str
    at: float


class NoSuchAccount(HoldfastError):
    """No account has that name."""

"""Requests to the store: a `Command` changes rows, a `Query` reads them.

Both are frozen structs. The type of a struct names the request, its fields are the arguments, and
its type parameter is the result: `await store.write(BeginTurn(...))`. An implementation of the
store is a handler for each type.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from holdfast.core.ids import SessionId
from holdfast.core.turns.subagent import INTERNAL_PLATFORM

R = TypeVar("R", covariant=True)


class ScopeKind(StrEnum):
    SESSION = "session"
    ACCOUNT = "account"
    PERSON = "person"
    GATEWAY = "gateway"  # belongs to none of them


class Scope(msgspec.Struct, frozen=True):
    """The owners of the rows that a command writes: all of them, the main one first.

    A row has at most one owner: its session; without one, the account that a message came from,
    that a delivery goes to, or whose state it is; or the person whose job, note, pairing or
    standing approval it is. Other rows (audit, statistics, stops) belong to the gateway and need no
    name. A row that passes between an account and a session counts as the session's. See decision
    55.
    """

    kind: ScopeKind
    key: str = ""
    others: tuple["Scope", ...] = ()  # further owners, each without others

    @property
    def owners(self) -> tuple["Scope", ...]:
        """All of them: sessions, then accounts, then persons; (): the gateway."""
        if not self.others:
            return () if self.kind is ScopeKind.GATEWAY else (self,)
        return (Scope(self.kind, self.key), *self.others)

    @property
    def session_id(self) -> SessionId | None:
        """The session that the command is about."""
        return SessionId(self.key) if self.kind is ScopeKind.SESSION else None

    @property
    def sessions(self) -> tuple[SessionId, ...]:
        """Every session whose rows it may touch."""
        return tuple(SessionId(each.key) for each in self.owners if each.kind is ScopeKind.SESSION)


GATEWAY_SCOPE = Scope(ScopeKind.GATEWAY)
_OWNER_KINDS = (ScopeKind.SESSION, ScopeKind.ACCOUNT, ScopeKind.PERSON)


def session_scope(session_id: SessionId) -> Scope:
    return Scope(ScopeKind.SESSION, session_id)


def sessions_scope(*sessions: SessionId | None) -> Scope:
    """The scope of several sessions. The first is the one that the command is about; None is
    skipped."""
    return joint_scope(*(session_scope(each) for each in sessions if each is not None))


def account_scope(platform: str, account: str) -> Scope:
    """The internal platform has no accounts: a message that the gateway sends to itself is kept
    with the session or the person that it is for."""
    if platform == INTERNAL_PLATFORM:
        return GATEWAY_SCOPE
    return Scope(ScopeKind.ACCOUNT, f"{platform}:{account}")


def person_scope(person: str) -> Scope:
    """A principal, or the owner of a notebook."""
    return Scope(ScopeKind.PERSON, person)


def joint_scope(*scopes: Scope) -> Scope:
    """The scope of a command that does the work of several: all their owners, each once."""
    found = dict.fromkeys(owner for scope in scopes for owner in scope.owners)
    owners = [each for kind in _OWNER_KINDS for each in found if each.kind is kind]
    if not owners:
        return GATEWAY_SCOPE
    first, *others = owners
    return Scope(first.kind, first.key, tuple(others)) if others else first


if TYPE_CHECKING:

    class Command(msgspec.Struct, Generic[R], frozen=True, kw_only=True):
        """One durable change of rows that belong to its scope."""

        @property
        def scope(self) -> Scope: ...

    class SessionCommand(Command[R], Generic[R], frozen=True, kw_only=True):
        """A command whose rows belong to the session that it names."""

        session_id: SessionId

    class GatewayCommand(Command[R], Generic[R], frozen=True, kw_only=True):
        """A command whose rows belong to no session, account or person. Commands that remove old
        rows of every session are of this kind, too: each of those rows stands alone."""

    class Query(msgspec.Struct, Generic[R], frozen=True, kw_only=True):
        """One read of durable data."""

else:
    # The same classes without `Generic`, which would make each of 150 classes six times as
    # expensive to create at every start.

    class Command(msgspec.Struct, frozen=True, kw_only=True):
        def __class_getitem__(cls, result: Any) -> type:
            return cls

        @property
        def scope(self) -> Scope:
            raise NotImplementedError(f"{type(self).__name__} does not state its scope")

    class SessionCommand(Command, frozen=True, kw_only=True):
        session_id: SessionId

        @property
        def scope(self) -> Scope:
            return session_scope(self.session_id)

    class GatewayCommand(Command, frozen=True, kw_only=True):
        @property
        def scope(self) -> Scope:
            return GATEWAY_SCOPE

    class Query(msgspec.Struct, frozen=True, kw_only=True):
        def __class_getitem__(cls, result: Any) -> type:
            return cls


class Committed(msgspec.Struct, frozen=True, gc=False):
    """A command that is durable, and its result. With `audited`, it has added audit rows."""

    command: Command[Any]
    result: Any
    audited: bool = False


class WriteFailed(msgspec.Struct, frozen=True, gc=False):
    """A command that failed, so that nothing of it was written, and the error."""

    command: Command[Any]
    error: Exception


Subscriber = Callable[[Committed], None]
FailureSubscriber = Callable[[WriteFailed], None]

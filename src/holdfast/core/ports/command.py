"""Requests to the store: a `Command` changes rows, a `Query` reads them.

Both are frozen structs. The type of a struct names the request, its fields are the arguments, and
its type parameter is the result: `await store.write(BeginTurn(...))`. An implementation of the
store is a handler for each type.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from holdfast.core.ids import PrincipalId, SessionId

R = TypeVar("R", covariant=True)


class ScopeKind(StrEnum):
    SESSION = "session"
    ACCOUNT = "account"
    PERSON = "person"
    GATEWAY = "gateway"  # belongs to none of them


class Scope(msgspec.Struct, frozen=True):
    """What the rows of a command belong to. A store on several machines is divided by scope, and a
    session's owner is checked by it. `others` are the other sessions of a command that moves a chat
    from one session to another; such a commit needs the owners of all of them."""

    kind: ScopeKind
    key: str = ""
    others: tuple[SessionId, ...] = ()

    @property
    def session_id(self) -> SessionId | None:
        """The session that the command is about."""
        return SessionId(self.key) if self.kind is ScopeKind.SESSION else None

    @property
    def sessions(self) -> tuple[SessionId, ...]:
        """Every session whose rows it may touch."""
        return (SessionId(self.key), *self.others) if self.kind is ScopeKind.SESSION else ()


GATEWAY_SCOPE = Scope(ScopeKind.GATEWAY)


def session_scope(session_id: SessionId) -> Scope:
    return Scope(ScopeKind.SESSION, session_id)


def sessions_scope(*sessions: SessionId | None) -> Scope:
    """The scope of several sessions. The first is the one that the command is about; None is
    skipped."""
    named = tuple(dict.fromkeys(each for each in sessions if each is not None))
    return Scope(ScopeKind.SESSION, named[0], named[1:]) if named else GATEWAY_SCOPE


def account_scope(platform: str, account: str) -> Scope:
    return Scope(ScopeKind.ACCOUNT, f"{platform}:{account}")


def person_scope(principal: PrincipalId | str) -> Scope:
    return Scope(ScopeKind.PERSON, principal)


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

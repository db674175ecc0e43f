"""Pairing: how an unknown sender asks for access, and what is stored of it."""

from enum import StrEnum

import msgspec

from holdfast.core.ids import PrincipalId, SessionKey
from holdfast.core.messages.inbox import Accepted, Inbound
from holdfast.core.messages.outbox import Address, NewDelivery
from holdfast.core.ports.command import (
    Command,
    Scope,
    account_scope,
    joint_scope,
    person_scope,
)

# Read out over a telephone, no two of these are taken for each other: no 0 and O, no 1, I and L.
CODE_ALPHABET = "ABCDEFGHJKMNPQRSTUVWXYZ23456789"
CODE_LENGTH = 8
CODE_LIFETIME = 3600.0  # seconds
NEW_CODE_AFTER = 600.0  # seconds until somebody who writes again gets another code
MAX_PENDING = 5  # of one account at a time
MAX_WRONG_CODES = 5  # codes in a row, and then none is taken
LOCKOUT_SECONDS = 3600.0  # seconds


def is_in_future(end: float, now: float, *, lifetime: float) -> bool:
    """Whether what lasts so long is not over yet. An end that is far beyond it was written while
    the clock was wrong, and would keep people waiting until the clock gets there."""
    return now < end <= now + 2 * lifetime


class PairingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody has a code, of which only a salted hash is kept. Without one they were told no,
    and get no other before this one would have ended."""

    principal: PrincipalId
    address: Address  # of the chat in which they asked
    user_id: str
    user_name: str | None = None
    salt: bytes = b""
    digest: bytes = b""  # empty: denied
    asked_at: float
    expires_at: float

    @property
    def account(self) -> tuple[str, str]:
        return self.address.platform, self.address.account

    def pending(self, now: float) -> bool:
        return bool(self.digest) and is_in_future(self.expires_at, now, lifetime=CODE_LIFETIME)


class PairedUser(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody who was let in: a user of the account they asked at, until that is revoked."""

    principal: PrincipalId
    address: Address
    user_id: str
    user_name: str | None = None
    since: float
    let_in_by: PrincipalId


class WrongCodes(msgspec.Struct, frozen=True, kw_only=True):
    """How many wrong codes were tried in a row, and until when none is taken therefore."""

    count: int = 0
    locked_until: float = 0.0


class PairingKind(StrEnum):
    APPROVE = "approve"
    DENY = "deny"
    REVOKE = "revoke"
    WRONG = "wrong"  # a code that is nobody's was tried


class PairingChange(Command[None], frozen=True, kw_only=True):
    """One decision about pairing, with what the person hears of it; one commit."""

    kind: PairingKind
    principal: PrincipalId | None = None  # whom it is about
    user: PairedUser | None = None  # who is let in
    wrong: WrongCodes = WrongCodes()  # as it stands from then on
    by: str = ""  # who decided
    deliveries: tuple[NewDelivery, ...] = ()
    at: float

    @property
    def scope(self) -> Scope:
        person = self.user.principal if self.user is not None else self.principal
        deliveries = joint_scope(*(each.scope for each in self.deliveries))
        return deliveries if person is None else joint_scope(person_scope(person), deliveries)


class RefusedMessage(Command[Accepted], frozen=True, kw_only=True):
    """A message that is not for the agent and whose writer is told why: one commit of its row,
    which is born refused, of what they are told, and of their request to be let in."""

    inbound: Inbound  # without its words: they are nobody's to read
    route: SessionKey
    principal: PrincipalId
    reason: str
    deliveries: tuple[NewDelivery, ...]
    request: PairingRequest | None = None
    at: float

    @property
    def scope(self) -> Scope:
        """The account of the message, and the person who asks to be let in."""
        source, request = self.inbound.source, self.request
        return joint_scope(
            account_scope(source.platform, source.account),
            *(each.scope for each in self.deliveries),
            *(() if request is None else (person_scope(request.principal),)),
        )


class Pairings(msgspec.Struct, frozen=True, kw_only=True):
    """All that the store has of it."""

    requests: tuple[PairingRequest, ...] = ()
    users: tuple[PairedUser, ...] = ()
    wrong: WrongCodes = WrongCodes()

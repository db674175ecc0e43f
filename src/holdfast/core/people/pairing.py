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

# Without letters and digits that are easily confused: no 0 and O, no 1, I and L.
CODE_ALPHABET = "ABCDEFGHJKMNPQRSTUVWXYZ23456789"
CODE_LENGTH = 8
CODE_LIFETIME = 3600.0  # seconds
NEW_CODE_AFTER = 600.0  # seconds until a sender can get another code
MAX_PENDING = 5  # of one account at a time
MAX_WRONG_CODES = 5  # in a row; then no code is accepted for a while
LOCKOUT_SECONDS = 3600.0  # seconds


def is_in_future(end: float, now: float, *, lifetime: float) -> bool:
    """Whether a period of this length has not ended yet. An end that is too far in the future was
    stored while the clock was wrong, and does not count."""
    return now < end <= now + 2 * lifetime


class PairingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request of an unknown sender with a code, of which only a salted hash is stored. Without
    a hash it was denied, and there is no other code before this one would have expired."""

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
    """A person who was given access by a code: a user of that account until it is revoked."""

    principal: PrincipalId
    address: Address
    user_id: str
    user_name: str | None = None
    since: float
    let_in_by: PrincipalId


class WrongCodes(msgspec.Struct, frozen=True, kw_only=True):
    """How many wrong codes were tried in a row, and until when no code is accepted."""

    count: int = 0
    locked_until: float = 0.0


class PairingKind(StrEnum):
    APPROVE = "approve"
    DENY = "deny"
    REVOKE = "revoke"
    WRONG = "wrong"  # an unknown code was tried


class PairingChange(Command[None], frozen=True, kw_only=True):
    """A decision about pairing with its notice to the person, in one commit."""

    kind: PairingKind
    principal: PrincipalId | None = None  # the person
    user: PairedUser | None = None  # the new user
    wrong: WrongCodes = WrongCodes()  # after the decision
    by: str = ""  # who decided
    deliveries: tuple[NewDelivery, ...] = ()
    at: float

    @property
    def scope(self) -> Scope:
        person = self.user.principal if self.user is not None else self.principal
        deliveries = joint_scope(*(each.scope for each in self.deliveries))
        return deliveries if person is None else joint_scope(person_scope(person), deliveries)


class RefusedMessage(Command[Accepted], frozen=True, kw_only=True):
    """A message that is refused with a notice to its sender: one commit of its row, of the notice,
    and of the sender's request for access."""

    inbound: Inbound  # without its text, which is not stored
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
    """All stored data about pairing."""

    requests: tuple[PairingRequest, ...] = ()
    users: tuple[PairedUser, ...] = ()
    wrong: WrongCodes = WrongCodes()

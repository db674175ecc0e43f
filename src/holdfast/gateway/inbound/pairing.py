"""Pairing: an unknown sender gets a code, with which an operator gives them access.

`PairingRequests` sends the codes, `PairingService` approves, denies and revokes, and `PairedUsers`
is a copy of the stored data, so that no message waits for the store.
"""

import asyncio
import hashlib
import hmac
import logging
import secrets
from collections.abc import Awaitable, Callable
from math import ceil

import msgspec

from holdfast.core.config.settings import route_of
from holdfast.core.errors import HoldfastError
from holdfast.core.ids import DeliveryId, PrincipalId
from holdfast.core.messages.inbox import Inbound
from holdfast.core.messages.outbox import Address, DeliveryKind, NewDelivery
from holdfast.core.messages.source import Author, ChatType, sanitise_name
from holdfast.core.people.audit import AuditKind
from holdfast.core.people.pairing import (
    CODE_ALPHABET,
    CODE_LENGTH,
    CODE_LIFETIME,
    LOCKOUT_SECONDS,
    MAX_PENDING,
    MAX_WRONG_CODES,
    NEW_CODE_AFTER,
    PairedUser,
    PairingChange,
    PairingKind,
    PairingRequest,
    RefusedMessage,
    WrongCodes,
    is_in_future,
)
from holdfast.core.ports.command import Committed
from holdfast.core.ports.runtime import Runtime
from holdfast.core.ports.store import StoreReader, StoreWriter
from holdfast.core.ports.store_queries import GetPairings
from holdfast.core.sessions.session import CommandEffect
from holdfast.core.text.translation import N_, _, _n, use_catalogue
from holdfast.gateway.access import DeniedAccessAudit, principal_of
from holdfast.gateway.chat_languages import ChatLanguages
from holdfast.gateway.jobs.service import source_address
from holdfast.gateway.live_settings import LiveSettings

_SALT_BYTES = 16
# Codes are short, so trying them all against a copy of the store must be slow: each try takes
# about 10 ms and 4 MB, there are about 10^12 codes, and a code expires within an hour.
_SCRYPT_COST = {"n": 1 << 12, "r": 8, "p": 1}

CODE_TEXT = N_(
    "You don't have access yet; your message was not read. Your pairing code is {code}. It is "
    "valid for one hour. Ask the owner of this gateway to approve it with\n\n"
    "    holdfast pairing approve {code}\n\n"
    "You will get a message here when it is approved."
)
_CODE_SENT_REASON = "unknown sender: a pairing code was sent instead of an answer"
WELCOME_TEXT = N_("You have access now. Write what you need, or send /help to see the commands.")

RandomBytes = Callable[[int], bytes]
"""Returns so many unpredictable bytes."""

log = logging.getLogger(__name__)


def new_code(random: RandomBytes) -> str:
    """A random code. Bytes beyond a multiple of the alphabet's length are dropped, so that each
    letter is equally likely."""
    fair = 256 - 256 % len(CODE_ALPHABET)
    code = ""
    while len(code) < CODE_LENGTH:
        code += "".join(
            CODE_ALPHABET[byte % len(CODE_ALPHABET)] for byte in random(16) if byte < fair
        )
    return code[:CODE_LENGTH]


def new_salt(random: RandomBytes) -> bytes:
    return random(_SALT_BYTES)


def format_code(code: str) -> str:
    """The code in two halves, which are easier to read."""
    return f"{code[:4]}-{code[4:]}"


def parse_code(typed: str) -> str | None:
    """The code in what a person typed, in any spelling; None: it is not one."""
    plain = "".join(typed.split()).replace("-", "").upper()
    good = len(plain) == CODE_LENGTH and set(plain) <= set(CODE_ALPHABET)
    return plain if good else None


def hash_code(code: str, salt: bytes) -> bytes:
    """Slow on purpose: not for the event loop."""
    return hashlib.scrypt(code.encode(), salt=salt, dklen=32, **_SCRYPT_COST)


def code_matches(code: str, salt: bytes, digest: bytes) -> bool:
    """As slow as `hash_code`, on purpose."""
    return hmac.compare_digest(hash_code(code, salt), digest)


PAIRING_COMMANDS = (RefusedMessage, PairingChange, CommandEffect)


class PairedUsers:
    """Owns the copy of the pairing requests and paired users in the store. Only commits change it.

    `AccessPolicy` checks `principal in paired_users` for every message of a person who is not in
    the configuration.
    """

    def __init__(self, reads: StoreReader) -> None:
        self._reads = reads
        self._requests: dict[PrincipalId, PairingRequest] = {}
        self._users: dict[PrincipalId, PairedUser] = {}
        self.wrong_codes = WrongCodes()

    async def load(self) -> None:
        found = await self._reads.read(GetPairings())
        self._requests = {each.principal: each for each in found.requests}
        self._users = {each.principal: each for each in found.users}
        self.wrong_codes = found.wrong

    def __contains__(self, principal: object) -> bool:
        return principal in self._users

    def users(self) -> list[PairedUser]:
        """The paired users, the first paired first."""
        return list(self._users.values())

    def pending(self, now: float) -> list[PairingRequest]:
        """The requests that can still be approved, the oldest first."""
        return [each for each in self._requests.values() if each.pending(now)]

    def request_of(self, principal: PrincipalId) -> PairingRequest | None:
        return self._requests.get(principal)

    def on_committed(self, event: Committed) -> None:
        """A request or a decision is in the store."""
        command = event.command
        if isinstance(command, RefusedMessage):
            if command.request is not None and not event.result.duplicate:
                self._add_request(command.request)
        elif isinstance(command, PairingChange):
            self._apply_change(command)
        elif isinstance(command, CommandEffect) and command.pairing is not None:
            self._apply_change(command.pairing)

    def _add_request(self, request: PairingRequest) -> None:
        """Requests that had expired by then are removed, as in the store."""
        past = [
            name for name, each in self._requests.items() if each.expires_at <= request.asked_at
        ]
        for name in (*past, request.principal):
            self._requests.pop(name, None)
        self._requests[request.principal] = request

    def _apply_change(self, change: PairingChange) -> None:
        if change.kind in (PairingKind.APPROVE, PairingKind.WRONG):
            self.wrong_codes = change.wrong
        if change.user is not None:
            self._requests.pop(change.user.principal, None)
            self._users[change.user.principal] = change.user
        if change.principal is None:
            return
        if change.kind is PairingKind.REVOKE:
            self._users.pop(change.principal, None)
        elif (asked := self._requests.get(change.principal)) is not None:
            self._requests[change.principal] = msgspec.structs.replace(asked, digest=b"")


class PairingRequests:
    """Sends pairing codes. Owns which senders are being sent one at the moment; the store has the
    codes, as hashes.

    An unknown sender gets a code in a direct chat, but no reply if they have a fresh one or if too
    many requests are pending, and never a reply in a group.
    """

    def __init__(
        self,
        writes: StoreWriter,
        runtime: Runtime,
        live_settings: LiveSettings,
        paired_users: PairedUsers,
        *,
        denied_access: DeniedAccessAudit,
        random: RandomBytes = secrets.token_bytes,
    ) -> None:
        self._denied_access = denied_access
        self._writes = writes
        self._runtime = runtime
        self._live_settings = live_settings
        self._paired_users = paired_users
        self._random = random
        self._requesting: dict[PrincipalId, tuple[str, str]] = {}

    async def handle_unknown_sender(self, inbound: Inbound) -> None:
        """Give its writer a code, where they are to get one. When this returns it is durable, and
        told by whichever process lives then; an event that comes twice is answered once."""
        principal = principal_of(inbound.source).id
        if not self._gets_code(inbound, principal):
            account = f"{inbound.source.platform}:{inbound.source.account}"
            await self._denied_access.record(AuditKind.SENDER_REFUSED, principal, account=account)
            return
        self._requesting[principal] = inbound.source.platform, inbound.source.account
        try:
            await self._send_code(inbound, principal)
        finally:
            del self._requesting[principal]

    async def refuse_with_notice(self, inbound: Inbound, text: str, *, reason: str) -> None:
        """Store the message as refused, with a notice that says why."""
        now = self._runtime.clock.now()
        there = msgspec.structs.replace(source_address(inbound.source), reply_to=inbound.message_id)
        notice = self._notice(there, text, DeliveryKind.NOTICE, expires_at=None)
        await self._writes.write(self._refusal(inbound, notice, reason=reason, at=now))

    def _gets_code(self, inbound: Inbound, principal: PrincipalId) -> bool:
        source, now = inbound.source, self._runtime.clock.now()
        settings = self._live_settings.current.account(source.platform, source.account)
        if source.chat_type is not ChatType.DM or source.author is not Author.PERSON:
            return False
        if not source.user_id:  # access for an empty id would be access for all such senders
            return False
        if settings is None or not settings.pairing or principal in self._requesting:
            return False
        asked = self._paired_users.request_of(principal)
        if asked is not None and asked.asked_at <= now < _next_code_at(asked):
            return False
        return self._has_room((source.platform, source.account), now)

    def _has_room(self, account: tuple[str, str], now: float) -> bool:
        waiting = [each.account for each in self._paired_users.pending(now)]
        full = [*waiting, *self._requesting.values()].count(account) >= MAX_PENDING
        if full:
            log.info(
                "Sent no pairing code to an unknown sender at %s:%s: %d requests are pending "
                "(`holdfast pairing list`)",
                *account,
                MAX_PENDING,
                extra={"action": "pairing_full"},
            )
        return not full

    async def _send_code(self, inbound: Inbound, principal: PrincipalId) -> None:
        code, salt = new_code(self._random), new_salt(self._random)
        digest = await asyncio.to_thread(hash_code, code, salt)
        now, source = self._runtime.clock.now(), inbound.source
        request = PairingRequest(
            principal=principal,
            address=source_address(source),
            user_id=source.user_id,
            user_name=source.user_name,
            salt=salt,
            digest=digest,
            asked_at=now,
            expires_at=now + CODE_LIFETIME,
        )
        text = _(CODE_TEXT).format(code=format_code(code))
        notice = self._notice(
            request.address, text, DeliveryKind.CODE, expires_at=request.expires_at
        )
        away = self._refusal(inbound, notice, reason=_CODE_SENT_REASON, at=now)
        await self._writes.write(msgspec.structs.replace(away, request=request))
        log.info(
            "Sent a pairing code to %s (`holdfast pairing list` shows pending requests)",
            principal,
            extra={"action": "pairing_code_sent"},
        )

    def _notice(
        self, address: Address, text: str, kind: DeliveryKind, *, expires_at: float | None
    ) -> NewDelivery:
        return NewDelivery(
            id=DeliveryId(self._runtime.new_id("dlv")),
            address=address,
            kind=kind,
            text=text,
            expires_at=expires_at,
        )

    def _refusal(
        self, inbound: Inbound, notice: NewDelivery, *, reason: str, at: float
    ) -> RefusedMessage:
        source = inbound.source
        return RefusedMessage(
            inbound=Inbound(
                source=source,
                event_id=inbound.event_id,
                message_id=inbound.message_id,
                text="",
                cursor=inbound.cursor,
            ),
            route=route_of(source, self._live_settings.current.sessions),
            principal=principal_of(source).id,
            reason=reason,
            deliveries=(notice,),
            at=at,
        )


def _next_code_at(request: PairingRequest) -> float:
    """When the person can get another code; after a denial, when this one would have expired."""
    return request.asked_at + NEW_CODE_AFTER if request.digest else request.expires_at


class PairingRefused(HoldfastError):
    """A pairing command is not possible; nothing is written."""


class PairingDecision(msgspec.Struct, frozen=True, kw_only=True):
    """The change to commit, and the reply to the operator."""

    change: PairingChange
    text: str

    @property
    def wrong(self) -> bool:
        """The code is unknown: only the failed attempt is committed."""
        return self.change.kind is PairingKind.WRONG


class PairingService:
    """Approves, denies and revokes, one at a time: two wrong codes tried at once count as two.
    Requests and users are in `PairedUsers`."""

    def __init__(
        self,
        writes: StoreWriter,
        runtime: Runtime,
        paired_users: PairedUsers,
        *,
        languages: ChatLanguages,
    ) -> None:
        self._writes = writes
        self._languages = languages
        self._runtime = runtime
        self._deciding = asyncio.Lock()
        self.paired_users = paired_users

    def pending(self) -> list[PairingRequest]:
        return self.paired_users.pending(self._runtime.clock.now())

    def locked_until(self) -> float | None:
        """Until when no code is accepted; None: codes are accepted."""
        until = self.paired_users.wrong_codes.locked_until
        return (
            until
            if is_in_future(until, self._runtime.clock.now(), lifetime=LOCKOUT_SECONDS)
            else None
        )

    async def approve(
        self, typed: str, *, by: PrincipalId, commit: "CommitDecision | None" = None
    ) -> PairingDecision:
        """Give access to the person with this code, and notify them once. Wrong codes are counted;
        after a few in a row, no code is accepted for a while."""
        async with self._deciding:
            self._check_not_locked()
            request = await self._request_with_code(typed)
            decided = (
                self._count_wrong_code(by=by) if request is None else self._pair(request, by=by)
            )
            return await self._commit(decided, commit)

    async def deny(
        self, name: str, *, by: str, commit: "CommitDecision | None" = None
    ) -> PairingDecision:
        """Invalidate the code of a person. They are not notified, and get no other code until this
        one would have expired."""
        async with self._deciding:
            names = [each.principal for each in self.pending()]
            who = _find_principal(name, names, missing=_NO_REQUEST)
            at = self._runtime.clock.now()
            change = PairingChange(kind=PairingKind.DENY, principal=who, by=by, at=at)
            return await self._commit(
                PairingDecision(change=change, text=_("Denied: {person}.").format(person=who)),
                commit,
            )

    async def revoke(
        self, name: str, *, by: str, commit: "CommitDecision | None" = None
    ) -> PairingDecision:
        """Take back the access of a person. Their running turns end normally."""
        async with self._deciding:
            names = [each.principal for each in self.paired_users.users()]
            who = _find_principal(name, names, missing=_NOT_PAIRED)
            at = self._runtime.clock.now()
            change = PairingChange(kind=PairingKind.REVOKE, principal=who, by=by, at=at)
            text = _("Revoked: {person} has no access any more.").format(person=who)
            return await self._commit(PairingDecision(change=change, text=text), commit)

    async def _commit(
        self, decision: PairingDecision, commit: "CommitDecision | None"
    ) -> PairingDecision:
        if commit is None:
            await self._writes.write(decision.change)
        else:
            await commit(decision)
        return decision

    def _check_not_locked(self) -> None:
        if (until := self.locked_until()) is None:
            return
        raise PairingRefused(
            "Codes are locked after {count} wrong codes in a row. Try again in {minutes} min.",
            count=MAX_WRONG_CODES,
            minutes=ceil((until - self._runtime.clock.now()) / 60),
        )

    async def _request_with_code(self, typed: str) -> PairingRequest | None:
        if (code := parse_code(typed)) is None:
            return None
        for request in self.pending():
            if await asyncio.to_thread(code_matches, code, request.salt, request.digest):
                return request
        return None

    def _count_wrong_code(self, *, by: str) -> PairingDecision:
        now, count = self._runtime.clock.now(), self.paired_users.wrong_codes.count + 1
        left = MAX_WRONG_CODES - count
        wrong = WrongCodes(count=count) if left else WrongCodes(locked_until=now + LOCKOUT_SECONDS)
        change = PairingChange(kind=PairingKind.WRONG, wrong=wrong, by=by, at=now)
        unknown = _("This code is wrong or has expired.")
        if left:
            limit = _n(
                "After {n} more wrong code, no code is accepted for an hour.",
                "After {n} more wrong codes, no code is accepted for an hour.",
                left,
            ).format(n=left)
        else:
            limit = _("No code is accepted for an hour.")
        return PairingDecision(change=change, text=f"{unknown} {limit}")

    def _pair(self, request: PairingRequest, *, by: PrincipalId) -> PairingDecision:
        now = self._runtime.clock.now()
        person = PairedUser(
            principal=request.principal,
            address=request.address,
            user_id=request.user_id,
            user_name=request.user_name,
            since=now,
            let_in_by=by,
        )
        with use_catalogue(self._languages.of_chat(request.address)):
            welcome = _(WELCOME_TEXT)
        notice = NewDelivery(
            id=DeliveryId(self._runtime.new_id("dlv")),
            address=request.address,
            kind=DeliveryKind.NOTICE,
            text=welcome,
        )
        change = PairingChange(kind=PairingKind.APPROVE, user=person, deliveries=(notice,), at=now)
        text = _("{person} has access now and gets a message about it.").format(
            person=person_with_name(request)
        )
        return PairingDecision(change=change, text=text)


CommitDecision = Callable[[PairingDecision], Awaitable[None]]
"""Commits the change of a decision, with all that belongs to it."""


def person_with_name(person: PairingRequest | PairedUser) -> str:
    """Name and principal for people to read. The name is not verified."""
    name = sanitise_name(person.user_name)
    return f"{name} ({person.principal})" if name else person.principal


_NO_REQUEST = N_("There is no access request of {name!r}. Use a name from the list.")
_NOT_PAIRED = N_("{name!r} is not a paired user. Use a name from the list.")


def _find_principal(name: str, names: list[PrincipalId], *, missing: str) -> PrincipalId:
    """By the full name of a principal, or by the person's id if that is unique. A full name comes
    first: ids are chosen by people, and one could look like another person's full name."""
    if name in names:
        return PrincipalId(name)
    found = [each for each in names if name == each.split(":", 2)[-1]]
    if len(found) == 1:
        return found[0]
    if found:
        raise PairingRefused(
            "{name!r} is not unique. Use the full name: {names}.", name=name, names=", ".join(found)
        )
    raise PairingRefused(missing, name=name)

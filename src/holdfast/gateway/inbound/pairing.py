"""Pairing: unknown people get a code, with which an operator lets them in.

`PairingRequests` gives out codes, `PairingService` approves, denies and revokes, and `PairedUsers`
is the copy of what the store has, so that no message waits for the store.
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
from holdfast.core.text.translation import N_, _, use_catalogue
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
_CODE_SENT_REASON = "not known here: a pairing code was sent instead of an answer"
WELCOME_TEXT = N_("You have access now. Write what you need, or send /help to see the commands.")

RandomBytes = Callable[[int], bytes]
"""Returns so many unpredictable bytes."""

log = logging.getLogger(__name__)


def new_code(random: RandomBytes) -> str:
    """Bytes that fall beyond a whole number of alphabets are thrown away: each letter is as
    likely as any other."""
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
    """In two halves, which are easier to read out."""
    return f"{code[:4]}-{code[4:]}"


def parse_code(typed: str) -> str | None:
    """The code that somebody typed, however they wrote it; None: it cannot be one."""
    plain = "".join(typed.split()).replace("-", "").upper()
    good = len(plain) == CODE_LENGTH and set(plain) <= set(CODE_ALPHABET)
    return plain if good else None


def hash_code(code: str, salt: bytes) -> bytes:
    """Slow by intent: not for the event loop."""
    return hashlib.scrypt(code.encode(), salt=salt, dklen=32, **_SCRYPT_COST)


def code_matches(code: str, salt: bytes, digest: bytes) -> bool:
    """As slow as `hash_code`, on purpose."""
    return hmac.compare_digest(hash_code(code, salt), digest)


PAIRING_COMMANDS = (RefusedMessage, PairingChange, CommandEffect)


class PairedUsers:
    """Owns the copy of the pairing requests and paired users in the store. Only commits change it.

    `principal in paired_users` is what `AccessPolicy` asks for every message of a person whom the
    configuration does not name.
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
        """Those that had expired by then are gone from the store, too."""
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
    """Owns who is being given a code at this instant; the codes are the store's, as hashes.

    In a chat of two somebody who may not talk gets a code; whoever has one that is fresh, and
    everybody once there are many, gets silence. In a group it is always silence.
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
        """Take the message only to say that it is not answered, and why."""
        now = self._runtime.clock.now()
        there = msgspec.structs.replace(source_address(inbound.source), reply_to=inbound.message_id)
        notice = self._notice(there, text, DeliveryKind.NOTICE, expires_at=None)
        await self._writes.write(self._refusal(inbound, notice, reason=reason, at=now))

    def _gets_code(self, inbound: Inbound, principal: PrincipalId) -> bool:
        source, now = inbound.source, self._runtime.clock.now()
        settings = self._live_settings.current.account(source.platform, source.account)
        if source.chat_type is not ChatType.DM or source.author is not Author.PERSON:
            return False
        if not source.user_id:  # to let in nobody in particular would let in everybody like that
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
                "Somebody at %s:%s got no pairing code: %d wait already. `holdfast pairing list` "
                "has them.",
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
            "%s was given a pairing code. `holdfast pairing list` shows who waits.",
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
    """When the person gets another code; after a denial, when this one would have expired."""
    return request.asked_at + NEW_CODE_AFTER if request.digest else request.expires_at


class PairingRefused(HoldfastError):
    """A pairing command that cannot be carried out; nothing is written."""


class PairingDecision(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be committed, and the reply to the operator."""

    change: PairingChange
    text: str

    @property
    def wrong(self) -> bool:
        """The code is unknown: only the failed try is committed."""
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
        """None: codes are taken."""
        until = self.paired_users.wrong_codes.locked_until
        return (
            until
            if is_in_future(until, self._runtime.clock.now(), lifetime=LOCKOUT_SECONDS)
            else None
        )

    async def approve(
        self, typed: str, *, by: PrincipalId, commit: "CommitDecision | None" = None
    ) -> PairingDecision:
        """Let in whose code it is, and tell them once. A wrong one is counted, and after a few in
        a row none is taken for a while."""
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
        """Their code is worth nothing any more, and they get no other in its time. They are not
        told: whoever asks without being known is owed nothing."""
        async with self._deciding:
            names = [each.principal for each in self.pending()]
            who = _find_principal(name, names, otherwise="waits to be let in")
            at = self._runtime.clock.now()
            change = PairingChange(kind=PairingKind.DENY, principal=who, by=by, at=at)
            return await self._commit(
                PairingDecision(change=change, text=f"Denied: {who}."), commit
            )

    async def revoke(
        self, name: str, *, by: str, commit: "CommitDecision | None" = None
    ) -> PairingDecision:
        """From the commit on they are an unknown sender; what runs for them runs to its end."""
        async with self._deciding:
            names = [each.principal for each in self.paired_users.users()]
            who = _find_principal(name, names, otherwise="was let in by a code")
            at = self._runtime.clock.now()
            change = PairingChange(kind=PairingKind.REVOKE, principal=who, by=by, at=at)
            text = f"Revoked: {who} may not talk here any more."
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
        minutes = ceil((until - self._runtime.clock.now()) / 60)
        raise PairingRefused(
            f"No code is taken for {minutes} more minute{'s' if minutes > 1 else ''}: "
            f"{MAX_WRONG_CODES} wrong ones were tried in a row."
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
        more = f"{left} more wrong ones" if left > 1 else "One more wrong one"
        limit_text = (
            f"{more} and none is taken for an hour." if left else "None is taken for an hour."
        )
        return PairingDecision(
            change=change, text=f"Nobody has this code, or it is over. {limit_text}"
        )

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
        return PairingDecision(
            change=change, text=f"{person_with_name(request)} is let in, and told so."
        )


CommitDecision = Callable[[PairingDecision], Awaitable[None]]
"""Commits the change of a decision, with whatever belongs to it."""


def person_with_name(person: PairingRequest | PairedUser) -> str:
    """Who it is, for people to read: the name is what they say of themselves."""
    name = sanitise_name(person.user_name)
    return f"{name} ({person.principal})" if name else person.principal


def _find_principal(name: str, names: list[PrincipalId], *, otherwise: str) -> PrincipalId:
    """By the whole name of a principal, or by the person's id where that is enough. Whoever is
    called as somebody else's whole name is called by their own: ids are people's to choose."""
    if name in names:
        return PrincipalId(name)
    found = [each for each in names if name == each.split(":", 2)[-1]]
    if len(found) == 1:
        return found[0]
    if found:
        raise PairingRefused(f"{name} is one of several: say which, {' or '.join(found)}.")
    raise PairingRefused(f"Nobody called {name or '(say who)'} {otherwise}.")

"""Strangers: people nobody knows yet, who are given a code to be let in by, now and then."""

import asyncio
import logging
import secrets

import msgspec

from holdfast.core.ids import DeliveryId, PrincipalId
from holdfast.core.messages.inbox import Accepted, Inbound
from holdfast.core.messages.outbox import Address, DeliveryKind, NewDelivery
from holdfast.core.messages.source import Author, ChatType
from holdfast.core.people.audit import AuditKind
from holdfast.core.people.pairing import (
    CODE_LIFETIME,
    MAX_PENDING,
    NEW_CODE_AFTER,
    PairingRequest,
    RefusedMessage,
)
from holdfast.gateway.inbound.authorise import principal_of
from holdfast.gateway.inbound.denials import DeniedAccessAudit
from holdfast.gateway.inbound.paired import PairedUsers
from holdfast.gateway.inbound.pairing_codes import (
    RandomBytes,
    format_code,
    hash_code,
    new_code,
    new_salt,
)
from holdfast.gateway.jobs.destinations import source_address
from holdfast.gateway.services import Services
from holdfast.gateway.sessions.resolver import route_of

log = logging.getLogger(__name__)

CODE_TEXT = (
    "I do not know you yet, so nobody has read what you wrote. Your pairing code is {code}, for an "
    "hour: tell it to whoever runs this gateway. They let you in with\n\n"
    "    holdfast pairing approve {code}\n\n"
    "and you will hear of it here."
)
_CODE_SENT_REASON = "not known here: a pairing code was sent instead of an answer"


class PairingRequests:
    """Owns who is being given a code at this instant; the codes are the store's, as hashes.

    In a chat of two somebody who may not talk gets a code; whoever has one that is fresh, and
    everybody once there are many, gets silence. In a group it is always silence.
    """

    def __init__(
        self,
        services: Services,
        paired_users: PairedUsers,
        *,
        denied_access: DeniedAccessAudit,
        random: RandomBytes = secrets.token_bytes,
    ) -> None:
        self._denied_access = denied_access
        self._services = services
        self._paired_users = paired_users
        self._random = random
        self._requesting: dict[PrincipalId, tuple[str, str]] = {}

    async def handle_unknown_sender(self, inbound: Inbound) -> None:
        """Give its writer a code, where they are to get one. When this returns it is durable, and
        told by whichever process lives then; an event that comes twice is answered once."""
        principal = principal_of(inbound.source).id
        if not self._gets_code(inbound, principal):
            place = f"{inbound.source.platform}:{inbound.source.account}"
            await self._denied_access.record(AuditKind.SENDER_REFUSED, principal, account=place)
            return
        self._requesting[principal] = inbound.source.platform, inbound.source.account
        try:
            await self._send_code(inbound, principal)
        finally:
            del self._requesting[principal]

    async def refuse_with_notice(self, inbound: Inbound, text: str, *, reason: str) -> None:
        """Take the message only to say that it is not answered, and why."""
        now = self._services.clock.now()
        there = msgspec.structs.replace(source_address(inbound.source), reply_to=inbound.message_id)
        notice = self._notice(there, text, DeliveryKind.NOTICE, expires_at=None)
        await self._write(self._refusal(inbound, notice, reason=reason, at=now))

    def _gets_code(self, inbound: Inbound, principal: PrincipalId) -> bool:
        source, now = inbound.source, self._services.clock.now()
        settings = self._services.settings.account(source.platform, source.account)
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
        now, source = self._services.clock.now(), inbound.source
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
        text = CODE_TEXT.format(code=format_code(code))
        told = self._notice(request.address, text, DeliveryKind.CODE, expires_at=request.expires_at)
        away = self._refusal(inbound, told, reason=_CODE_SENT_REASON, at=now)
        await self._write(msgspec.structs.replace(away, request=request))
        log.info(
            "%s was given a pairing code. `holdfast pairing list` shows who waits.",
            principal,
            extra={"action": "pairing_code_sent"},
        )

    def _notice(
        self, address: Address, text: str, kind: DeliveryKind, *, expires_at: float | None
    ) -> NewDelivery:
        return NewDelivery(
            id=DeliveryId(self._services.new_id("dlv")),
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
            route=route_of(source, self._services.settings.sessions),
            principal=principal_of(source).id,
            reason=reason,
            deliveries=(notice,),
            at=at,
        )

    async def _write(self, refusal: RefusedMessage) -> None:
        """Told by the commit itself, whether or not anybody still waits for it."""

        def kept(done: asyncio.Future[Accepted]) -> None:
            if done.cancelled() or done.exception() or done.result().duplicate:
                return
            if refusal.request is not None:
                self._paired_users.add_request(refusal.request)
            self._services.publisher.messages_ended((), refusal.deliveries)

        keeping = asyncio.ensure_future(self._services.store.refuse_message(refusal))
        keeping.add_done_callback(kept)
        await asyncio.shield(keeping)


def _next_code_at(request: PairingRequest) -> float:
    """When they get another code: one who was told no, when this one would have ended."""
    return request.asked_at + NEW_CODE_AFTER if request.digest else request.expires_at

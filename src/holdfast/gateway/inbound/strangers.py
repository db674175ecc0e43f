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
    ASKED_AGAIN_AFTER,
    CODE_LASTS,
    MOST_PENDING,
    PairingRequest,
    TurnAway,
)
from holdfast.gateway.inbound.authorise import principal_of
from holdfast.gateway.inbound.denials import Denials
from holdfast.gateway.inbound.paired import Paired
from holdfast.gateway.inbound.pairing_codes import Random, hashed, new_code, new_salt, shown
from holdfast.gateway.jobs.destinations import origin_of
from holdfast.gateway.services import House
from holdfast.gateway.sessions.resolver import route_of

log = logging.getLogger(__name__)

CODE = (
    "I do not know you yet, so nobody has read what you wrote. Your pairing code is {code}, for an "
    "hour: tell it to whoever runs this gateway. They let you in with\n\n"
    "    holdfast pairing approve {code}\n\n"
    "and you will hear of it here."
)
_REASON = "not known here: a pairing code was sent instead of an answer"


class Strangers:
    """Owns who is being given a code at this instant; the codes are the store's, as hashes.

    In a chat of two somebody who may not talk gets a code; whoever has one that is fresh, and
    everybody once there are many, gets silence. In a group it is always silence.
    """

    def __init__(
        self,
        house: House,
        paired: Paired,
        *,
        denials: Denials,
        random: Random = secrets.token_bytes,
    ) -> None:
        self._denials = denials
        self._house = house
        self._paired = paired
        self._random = random
        self._asking: dict[PrincipalId, tuple[str, str]] = {}

    async def turn_away(self, inbound: Inbound) -> None:
        """Give its writer a code, where they are to get one. When this returns it is durable, and
        told by whichever process lives then; an event that comes twice is answered once."""
        principal = principal_of(inbound.source).id
        if not self._welcome(inbound, principal):
            place = f"{inbound.source.platform}:{inbound.source.account}"
            await self._denials.note(AuditKind.STRANGER_REFUSED, principal, place=place)
            return
        self._asking[principal] = inbound.source.platform, inbound.source.account
        try:
            await self._give_code(inbound, principal)
        finally:
            del self._asking[principal]

    async def refuse(self, inbound: Inbound, text: str, *, reason: str) -> None:
        """Take the message only to say that it is not answered, and why."""
        now = self._house.clock.now()
        there = msgspec.structs.replace(origin_of(inbound.source), reply_to=inbound.message_id)
        notice = self._told(there, text, DeliveryKind.NOTICE, expires_at=None)
        await self._keep(self._away(inbound, notice, reason=reason, at=now))

    def _welcome(self, inbound: Inbound, principal: PrincipalId) -> bool:
        source, now = inbound.source, self._house.clock.now()
        settings = self._house.settings.account(source.platform, source.account)
        if source.chat_type is not ChatType.DM or source.author is not Author.PERSON:
            return False
        if not source.user_id:  # to let in nobody in particular would let in everybody like that
            return False
        if settings is None or not settings.pairing or principal in self._asking:
            return False
        asked = self._paired.request_of(principal)
        if asked is not None and asked.asked_at <= now < _again(asked):
            return False
        return self._room_at((source.platform, source.account), now)

    def _room_at(self, account: tuple[str, str], now: float) -> bool:
        waiting = [each.account for each in self._paired.pending(now)]
        full = [*waiting, *self._asking.values()].count(account) >= MOST_PENDING
        if full:
            log.info(
                "Somebody at %s:%s got no pairing code: %d wait already. `holdfast pairing list` "
                "has them.",
                *account,
                MOST_PENDING,
                extra={"action": "pairing_full"},
            )
        return not full

    async def _give_code(self, inbound: Inbound, principal: PrincipalId) -> None:
        code, salt = new_code(self._random), new_salt(self._random)
        digest = await asyncio.to_thread(hashed, code, salt)
        now, source = self._house.clock.now(), inbound.source
        request = PairingRequest(
            principal=principal,
            address=origin_of(source),
            user_id=source.user_id,
            user_name=source.user_name,
            salt=salt,
            digest=digest,
            asked_at=now,
            expires_at=now + CODE_LASTS,
        )
        text = CODE.format(code=shown(code))
        told = self._told(request.address, text, DeliveryKind.CODE, expires_at=request.expires_at)
        away = self._away(inbound, told, reason=_REASON, at=now)
        await self._keep(msgspec.structs.replace(away, request=request))
        log.info(
            "%s was given a pairing code. `holdfast pairing list` shows who waits.",
            principal,
            extra={"action": "pairing_asked"},
        )

    def _told(
        self, address: Address, text: str, kind: DeliveryKind, *, expires_at: float | None
    ) -> NewDelivery:
        return NewDelivery(
            id=DeliveryId(self._house.new_id("dlv")),
            address=address,
            kind=kind,
            text=text,
            expires_at=expires_at,
        )

    def _away(self, inbound: Inbound, told: NewDelivery, *, reason: str, at: float) -> TurnAway:
        source = inbound.source
        return TurnAway(
            inbound=Inbound(
                source=source,
                event_id=inbound.event_id,
                message_id=inbound.message_id,
                text="",
                cursor=inbound.cursor,
            ),
            route=route_of(source, self._house.settings.sessions),
            principal=principal_of(source).id,
            reason=reason,
            deliveries=(told,),
            at=at,
        )

    async def _keep(self, away: TurnAway) -> None:
        """Told by the commit itself, whether or not anybody still waits for it."""

        def kept(done: asyncio.Future[Accepted]) -> None:
            if done.cancelled() or done.exception() or done.result().duplicate:
                return
            if away.request is not None:
                self._paired.asked(away.request)
            self._house.announcer.messages((), away.deliveries)

        keeping = asyncio.ensure_future(self._house.store.turn_away(away))
        keeping.add_done_callback(kept)
        await asyncio.shield(keeping)


def _again(asked: PairingRequest) -> float:
    """When they get another code: one who was told no, when this one would have ended."""
    return asked.asked_at + ASKED_AGAIN_AFTER if asked.digest else asked.expires_at

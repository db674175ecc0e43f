"""Posting: deliveries of several messages, and those shown as they grow, brought to a platform."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import msgspec

from holdfast.core.crash_points import CrashHook, CrashPoint
from holdfast.core.errors import (
    NotConnected,
    OutcomeUnknown,
    SendError,
    SendRejected,
    StoreError,
    Throttled,
)
from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import (
    Address,
    Button,
    DeliveryPart,
    DeliveryState,
    MessageEdit,
    Outbound,
    Receipt,
    part_delivery_id,
)
from holdfast.core.ports.journal import StoreWriter
from holdfast.core.ports.protocols import Clock, Platform, SupportsEditing
from holdfast.gateway.accounts.registry import PlatformRegistry
from holdfast.gateway.outbound.door_edge import PlatformErrorBoundary
from holdfast.gateway.outbound.looking_up import look_up_receipt
from holdfast.gateway.redaction import Redaction

log = logging.getLogger(__name__)

_STORE_RETRY_WAIT = 1.0


class OutgoingPart(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a delivery: where it goes and what it is to say by then."""

    delivery_id: DeliveryId
    address: Address
    text: str
    final: bool  # no other words come after these
    buttons: tuple[Button, ...] = ()


class PartSender:
    """Puts one part where it belongs: sent the first time, changed after that.

    Each attempt to send is committed before it is made, and what became of it is committed
    before anything else is tried. A change may be made twice, so it needs no such record.
    """

    def __init__(
        self,
        platforms: PlatformRegistry,
        *,
        writes: StoreWriter,
        clock: Clock,
        crash: CrashHook,
        redact: Redaction,
    ) -> None:
        self._platforms = platforms
        self._redact = redact  # what a door complains of
        self._writes = writes
        self._clock = clock
        self._crash = crash

    async def send_or_edit(
        self, outgoing: OutgoingPart, part: DeliveryPart, platform: Platform
    ) -> DeliveryPart:
        """One try; the part as it stands then. Raises the `SendError` after it was recorded; see
        `outcome` for how the part stands then."""
        if part.platform_message_id is None:
            return await self._send(outgoing, part, platform)
        return await self._edit(outgoing, part, platform, part.platform_message_id)

    async def _send(
        self, outgoing: OutgoingPart, part: DeliveryPart, platform: Platform
    ) -> DeliveryPart:
        name, once = (
            part_delivery_id(outgoing.delivery_id, part.number),
            platform.capabilities.can_resolve_unknown,
        )
        if part.outcome_unknown and (
            found := await look_up_receipt(name, outgoing.address, platform)
        ):
            return await self._record_receipt(outgoing, part, platform, found)
        await self._record_attempt(outgoing.delivery_id, part.number)
        self._crash(CrashPoint.ATTEMPT_COMMITTED)
        outbound = Outbound(
            delivery_id=name,
            address=outgoing.address,
            text=outgoing.text,
            buttons=outgoing.buttons if platform.capabilities.buttons else (),
            may_be_duplicate=part.outcome_unknown and not once,
            part=part.number,
        )
        try:
            with PlatformErrorBoundary(platform):
                receipt = await platform.send(outbound)
        except SendError as error:
            known = part_after_error(part, error, final=outgoing.final)
            await self.record(outgoing.delivery_id, known, error=str(error))
            raise
        self._crash(CrashPoint.SENT)
        return await self._record_receipt(outgoing, part, platform, receipt)

    async def _record_receipt(
        self, outgoing: OutgoingPart, part: DeliveryPart, platform: Platform, receipt: Receipt
    ) -> DeliveryPart:
        self._mark_reachable(platform)
        # What was taken before may have the words of the attempt before, and is changed then;
        # where nothing can be changed, those are the words that it has.
        earlier = part.outcome_unknown and platform.capabilities.can_resolve_unknown
        sent = msgspec.structs.replace(
            part,
            state=DeliveryState.SENT,
            platform_message_id=receipt.platform_message_id,
            final=outgoing.final and not (earlier and editor_of(platform) is not None),
        )
        await self.record(outgoing.delivery_id, sent)
        self._crash(CrashPoint.RECEIPT_COMMITTED)
        return sent

    async def _edit(
        self, outgoing: OutgoingPart, part: DeliveryPart, platform: Platform, message_id: str
    ) -> DeliveryPart:
        editor = editor_of(platform)
        assert editor is not None, "what cannot be changed is said anew: `changeable`"
        change = MessageEdit(
            delivery_id=part_delivery_id(outgoing.delivery_id, part.number),
            address=outgoing.address,
            platform_message_id=message_id,
            text=outgoing.text,
        )
        with PlatformErrorBoundary(platform):
            await editor.edit(change)
        self._crash(CrashPoint.EDIT_SENT)
        return await self.mark_shown(outgoing, part) if outgoing.final else part

    async def mark_shown(self, outgoing: OutgoingPart, part: DeliveryPart) -> DeliveryPart:
        """The platform shows the last words of the part."""
        shown = msgspec.structs.replace(part, state=DeliveryState.SENT, final=True)
        await self.record(outgoing.delivery_id, shown)
        self._crash(CrashPoint.EDIT_COMMITTED)
        return shown

    async def record(self, delivery_id: DeliveryId, part: DeliveryPart, *, error: str = "") -> None:
        """Write what is known of a part, until the store takes it: to try it again instead would
        send what the platform already has."""
        settle, error = self._writes.settle_part, error and self._redact(error)
        await _write_until_stored(
            lambda: settle(delivery_id, part, at=self._clock.now(), error=error)
        )

    async def _record_attempt(self, delivery_id: DeliveryId, number: int) -> None:
        """Sending what cannot be recorded would send it again after a restart."""
        begin = self._writes.begin_part
        await _write_until_stored(lambda: begin(delivery_id, number, at=self._clock.now()))

    def _mark_reachable(self, platform: Platform) -> None:
        self._platforms.mark_reachable(platform.name, platform.account)


async def _write_until_stored(write: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            await write()
            return
        except StoreError as failure:
            log.error(
                "A delivery waits for the store: %s",
                failure,
                extra={"action": "outbox_waiting_for_store"},
            )
            await asyncio.sleep(_STORE_RETRY_WAIT)


def editor_of(platform: Platform) -> SupportsEditing | None:
    """Whoever can change what was sent there; None: nobody."""
    if platform.capabilities.edit and isinstance(platform, SupportsEditing):
        return platform
    return None


def editable_part(part: DeliveryPart, platform: Platform) -> DeliveryPart:
    """Where nobody can change what a part shows any more, it is said anew, once, and says so."""
    if part.platform_message_id is None or editor_of(platform) is not None:
        return part
    resends = 0 if part.state is DeliveryState.SENT else part.resends
    return msgspec.structs.replace(
        part, platform_message_id=None, outcome_unknown=True, resends=resends
    )


def part_after_error(part: DeliveryPart, error: SendError, *, final: bool) -> DeliveryPart:
    """The part after an attempt to send that ended so. Words that were refused half-way may be
    taken when they are whole."""
    match error:
        case Throttled() | NotConnected():
            return msgspec.structs.replace(part, state=DeliveryState.PENDING)
        case SendRejected():
            state = DeliveryState.FAILED if final else DeliveryState.PENDING
            return msgspec.structs.replace(part, state=state)
        case OutcomeUnknown():
            resends = part.resends + part.outcome_unknown
            return msgspec.structs.replace(
                part, state=DeliveryState.UNKNOWN, outcome_unknown=True, resends=resends
            )
    raise error


def recovered_part(part: DeliveryPart) -> DeliveryPart:
    """A part as an earlier process left it: an attempt without an outcome was cut between the
    send and its receipt."""
    if part.state is DeliveryState.SENDING:
        return msgspec.structs.replace(part, outcome_unknown=True)
    return part

"""Attempts: one send of one parcel, written before it is made, and what is known of it after."""

import asyncio
import logging
from collections.abc import Callable

from holdfast.core.crash_points import CrashHook, CrashPoint
from holdfast.core.errors import StoreError
from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import DeliveryState, Outbound, OutboundFile, Receipt
from holdfast.core.ports.journal import StoreWriter
from holdfast.core.ports.protocols import Clock, Platform
from holdfast.gateway.accounts.registry import PlatformRegistry
from holdfast.gateway.outbound.door_edge import PlatformErrorBoundary
from holdfast.gateway.outbound.files import OutgoingFiles
from holdfast.gateway.outbound.looking_up import look_up_receipt
from holdfast.gateway.outbound.parcel import QueuedDelivery
from holdfast.gateway.outbound.receipts import DeliveryWaiters
from holdfast.gateway.redaction import Redaction
from holdfast.gateway.traces import MessageTracer

log = logging.getLogger(__name__)

FIRST_WAIT = 1.0  # seconds before a store or a platform that failed is asked again


class DeliverySender:
    """Owns whose turn it is to send a file; what is known of an attempt is in the store."""

    def __init__(
        self,
        platforms: PlatformRegistry,
        *,
        writes: StoreWriter,
        clock: Clock,
        redact: Redaction,
        crash: CrashHook,
        outgoing_files: OutgoingFiles,
        delivery_waiters: DeliveryWaiters,
        on_failed: Callable[[DeliveryId], None],
        tracer: MessageTracer | None = None,
    ) -> None:
        self._tracer = tracer
        self._platforms = platforms
        self._writes = writes
        self._clock = clock
        self._redact = redact
        self._crash = crash
        self._outgoing_files = outgoing_files
        self._delivery_waiters = delivery_waiters
        self._on_failed = on_failed  # told what will never arrive
        # Files may be large: of each account one is read, and held until it is sent.
        self._file_locks: dict[tuple[str, str], asyncio.Lock] = {}

    def end_without_sending(
        self, delivery: QueuedDelivery, platform: Platform | None
    ) -> tuple[DeliveryState, str] | None:
        """How it ends, and why, where nothing is to be sent any more."""
        if platform is None:
            return DeliveryState.FAILED, "its platform is not configured any more"
        if delivery.expires_at is not None and delivery.expires_at < self._clock.now():
            return DeliveryState.FAILED, "expired before it could be sent"
        if delivery.resent and not platform.capabilities.can_resolve_unknown:
            return DeliveryState.UNKNOWN, "no receipt, and it was already sent again once"
        return None

    async def attempt(self, delivery: QueuedDelivery, platform: Platform) -> None:
        """Send it, or find that it has arrived. Raises a `SendError` that says what is known of
        its fate."""
        if delivery.outcome_unknown and (
            found := await look_up_receipt(delivery.id, delivery.address, platform)
        ):
            await self._record_receipt(delivery, platform, found)
            return
        if delivery.file is None:
            await self._send(delivery, platform, None)
            return
        account = (platform.name, platform.account)
        async with self._file_locks.setdefault(account, asyncio.Lock()):
            await self._send(delivery, platform, await self._outgoing_files.load(delivery.file))

    async def _send(
        self, delivery: QueuedDelivery, platform: Platform, file: OutboundFile | None
    ) -> None:
        await self._writes.begin_attempt(delivery.id, at=self._clock.now())
        self._crash(CrashPoint.ATTEMPT_COMMITTED)
        outbound = Outbound(
            delivery_id=delivery.id,
            address=delivery.address,
            text=self._redact(delivery.text),
            buttons=delivery.buttons if platform.capabilities.buttons else (),
            file=file,
            # A platform that knows the delivery id takes it once: nothing to mark.
            may_be_duplicate=delivery.outcome_unknown
            and not platform.capabilities.can_resolve_unknown,
        )
        with PlatformErrorBoundary(platform):
            receipt = await platform.send(outbound)
        self._crash(CrashPoint.SENT)
        await self._record_receipt(delivery, platform, receipt)

    async def _record_receipt(
        self, delivery: QueuedDelivery, platform: Platform, receipt: Receipt
    ) -> None:
        self._platforms.mark_reachable(platform.name, platform.account)
        await self.settle(delivery, DeliveryState.SENT, message_id=receipt.platform_message_id)
        self._crash(CrashPoint.RECEIPT_COMMITTED)

    async def settle(
        self,
        delivery: QueuedDelivery,
        state: DeliveryState,
        *,
        message_id: str | None = None,
        error: str = "",
    ) -> None:
        """Write what is known of an attempt, until the store takes it: to try the delivery
        again instead would send what the platform already has."""
        while True:
            try:
                await self._writes.settle_delivery(
                    delivery.id,
                    state,
                    at=self._clock.now(),
                    platform_message_id=message_id,
                    error=error and self._redact(error),
                )
                break
            except StoreError as failure:
                about = {"action": "outbox_waiting_for_store", "session": delivery.session_id}
                log.error("A receipt waits for the store: %s", failure, extra=about)
                await asyncio.sleep(FIRST_WAIT)
        if self._tracer is not None:
            self._tracer.record_attempt(delivery, state)
        self._delivery_waiters.notify(delivery.id)
        if state is DeliveryState.FAILED:
            self._on_failed(delivery.id)
        if delivery.file is not None and state in (DeliveryState.SENT, DeliveryState.FAILED):
            await self._outgoing_files.discard(delivery.file)

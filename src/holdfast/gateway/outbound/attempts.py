"""Attempts: one send of one parcel, written before it is made, and what is known of it after."""

import asyncio
import logging
from collections.abc import Callable

from holdfast.core.crash_points import Crash, CrashPoint
from holdfast.core.errors import StoreError
from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import DeliveryState, Outbound, Receipt, SentFile
from holdfast.core.ports.journal import Journal
from holdfast.core.ports.protocols import Clock, Platform
from holdfast.gateway.accounts.registry import Doors
from holdfast.gateway.outbound.door_edge import DoorEdge
from holdfast.gateway.outbound.files import OutgoingFiles
from holdfast.gateway.outbound.looking_up import looked_up
from holdfast.gateway.outbound.parcel import Parcel
from holdfast.gateway.outbound.receipts import Receipts
from holdfast.gateway.redaction import Redaction
from holdfast.gateway.traces import Traces

log = logging.getLogger(__name__)

FIRST_WAIT = 1.0  # seconds before a store or a platform that failed is asked again


class Attempts:
    """Owns whose turn it is to send a file; what is known of an attempt is in the store."""

    def __init__(
        self,
        doors: Doors,
        *,
        journal: Journal,
        clock: Clock,
        redact: Redaction,
        crash: Crash,
        outgoing: OutgoingFiles,
        receipts: Receipts,
        failed: Callable[[DeliveryId], None],
        traces: Traces | None = None,
    ) -> None:
        self._traces = traces
        self._doors = doors
        self._journal = journal
        self._clock = clock
        self._redact = redact
        self._crash = crash
        self._outgoing = outgoing
        self._receipts = receipts
        self._failed = failed  # told what will never arrive
        # Files may be large: of each account one is read, and held until it is sent.
        self._files: dict[tuple[str, str], asyncio.Lock] = {}

    def end_without_sending(
        self, parcel: Parcel, platform: Platform | None
    ) -> tuple[DeliveryState, str] | None:
        """How it ends, and why, where nothing is to be sent any more."""
        if platform is None:
            return DeliveryState.FAILED, "its platform is not configured any more"
        if parcel.expires_at is not None and parcel.expires_at < self._clock.now():
            return DeliveryState.FAILED, "expired before it could be sent"
        if parcel.repeated and not platform.capabilities.settles_doubt:
            return DeliveryState.UNKNOWN, "no receipt, and it was already sent again once"
        return None

    async def attempt(self, parcel: Parcel, platform: Platform) -> None:
        """Send it, or find that it has arrived. Raises a `SendError` that says what is known of
        its fate."""
        if parcel.doubtful and (found := await looked_up(parcel.id, parcel.address, platform)):
            await self._arrived(parcel, platform, found)
            return
        if parcel.file is None:
            await self._send(parcel, platform, None)
            return
        account = (platform.name, platform.account)
        async with self._files.setdefault(account, asyncio.Lock()):
            await self._send(parcel, platform, await self._outgoing.get(parcel.file))

    async def _send(self, parcel: Parcel, platform: Platform, file: SentFile | None) -> None:
        await self._journal.begin_attempt(parcel.id, at=self._clock.now())
        self._crash(CrashPoint.ATTEMPT_COMMITTED)
        outbound = Outbound(
            delivery_id=parcel.id,
            address=parcel.address,
            text=self._redact(parcel.text),
            choices=parcel.choices if platform.capabilities.buttons else (),
            file=file,
            # A platform that knows the delivery id takes it once: nothing to mark.
            maybe_repeated=parcel.doubtful and not platform.capabilities.settles_doubt,
        )
        with DoorEdge(platform):
            receipt = await platform.send(outbound)
        self._crash(CrashPoint.SENT)
        await self._arrived(parcel, platform, receipt)

    async def _arrived(self, parcel: Parcel, platform: Platform, receipt: Receipt) -> None:
        self._doors.proven(platform.name, platform.account)
        await self.settle(parcel, DeliveryState.SENT, message_id=receipt.platform_message_id)
        self._crash(CrashPoint.RECEIPT_COMMITTED)

    async def settle(
        self,
        parcel: Parcel,
        state: DeliveryState,
        *,
        message_id: str | None = None,
        error: str = "",
    ) -> None:
        """Write what is known of an attempt, until the store takes it: to try the delivery
        again instead would send what the platform already has."""
        while True:
            try:
                await self._journal.settle_delivery(
                    parcel.id,
                    state,
                    at=self._clock.now(),
                    platform_message_id=message_id,
                    error=error and self._redact(error),
                )
                break
            except StoreError as failure:
                about = {"action": "outbox", "session": parcel.session_id}
                log.error("A receipt waits for the store: %s", failure, extra=about)
                await asyncio.sleep(FIRST_WAIT)
        if self._traces is not None:
            self._traces.settled(parcel, state)
        self._receipts.settled(parcel.id)
        if state is DeliveryState.FAILED:
            self._failed(parcel.id)
        if parcel.file is not None and state in (DeliveryState.SENT, DeliveryState.FAILED):
            await self._outgoing.done_with(parcel.file)

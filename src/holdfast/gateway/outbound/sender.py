"""Sends deliveries: commit the attempt, call the platform, commit the receipt, retry.

A delivery has one or more parts, and each part is one message. A part is sent once, and edited
after that. A streamed reply is a delivery whose first part was sent before its text was complete.
Every send is committed before it is made, and its outcome before anything else is tried, so that
after a crash the store shows which sends may have arrived. A send without a receipt is looked up if
the platform supports it, and otherwise sent again once, marked as a possible duplicate.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

import msgspec

from holdfast.core.crash_points import CrashPoint
from holdfast.core.errors import (
    EditRefused,
    NotConnected,
    OutcomeUnknown,
    SendError,
    SendRejected,
    StoreError,
    Throttled,
)
from holdfast.core.ids import DeliveryId, SessionId
from holdfast.core.messages.outbox import (
    Address,
    Button,
    DeliveryPart,
    DeliveryState,
    MessageEdit,
    NewDelivery,
    Outbound,
    OutboundFile,
    PendingFile,
    Receipt,
    StartedDelivery,
    part_delivery_id,
)
from holdfast.core.ports.command import Committed, Scope, WriteFailed
from holdfast.core.ports.platform import (
    Platform,
    SupportsEditing,
    SupportsLookup,
    SupportsRendering,
)
from holdfast.core.ports.runtime import Runtime
from holdfast.core.ports.store import StoreWriter
from holdfast.core.ports.store_commands import (
    BeginAttempt,
    BeginPart,
    BeginStream,
    ReportFailedDelivery,
    SettleDelivery,
    SettlePart,
)
from holdfast.core.retry import (
    DELIVERY_STATE_RETRY,
    MAX_REFUSED_EDITS,
    MAX_UNANSWERED_EDITS,
    RESEND_RETRY,
    edit_retry,
)
from holdfast.core.text.splitting import split_message
from holdfast.gateway.accounts.registry import PlatformRegistry
from holdfast.gateway.outbound.delivery import DeliveryWaiters, QueuedDelivery
from holdfast.gateway.outbound.failure_reports import FailureReports
from holdfast.gateway.outbound.files import OutgoingFiles
from holdfast.gateway.outbound.rate_limit import SendGate
from holdfast.gateway.redaction import Redaction
from holdfast.gateway.tracing import MessageTracer

log = logging.getLogger(__name__)


class PlatformErrorBoundary:
    """Wraps one call of a platform: converts an exception that the port does not name to
    `OutcomeUnknown`. Any other exception would end the queue of its chat for good."""

    __slots__ = ("_platform",)

    def __init__(self, platform: Platform) -> None:
        self._platform = platform

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not isinstance(error, Exception) or isinstance(error, SendError | StoreError):
            return
        name = f"{self._platform.name}:{self._platform.account}"
        about = {"action": "platform_failed"}
        log.error(
            "Platform %s raised an unexpected error: %r", name, error, exc_info=error, extra=about
        )
        raise OutcomeUnknown(
            "platform {name} raised an unexpected error: {error!r}", name=name, error=error
        ) from error


class DeliveryOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a delivery ended as a whole."""

    state: DeliveryState
    message_id: str | None = None  # of its first part
    error: str = ""
    cause: SendError | None = None  # why it was refused, if it was


class OutgoingPart(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a delivery: its address, the text that it should show, and where its state is
    stored."""

    delivery_id: DeliveryId
    scope: Scope
    address: Address
    text: str
    # None: its reply is still being written, and the text grows.
    delivery: QueuedDelivery | None = None
    count: int = 1  # the number of parts of the delivery
    earlier: tuple[DeliveryPart, ...] = ()  # the parts before it, with their final states
    alone: bool = False  # the only part: the row of the delivery is its row
    new_row: NewDelivery | None = None  # the delivery has no row yet: the first attempt writes it
    buttons: tuple[Button, ...] = ()
    file: PendingFile | None = None

    @property
    def final(self) -> bool:
        """Whether the text is complete."""
        return self.delivery is not None

    @property
    def is_last(self) -> bool:
        return self.final and len(self.earlier) + 1 == self.count

    def delivery_outcome(self, part: DeliveryPart, error: SendError | str = "") -> DeliveryOutcome:
        """How the delivery ends if this part is its last, or has failed."""
        parts = (*self.earlier, part)
        message_id = parts[0].platform_message_id
        if part.state is DeliveryState.FAILED:
            why = f"{error}" if self.count == 1 else f"part {part.number} of {self.count}: {error}"
            cause = error if isinstance(error, SendError) else None
            return DeliveryOutcome(state=part.state, message_id=message_id, error=why, cause=cause)
        unknown = [str(each.number) for each in parts if each.state is not DeliveryState.SENT]
        if not unknown:
            replaced = [
                f"sent as a new message: {each.replaced}" for each in parts if each.replaced
            ]
            return DeliveryOutcome(
                state=DeliveryState.SENT, message_id=message_id, error="; ".join(replaced)
            )
        why = "no receipt, and it was already sent again once"
        if self.count > 1:
            why = f"no receipt for part {', '.join(unknown)}, which was already sent again once"
        return DeliveryOutcome(state=DeliveryState.UNKNOWN, message_id=message_id, error=why)


class Sender:
    """Brings deliveries to their end. Owns one lock for each account, for sending files, and the
    ends that are written without waiting for them. The state of each attempt is in the store."""

    def __init__(
        self,
        platforms: PlatformRegistry,
        runtime: Runtime,
        *,
        writes: StoreWriter,
        redact: Redaction,
        outgoing_files: OutgoingFiles,
        failure_reports: FailureReports,
        delivery_waiters: DeliveryWaiters,
        tracer: MessageTracer | None = None,
    ) -> None:
        self._tracer = tracer
        self._platforms = platforms
        self._writes = writes
        self._clock = runtime.clock
        self._crash = runtime.crash
        self._redact = redact
        self._outgoing_files = outgoing_files
        self._failure_reports = failure_reports
        self._delivery_waiters = delivery_waiters
        # Files may be large: each account has at most one in memory, until it is sent.
        self._file_locks: dict[tuple[str, str], asyncio.Lock] = {}
        # The ends that nothing waits for: queued, or refused by the store and retried then.
        self._deferred: dict[DeliveryId, asyncio.TimerHandle | None] = {}

    def close(self) -> None:
        """Stop retrying. Queued ends are committed when the store is closed."""
        for retry in self._deferred.values():
            if retry is not None:
                retry.cancel()
        self._deferred.clear()

    def on_committed(self, event: Committed) -> None:
        """Notify the waiters of a delivery whose stored state has changed."""
        assert isinstance(event.command, SettleDelivery), "subscribed to no other command"
        delivery_id = event.command.delivery_id
        self._delivery_waiters.notify(delivery_id)
        if delivery_id in self._deferred:
            del self._deferred[delivery_id]
            self._crash(CrashPoint.EDIT_COMMITTED)

    def on_reported(self, event: Committed) -> None:
        """Notify the waiters of a delivery that failed, and about which a report was written."""
        assert isinstance(event.command, ReportFailedDelivery), "subscribed to no other command"
        self._delivery_waiters.notify(event.command.end.delivery_id)

    def on_failed(self, event: WriteFailed) -> None:
        """Retry the write of an end that nothing waits for."""
        end = event.command
        assert isinstance(end, SettleDelivery), "subscribed to no other command"
        if end.delivery_id in self._deferred:
            wait = _log_refused_write(event.error, end.scope.session_id)
            loop = asyncio.get_running_loop()
            self._deferred[end.delivery_id] = loop.call_later(wait, self._write_deferred, end)

    async def deliver(
        self, delivery: QueuedDelivery, send_gate: SendGate, *, started: StartedDelivery | None
    ) -> None:
        """Bring the delivery to its end: sent, failed, or unknown for good. Parts are sent in
        order; a part that fails ends the delivery, since the rest would make no sense. `started` is
        what an earlier process, or the stream of its turn, has sent of it."""
        if delivery.stale:  # decided without its platform, which may never connect again
            await self._fail(
                delivery, "expired: it was only valid while the process that created it ran"
            )
            return
        await send_gate.wait_until_connected()  # its capabilities are known only then
        platform = self._platforms.find(delivery.address)
        if (why := self._undeliverable(delivery, platform)) is not None:
            await self._fail(delivery, why)
            return
        assert platform is not None, "a delivery without a platform has ended"
        known = {} if started is None else {each.number: each for each in started.parts}
        text = self._redact(delivery.text)  # before it is split: half a secret is not recognised
        texts = (text,) if delivery.file else split_for_platform(text, platform)
        done: tuple[DeliveryPart, ...] = ()
        for number, part_text in enumerate(texts, 1):
            outgoing = OutgoingPart(
                delivery_id=delivery.id,
                scope=delivery.scope,
                address=delivery.address,
                text=part_text,
                delivery=delivery,
                count=len(texts),
                earlier=done,
                alone=not known and texts == (text,),
                buttons=delivery.buttons if number == len(texts) else (),
                file=delivery.file,
            )
            part = _recovered(known.get(number, DeliveryPart(number=number)), delivery)
            shown_text = started.shown_text if started and number == 1 else ""
            part = await self._complete(outgoing, part, send_gate, shown_text=shown_text)
            if part.state is DeliveryState.FAILED:
                return
            done = (*done, part)

    async def _complete(
        self, outgoing: OutgoingPart, part: DeliveryPart, send_gate: SendGate, *, shown_text: str
    ) -> DeliveryPart:
        """Try until the part shows its final text, is refused for good, or is unknown for good.
        With the last part, or one that fails, the end of the delivery is committed or queued when
        this returns."""
        delivery = outgoing.delivery
        assert delivery is not None, "only a complete text has a delivery"
        if part.final or (part.state is DeliveryState.SENT and shown_text == outgoing.text):
            return await self._commit_shown(outgoing, part)
        if part.state is DeliveryState.FAILED:
            await self._commit_outcome(outgoing, part, error="refused before the last restart")
        failed_edits = unknown_outcomes = 0
        while part.state is not DeliveryState.FAILED:
            await send_gate.wait()
            platform = self._platforms.find(delivery.address)
            if not outgoing.earlier and part.platform_message_id is None:
                why = self._undeliverable(delivery, platform)
                if why is not None:
                    await self._fail(delivery, why)
                    return msgspec.structs.replace(part, state=DeliveryState.FAILED)
            assert platform is not None, "an account that was removed is not connected"
            part = _sendable(part, platform)
            if _is_used_up(part, platform):
                return await self._commit_unknown(outgoing, part)
            try:
                part = await self.attempt(outgoing, part, platform)
                if part.final:
                    return part
            except StoreError as error:
                await _wait_for_store(error, delivery)
            except (Throttled, NotConnected) as error:
                send_gate.record_blocked(error)
                if part.platform_message_id is None:
                    part = part_after_error(part, error, final=True)
            except (SendRejected, OutcomeUnknown) as error:
                if part.platform_message_id is None:
                    if part.outcome_unknown:  # only the first resend is made at once
                        unknown_outcomes += 1
                        send_gate.hold(RESEND_RETRY.wait(unknown_outcomes))
                    part = part_after_error(part, error, final=True)
                    delivery = msgspec.structs.replace(
                        delivery, outcome_unknown=part.outcome_unknown
                    )
                    outgoing = msgspec.structs.replace(outgoing, delivery=delivery)
                    continue
                failed_edits += 1
                part = await self._after_failed_edit(outgoing, part, error, failed_edits)
                if part.platform_message_id is not None:
                    retry = edit_retry(platform.capabilities.edit_interval)
                    send_gate.hold(retry.wait(failed_edits - 1))
        return part

    async def _after_failed_edit(
        self, outgoing: OutgoingPart, part: DeliveryPart, error: SendError, failed_edits: int
    ) -> DeliveryPart:
        """The part after an edit that left an incomplete message in the chat. An edit that is
        refused now may be accepted later; the text of one that never is goes into a new message. An
        edit without an answer may have been made, so its text is not sent a second time."""
        refused = isinstance(error, SendRejected)
        if isinstance(error, EditRefused) or (refused and failed_edits >= MAX_REFUSED_EDITS):
            return await self._replace_message(outgoing, part, error)
        if failed_edits >= MAX_UNANSWERED_EDITS:
            part = msgspec.structs.replace(part, state=DeliveryState.FAILED)
            await self._commit_outcome(outgoing, part, error=error)
        return part

    async def _replace_message(
        self, outgoing: OutgoingPart, part: DeliveryPart, error: SendError
    ) -> DeliveryPart:
        """Record that the message of the part can no longer be edited, before its text is sent as a
        new one. Nothing of the new message was sent yet, so it carries no mark."""
        about = {"action": "message_replaced", "session": outgoing.scope.session_id}
        log.warning(
            "Could not edit message %s of delivery %s: %s; sending its text as a new message",
            part.platform_message_id,
            outgoing.delivery_id,
            error,
            extra=about,
        )
        replaced = DeliveryPart(number=part.number, replaced=self._redact(str(error)))
        await self._commit_outcome(outgoing, replaced, error=error)
        return replaced

    async def attempt(
        self, outgoing: OutgoingPart, part: DeliveryPart, platform: Platform
    ) -> DeliveryPart:
        """Send the part, edit it if it was sent before, or find that it has arrived. Returns the
        part with its receipt committed. Raises the `SendError` after recording it
        (`part_after_error` gives the state of the part then), and `StoreError` if the attempt
        cannot be recorded: then it is not made."""
        if part.platform_message_id is not None:
            return await self._edit(outgoing, part, platform, part.platform_message_id)
        can = platform.capabilities
        delivery_id = part_delivery_id(
            outgoing.delivery_id, part.number, replaced=bool(part.replaced)
        )
        try:
            if part.outcome_unknown and (
                found := await look_up_receipt(delivery_id, outgoing.address, platform)
            ):
                return await self._commit_receipt(outgoing, part, platform, found)
            async with self._loaded(outgoing.file, platform) as file:
                await self._commit_attempt(outgoing, part)
                outbound = Outbound(
                    delivery_id=delivery_id,
                    address=outgoing.address,
                    text=outgoing.text,
                    buttons=outgoing.buttons if can.buttons else (),
                    file=file,
                    # A platform that deduplicates by delivery id accepts it once: it needs no mark.
                    may_be_duplicate=part.outcome_unknown and not can.can_resolve_unknown,
                    part=part.number,
                )
                with PlatformErrorBoundary(platform):
                    receipt = await platform.send(outbound)
            self._crash(CrashPoint.SENT)
        except SendError as error:
            known = part_after_error(part, error, final=outgoing.final)
            await self._commit_outcome(outgoing, known, error=error)
            raise
        return await self._commit_receipt(outgoing, part, platform, receipt)

    async def _edit(
        self, outgoing: OutgoingPart, part: DeliveryPart, platform: Platform, message_id: str
    ) -> DeliveryPart:
        """Edit the message. An edit may be repeated without harm, so the attempt needs no
        record."""
        editor = editor_of(platform)
        assert editor is not None, "a part that cannot be edited is sent anew: `_sendable`"
        edit = MessageEdit(
            delivery_id=part_delivery_id(outgoing.delivery_id, part.number),
            address=outgoing.address,
            platform_message_id=message_id,
            text=outgoing.text,
        )
        with PlatformErrorBoundary(platform):
            await editor.edit(edit)
        self._crash(CrashPoint.EDIT_SENT)
        return await self._commit_shown(outgoing, part) if outgoing.final else part

    @asynccontextmanager
    async def _loaded(
        self, file: PendingFile | None, platform: Platform
    ) -> AsyncIterator[OutboundFile | None]:
        if file is None:
            yield None
            return
        account = (platform.name, platform.account)
        async with self._file_locks.setdefault(account, asyncio.Lock()):
            yield await self._outgoing_files.load(file)

    async def _commit_attempt(self, outgoing: OutgoingPart, part: DeliveryPart) -> None:
        """Record the attempt before the platform is called. Without a record it would be sent again
        after a crash."""
        delivery_id, scope, at = outgoing.delivery_id, outgoing.scope, self._clock.now()
        if outgoing.new_row is not None:
            await self._writes.write(BeginStream(new=outgoing.new_row, at=at))
            self._crash(CrashPoint.STREAM_ROW_COMMITTED)
        elif outgoing.alone:
            await self._writes.write(BeginAttempt(delivery_id=delivery_id, scope=scope, at=at))
        else:
            await self._writes.write(
                BeginPart(delivery_id=delivery_id, scope=scope, number=part.number, at=at)
            )
        self._crash(CrashPoint.ATTEMPT_COMMITTED)

    async def _commit_receipt(
        self, outgoing: OutgoingPart, part: DeliveryPart, platform: Platform, receipt: Receipt
    ) -> DeliveryPart:
        self._platforms.mark_reachable(platform.name, platform.account)
        # An earlier attempt that arrived may show older text, and is edited then. If nothing can be
        # edited, or there was only one text, that text is final.
        earlier = part.outcome_unknown and platform.capabilities.can_resolve_unknown
        only_text = outgoing.alone or part.replaced
        may_be_old = earlier and not only_text and editor_of(platform) is not None
        sent = msgspec.structs.replace(
            part,
            state=DeliveryState.SENT,
            platform_message_id=receipt.platform_message_id,
            final=outgoing.final and not may_be_old,
        )
        await self._commit_outcome(outgoing, sent)
        self._crash(CrashPoint.RECEIPT_COMMITTED)
        return sent

    async def _commit_shown(self, outgoing: OutgoingPart, part: DeliveryPart) -> DeliveryPart:
        """Record that the platform shows the final text. The end of the delivery is not urgent: if
        a crash loses it, the next process makes the same edit again."""
        recorded = part.final
        part = msgspec.structs.replace(part, state=DeliveryState.SENT, final=True)
        if outgoing.is_last:
            self._settle_later(outgoing, part, outgoing.delivery_outcome(part))
        elif not recorded:
            await self._commit_outcome(outgoing, part)
            self._crash(CrashPoint.EDIT_COMMITTED)
        return part

    async def _commit_unknown(self, outgoing: OutgoingPart, part: DeliveryPart) -> DeliveryPart:
        """Record that the outcome is unknown. Nothing more is done about a part that has no receipt
        and was sent again once."""
        part = msgspec.structs.replace(part, state=DeliveryState.UNKNOWN)
        if outgoing.is_last:
            await self._settle(outgoing, part, outgoing.delivery_outcome(part))
        return part

    async def _commit_outcome(
        self, outgoing: OutgoingPart, part: DeliveryPart, *, error: SendError | str = ""
    ) -> None:
        """Commit the state of a part after an attempt, and in the same commit the end of its
        delivery if the part is its last or has failed."""
        delivery = outgoing.delivery
        if delivery is not None and part.state is DeliveryState.FAILED:
            end = outgoing.delivery_outcome(part, error)
            about = {"action": "delivery_failed", "session": delivery.session_id}
            log.warning(
                "Platform %s refused delivery %s, which is not sent again: %s",
                outgoing.address.platform,
                delivery.id,
                end.error,
                extra=about,
            )
            await self._settle(outgoing, part, end)
        elif part.final and outgoing.is_last:
            await self._settle(outgoing, part, outgoing.delivery_outcome(part))
        elif outgoing.alone:
            await self._settle(outgoing, part, DeliveryOutcome(state=part.state, error=f"{error}"))
        else:
            why = f"{error}"
            await _write_until_stored(
                lambda: self._writes.write(
                    SettlePart(
                        delivery_id=outgoing.delivery_id,
                        scope=outgoing.scope,
                        part=part,
                        at=self._clock.now(),
                        error=why and self._redact(why),
                    )
                ),
                delivery,
            )

    async def _settle(
        self, outgoing: OutgoingPart, part: DeliveryPart, end: DeliveryOutcome
    ) -> None:
        assert outgoing.delivery is not None, "a delivery whose text still grows does not end"
        await self._write_end(outgoing.delivery, end, part=None if outgoing.alone else part)

    def _settle_later(
        self, outgoing: OutgoingPart, part: DeliveryPart, end: DeliveryOutcome
    ) -> None:
        """Queue the end of the delivery without waiting for it, so that it can share a commit with
        the next delivery of the chat. Continued in `on_committed` and `on_failed`."""
        delivery = outgoing.delivery
        assert delivery is not None, "a delivery whose text still grows does not end"
        if self._tracer is not None:
            self._tracer.record_attempt(delivery, end.state)
        self._write_deferred(self._end_command(delivery, end, part))

    def _write_deferred(self, end: SettleDelivery) -> None:
        self._writes.write(end, deferred=True)
        self._deferred[end.delivery_id] = None

    async def _fail(self, delivery: QueuedDelivery, why: str) -> None:
        await self._write_end(delivery, DeliveryOutcome(state=DeliveryState.FAILED, error=why))

    async def _write_end(
        self, delivery: QueuedDelivery, end: DeliveryOutcome, *, part: DeliveryPart | None = None
    ) -> None:
        """Write the outcome of an attempt, or the end of the delivery. Retried until the store
        takes it: repeating the delivery instead would send what the platform already has."""
        if self._tracer is not None:
            self._tracer.record_attempt(delivery, end.state)
        command = self._end_command(delivery, end, part)
        report = None
        if end.state is DeliveryState.FAILED:
            report = self._failure_reports.of_file(delivery, end.error, cause=end.cause)
        if report is None:
            await _write_until_stored(lambda: self._writes.write(command), delivery)
        else:
            reported = ReportFailedDelivery(end=command, report=report)
            await _write_until_stored(lambda: self._failure_reports.write(reported), delivery)
        if delivery.file is not None and end.state in (DeliveryState.SENT, DeliveryState.FAILED):
            await self._outgoing_files.discard(delivery.file)

    def _end_command(
        self, delivery: QueuedDelivery, end: DeliveryOutcome, part: DeliveryPart | None
    ) -> SettleDelivery:
        return SettleDelivery(
            delivery_id=delivery.id,
            scope=delivery.scope,
            state=end.state,
            at=self._clock.now(),
            platform_message_id=end.message_id,
            error=end.error and self._redact(end.error),
            part=part,
        )

    def ended_with_turn(self, delivery: QueuedDelivery) -> None:
        """Record that the commit that ended the turn has ended its delivery, too: the chat shows
        all of it."""
        if self._tracer is not None:
            self._tracer.record_attempt(delivery, DeliveryState.SENT)
            self._tracer.delivery_done(delivery.id)
        self._delivery_waiters.notify(delivery.id)

    def _undeliverable(self, delivery: QueuedDelivery, platform: Platform | None) -> str | None:
        """Why nothing of it should be sent any more; None if it should be."""
        if platform is None:
            return "its platform is not configured any more"
        if delivery.expires_at is not None and delivery.expires_at < self._clock.now():
            return "expired before it could be sent"
        return None


async def look_up_receipt(
    delivery_id: DeliveryId, address: Address, platform: Platform
) -> Receipt | None:
    """The receipt of a send that returned none; None if it did not arrive, or this platform cannot
    look it up. Sends nothing. Raises `SendError`."""
    if platform.capabilities.lookup and isinstance(platform, SupportsLookup):
        with PlatformErrorBoundary(platform):
            return await platform.find_delivery(delivery_id, address)
    return None


def split_for_platform(text: str, platform: Platform) -> tuple[str, ...]:
    """Split a text by the platform's length limit; the same in every process. The text must already
    be redacted: a secret cut in two would not be recognised."""
    can = platform.capabilities
    if can.max_length is None:
        return (text,)
    fits = platform.fits if isinstance(platform, SupportsRendering) else None
    return split_message(text, can.max_length, unit=can.length_unit, fits=fits)


def editor_of(platform: Platform) -> SupportsEditing | None:
    """The platform, if it can edit messages that it has sent."""
    if platform.capabilities.edit and isinstance(platform, SupportsEditing):
        return platform
    return None


def part_after_error(part: DeliveryPart, error: SendError, *, final: bool) -> DeliveryPart:
    """The part after a failed attempt to send it. Text that was refused before it was complete may
    be accepted when it is complete."""
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
    """A part as an earlier process left it. An attempt without an outcome was interrupted between
    the send and its receipt."""
    if part.state is DeliveryState.SENDING:
        return msgspec.structs.replace(part, outcome_unknown=True)
    return part


def _recovered(part: DeliveryPart, delivery: QueuedDelivery) -> DeliveryPart:
    """If a whole delivery may have arrived, as after a crash or after restoring a backup, so may
    each part without a message id."""
    part = recovered_part(part)
    if part.platform_message_id is None and delivery.outcome_unknown:
        resends = max(part.resends, int(delivery.resent))
        return msgspec.structs.replace(part, outcome_unknown=True, resends=resends)
    return part


def _sendable(part: DeliveryPart, platform: Platform) -> DeliveryPart:
    """The part, reset to be sent anew (once, marked) if its message can no longer be edited."""
    if part.platform_message_id is None or editor_of(platform) is not None:
        return part
    resends = 0 if part.state is DeliveryState.SENT else part.resends
    return msgspec.structs.replace(
        part, platform_message_id=None, outcome_unknown=True, resends=resends
    )


def _is_used_up(part: DeliveryPart, platform: Platform) -> bool:
    """Whether it has no receipt and was already sent again once."""
    resent = part.platform_message_id is None and part.resends > 0
    return resent and not platform.capabilities.can_resolve_unknown


async def _write_until_stored(
    write: Callable[[], Awaitable[None]], delivery: QueuedDelivery | None
) -> None:
    while True:
        try:
            await write()
            return
        except StoreError as error:
            await _wait_for_store(error, delivery)


async def _wait_for_store(error: StoreError, delivery: QueuedDelivery | None) -> None:
    session_id = None if delivery is None else delivery.session_id
    await asyncio.sleep(_log_refused_write(error, session_id))


def _log_refused_write(error: Exception, session_id: SessionId | None) -> float:
    """Log that the store refused a write; returns how long to wait before the next attempt."""
    wait = DELIVERY_STATE_RETRY.wait(0)
    about = {"action": "outbox_waiting_for_store", "session": session_id}
    log.error(
        "Could not record the state of a delivery: %s; retrying in %s s", error, wait, extra=about
    )
    return wait

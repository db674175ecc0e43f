"""Sends one delivery: as one message, as several parts, or by editing a message already shown.

Every attempt is committed before it is made, and its outcome before anything else is tried, so
that after a crash the store shows which sends may have arrived. A send without a receipt is
looked up where the platform allows it, and else sent again once, marked as a possible duplicate.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Self

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
from holdfast.core.ids import DeliveryId, SessionId
from holdfast.core.messages.outbox import (
    Address,
    Button,
    DeliveryPart,
    DeliveryState,
    MessageEdit,
    Outbound,
    OutboundFile,
    Receipt,
    part_delivery_id,
)
from holdfast.core.ports.command import Scope
from holdfast.core.ports.platform import (
    Platform,
    SupportsEditing,
    SupportsLookup,
    SupportsRendering,
)
from holdfast.core.ports.runtime import Clock
from holdfast.core.ports.store import StoreWriter
from holdfast.core.ports.store_commands import BeginAttempt, BeginPart, SettleDelivery, SettlePart
from holdfast.core.text.splitting import split_message
from holdfast.gateway.accounts.registry import PlatformRegistry
from holdfast.gateway.outbound.delivery import DeliveryWaiters, QueuedDelivery
from holdfast.gateway.outbound.files import OutgoingFiles
from holdfast.gateway.outbound.rate_limit import SendGate
from holdfast.gateway.outbound.retry import (
    MAX_REFUSED_EDITS,
    MAX_UNANSWERED_EDITS,
    RESEND,
    STORE_RETRY_WAIT,
)
from holdfast.gateway.redaction import Redaction
from holdfast.gateway.tracing import MessageTracer

log = logging.getLogger(__name__)


class PlatformErrorBoundary:
    """Wraps one call of a platform: an exception that the port does not name becomes
    `OutcomeUnknown`. Raised as it is, it would end the queue of its chat for good."""

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
        log.error("Platform %s failed: %r", name, error, exc_info=error, extra=about)
        raise OutcomeUnknown(f"platform {name} failed: {error!r}") from error


async def look_up_receipt(
    delivery_id: DeliveryId, address: Address, platform: Platform
) -> Receipt | None:
    """The receipt of a send that returned none; None: it did not arrive, or this platform cannot
    be asked. Sends nothing. Raises `SendError`."""
    if platform.capabilities.lookup and isinstance(platform, SupportsLookup):
        with PlatformErrorBoundary(platform):
            return await platform.find_delivery(delivery_id, address)
    return None


def split_for_platform(text: str, platform: Platform) -> tuple[str, ...]:
    """The messages into which the platform's length limit splits a text; the same in every
    process. The text must be redacted before: a secret cut in two would not be recognised."""
    can = platform.capabilities
    if can.max_length is None:
        return (text,)
    fits = platform.fits if isinstance(platform, SupportsRendering) else None
    return split_message(text, can.max_length, unit=can.length_unit, fits=fits)


class DeliverySender:
    """Sends a delivery as one message. Owns a lock per account for sending files; what is known
    of an attempt is in the store."""

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
        self._on_failed = on_failed  # called with what will never arrive
        # Files may be large: each account has at most one in memory, until it is sent.
        self._file_locks: dict[tuple[str, str], asyncio.Lock] = {}

    def end_without_sending(
        self, delivery: QueuedDelivery, platform: Platform | None
    ) -> tuple[DeliveryState, str] | None:
        """The final state and its reason, if nothing should be sent any more."""
        if platform is None:
            return DeliveryState.FAILED, "its platform is not configured any more"
        if delivery.expires_at is not None and delivery.expires_at < self._clock.now():
            return DeliveryState.FAILED, "expired before it could be sent"
        if delivery.resent and not platform.capabilities.can_resolve_unknown:
            return DeliveryState.UNKNOWN, "no receipt, and it was already sent again once"
        return None

    async def attempt(self, delivery: QueuedDelivery, platform: Platform) -> None:
        """Send it, or find that it has arrived. Raises a `SendError` whose type says what is known
        of the outcome."""
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
        await self._writes.write(
            BeginAttempt(delivery_id=delivery.id, scope=delivery.scope, at=self._clock.now())
        )
        self._crash(CrashPoint.ATTEMPT_COMMITTED)
        outbound = Outbound(
            delivery_id=delivery.id,
            address=delivery.address,
            text=self._redact(delivery.text),
            buttons=delivery.buttons if platform.capabilities.buttons else (),
            file=file,
            # A platform that knows the delivery id accepts it once: there is nothing to mark.
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
        """Record the outcome of an attempt, retrying until the store accepts it: trying the
        delivery again instead would send what the platform already has."""
        await _write_until_stored(
            lambda: self._writes.write(
                SettleDelivery(
                    delivery_id=delivery.id,
                    scope=delivery.scope,
                    state=state,
                    at=self._clock.now(),
                    platform_message_id=message_id,
                    error=error and self._redact(error),
                )
            ),
            session_id=delivery.session_id,
        )
        if self._tracer is not None:
            self._tracer.record_attempt(delivery, state)
        self._delivery_waiters.notify(delivery.id)
        if state is DeliveryState.FAILED:
            self._on_failed(delivery.id)
        if delivery.file is not None and state in (DeliveryState.SENT, DeliveryState.FAILED):
            await self._outgoing_files.discard(delivery.file)


class OutgoingPart(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a delivery: its address and the text that it should show."""

    delivery_id: DeliveryId
    scope: Scope
    address: Address
    text: str
    final: bool  # the text will not change any more
    buttons: tuple[Button, ...] = ()


class PartSender:
    """Sends one part the first time, and edits it after that.

    Each attempt to send is committed before it is made, and its outcome before anything else is
    tried. An edit may be made twice, so it needs no such record.
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
        self._redact = redact  # error texts of the platform
        self._writes = writes
        self._clock = clock
        self._crash = crash

    async def send_or_edit(
        self, outgoing: OutgoingPart, part: DeliveryPart, platform: Platform
    ) -> DeliveryPart:
        """One attempt; returns the part as it is afterwards. Raises the `SendError` after recording
        it; `part_after_error` gives the state of the part then."""
        if part.platform_message_id is None:
            return await self._send(outgoing, part, platform)
        return await self._edit(outgoing, part, platform, part.platform_message_id)

    async def _send(
        self, outgoing: OutgoingPart, part: DeliveryPart, platform: Platform
    ) -> DeliveryPart:
        delivery_id = part_delivery_id(outgoing.delivery_id, part.number)
        if part.outcome_unknown and (
            found := await look_up_receipt(delivery_id, outgoing.address, platform)
        ):
            return await self._record_receipt(outgoing, part, platform, found)
        await self._record_attempt(outgoing, part.number)
        self._crash(CrashPoint.ATTEMPT_COMMITTED)
        can = platform.capabilities
        outbound = Outbound(
            delivery_id=delivery_id,
            address=outgoing.address,
            text=outgoing.text,
            buttons=outgoing.buttons if can.buttons else (),
            may_be_duplicate=part.outcome_unknown and not can.can_resolve_unknown,
            part=part.number,
        )
        try:
            with PlatformErrorBoundary(platform):
                receipt = await platform.send(outbound)
        except SendError as error:
            known = part_after_error(part, error, final=outgoing.final)
            await self.record(outgoing, known, error=str(error))
            raise
        self._crash(CrashPoint.SENT)
        return await self._record_receipt(outgoing, part, platform, receipt)

    async def _record_receipt(
        self, outgoing: OutgoingPart, part: DeliveryPart, platform: Platform, receipt: Receipt
    ) -> DeliveryPart:
        self._platforms.mark_reachable(platform.name, platform.account)
        # An earlier attempt that arrived may show older text, and is edited then; where nothing
        # can be edited, that text is final.
        earlier = part.outcome_unknown and platform.capabilities.can_resolve_unknown
        sent = msgspec.structs.replace(
            part,
            state=DeliveryState.SENT,
            platform_message_id=receipt.platform_message_id,
            final=outgoing.final and not (earlier and editor_of(platform) is not None),
        )
        await self.record(outgoing, sent)
        self._crash(CrashPoint.RECEIPT_COMMITTED)
        return sent

    async def _edit(
        self, outgoing: OutgoingPart, part: DeliveryPart, platform: Platform, message_id: str
    ) -> DeliveryPart:
        editor = editor_of(platform)
        assert editor is not None, "a part that cannot be edited is sent anew: `editable_part`"
        edit = MessageEdit(
            delivery_id=part_delivery_id(outgoing.delivery_id, part.number),
            address=outgoing.address,
            platform_message_id=message_id,
            text=outgoing.text,
        )
        with PlatformErrorBoundary(platform):
            await editor.edit(edit)
        self._crash(CrashPoint.EDIT_SENT)
        return await self.mark_shown(outgoing, part) if outgoing.final else part

    async def mark_shown(self, outgoing: OutgoingPart, part: DeliveryPart) -> DeliveryPart:
        """Record that the platform shows the final text of the part."""
        shown = msgspec.structs.replace(part, state=DeliveryState.SENT, final=True)
        await self.record(outgoing, shown)
        self._crash(CrashPoint.EDIT_COMMITTED)
        return shown

    async def record(self, outgoing: OutgoingPart, part: DeliveryPart, *, error: str = "") -> None:
        """Record the state of a part, retrying until the store accepts it: sending it again instead
        would send what the platform already has."""
        error = error and self._redact(error)
        await _write_until_stored(
            lambda: self._writes.write(
                SettlePart(
                    delivery_id=outgoing.delivery_id,
                    scope=outgoing.scope,
                    part=part,
                    at=self._clock.now(),
                    error=error,
                )
            )
        )

    async def _record_attempt(self, outgoing: OutgoingPart, number: int) -> None:
        """Retried until stored: what cannot be recorded would be sent again after a restart."""
        await _write_until_stored(
            lambda: self._writes.write(
                BeginPart(
                    delivery_id=outgoing.delivery_id,
                    scope=outgoing.scope,
                    number=number,
                    at=self._clock.now(),
                )
            )
        )


async def _write_until_stored(
    write: Callable[[], Awaitable[None]], *, session_id: SessionId | None = None
) -> None:
    while True:
        try:
            await write()
            return
        except StoreError as failure:
            about = {"action": "outbox_waiting_for_store", "session": session_id}
            log.error(
                "Could not record the state of a delivery: %s; retrying in %s s",
                failure,
                STORE_RETRY_WAIT,
                extra=about,
            )
            await asyncio.sleep(STORE_RETRY_WAIT)


def editor_of(platform: Platform) -> SupportsEditing | None:
    """The platform, if it can edit messages that it has sent."""
    if platform.capabilities.edit and isinstance(platform, SupportsEditing):
        return platform
    return None


def editable_part(part: DeliveryPart, platform: Platform) -> DeliveryPart:
    """The part, to be sent anew (once, marked) where its message cannot be edited any more."""
    if part.platform_message_id is None or editor_of(platform) is not None:
        return part
    resends = 0 if part.state is DeliveryState.SENT else part.resends
    return msgspec.structs.replace(
        part, platform_message_id=None, outcome_unknown=True, resends=resends
    )


def part_after_error(part: DeliveryPart, error: SendError, *, final: bool) -> DeliveryPart:
    """The part after a failed attempt. Text that was refused before it was complete may be accepted
    when it is complete."""
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
    """A part as an earlier process left it: an attempt without an outcome was interrupted between
    the send and its receipt."""
    if part.state is DeliveryState.SENDING:
        return msgspec.structs.replace(part, outcome_unknown=True)
    return part


class DeliveryOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a delivery ended as a whole."""

    state: DeliveryState
    message_id: str | None = None  # of its first part
    error: str = ""


class MultipartSender:
    """Sends a delivery in parts, also one that was streamed. Has no state: what is known of each
    part is in the store before the next is tried."""

    def __init__(self, part_sender: PartSender, *, redact: Redaction) -> None:
        self._part_sender = part_sender
        self._redact = redact

    def part_texts(self, delivery: QueuedDelivery, platform: Platform) -> tuple[str, ...]:
        """The text of each part, redacted."""
        return split_for_platform(self._redact(delivery.text), platform)

    def is_one_message(self, delivery: QueuedDelivery, platform: Platform) -> bool:
        """Whether the text fits unchanged; one that loses trailing space by splitting does not."""
        text = self._redact(delivery.text)
        return split_for_platform(text, platform) == (text,)

    async def send_parts(
        self,
        delivery: QueuedDelivery,
        platform: Platform,
        *,
        parts: Sequence[DeliveryPart],
        shown_text: str,
        send_gate: SendGate,
    ) -> DeliveryOutcome:
        """In order. A part that fails ends the delivery: the rest would make no sense."""
        texts = self.part_texts(delivery, platform)
        known = {part.number: part for part in parts}
        done: list[DeliveryPart] = []
        for number, text in enumerate(texts, 1):
            last = number == len(texts)
            outgoing = OutgoingPart(
                delivery_id=delivery.id,
                scope=delivery.scope,
                address=delivery.address,
                text=text,
                final=True,
                buttons=delivery.buttons if last else (),
            )
            part = _with_unknown_outcome(known.get(number, DeliveryPart(number=number)), delivery)
            if number == 1 and shown_text == text and part.state is DeliveryState.SENT:
                part = await self._part_sender.mark_shown(outgoing, part)
            retries = _PartRetries(self._part_sender, outgoing, platform, send_gate)
            done.append(await retries.run(part))
            if done[-1].state is DeliveryState.FAILED:
                why = f"part {number} of {len(texts)}: {retries.error}"
                about = {"action": "delivery_failed", "session": delivery.session_id}
                log.warning("The platform refused a delivery: %s", why, extra=about)
                return DeliveryOutcome(
                    state=DeliveryState.FAILED, message_id=done[0].platform_message_id, error=why
                )
        return _combined_outcome(done)


class _PartRetries:
    """Sends one part until it is done. Owns how often in a row it was refused or got no answer."""

    def __init__(
        self,
        part_sender: PartSender,
        outgoing: OutgoingPart,
        platform: Platform,
        send_gate: SendGate,
    ) -> None:
        self.error = ""
        self._part_sender = part_sender
        self._outgoing = outgoing
        self._platform = platform
        self._send_gate = send_gate
        self._failed_edits = 0
        self._unknown_outcomes = 0

    async def run(self, part: DeliveryPart) -> DeliveryPart:
        """The part when it is shown completely, refused for good, or unknown for good."""
        while not part.final and part.state is not DeliveryState.FAILED:
            await self._send_gate.wait()
            part = editable_part(part, self._platform)
            if self._used_up(part):
                return msgspec.structs.replace(part, state=DeliveryState.UNKNOWN)
            try:
                part = await self._part_sender.send_or_edit(self._outgoing, part, self._platform)
            except (Throttled, NotConnected) as error:
                self._send_gate.record_blocked(error)
                if part.platform_message_id is None:
                    part = part_after_error(part, error, final=True)
            except (SendRejected, OutcomeUnknown) as error:
                part = await self._after_error(part, error)
        return part

    def _used_up(self, part: DeliveryPart) -> bool:
        """No receipt, and it was already sent again once."""
        resent = part.platform_message_id is None and part.resends > 0
        return resent and not self._platform.capabilities.can_resolve_unknown

    async def _after_error(self, part: DeliveryPart, error: SendError) -> DeliveryPart:
        self.error = str(error)
        if part.platform_message_id is None:
            if part.outcome_unknown:  # only the first resend is made at once
                self._unknown_outcomes += 1
                self._send_gate.hold(RESEND.wait(self._unknown_outcomes))
            return part_after_error(part, error, final=True)
        # The chat shows an incomplete message. It is not sent a second time: an edit that is
        # refused now may be accepted later, and one that never is must show as a failure.
        self._failed_edits += 1
        self._send_gate.hold(self._platform.capabilities.edit_interval * 2**self._failed_edits)
        if self._failed_edits < (
            MAX_REFUSED_EDITS if isinstance(error, SendRejected) else MAX_UNANSWERED_EDITS
        ):
            return part
        part = msgspec.structs.replace(part, state=DeliveryState.FAILED)
        await self._part_sender.record(self._outgoing, part, error=self.error)
        return part


def _with_unknown_outcome(part: DeliveryPart, delivery: QueuedDelivery) -> DeliveryPart:
    """Where a whole delivery may have arrived, as after restoring a backup, so may each part
    without a message id."""
    if delivery.outcome_unknown and part.platform_message_id is None:
        return msgspec.structs.replace(part, outcome_unknown=True)
    return part


def _combined_outcome(parts: Sequence[DeliveryPart]) -> DeliveryOutcome:
    first = parts[0].platform_message_id
    if all(part.state is DeliveryState.SENT for part in parts):
        return DeliveryOutcome(state=DeliveryState.SENT, message_id=first)
    unknown = [str(part.number) for part in parts if part.state is not DeliveryState.SENT]
    why = f"no receipt of part {', '.join(unknown)}, which was already sent again once"
    return DeliveryOutcome(state=DeliveryState.UNKNOWN, message_id=first, error=why)

"""Completing: a delivery of several parts, or one that was begun early, brought to its end."""

import logging
from collections.abc import Sequence

import msgspec

from holdfast.core.errors import NotConnected, OutcomeUnknown, SendError, SendRejected, Throttled
from holdfast.core.messages.outbox import DeliveryPart, DeliveryState
from holdfast.core.ports.protocols import Platform
from holdfast.gateway.outbound.fitting import split_for_platform
from holdfast.gateway.outbound.parcel import QueuedDelivery
from holdfast.gateway.outbound.posting import (
    OutgoingPart,
    PartSender,
    editable_part,
    part_after_error,
)
from holdfast.gateway.outbound.way import SendGate
from holdfast.gateway.redaction import Redaction

log = logging.getLogger(__name__)

# Tries at a last change. One that nobody answers may meet a line that is dead and looks whole: it
# can be made again without harm, and is, for as long as it takes to find that out.
_MAX_REFUSED_EDITS, _MAX_UNANSWERED_EDITS = 4, 7
# Seconds before a part is sent again, doubled each time, where a platform takes it once.
_RESEND_WAIT, _MAX_RESEND_WAIT = 0.05, 60.0


class DeliveryOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a delivery ended as a whole."""

    state: DeliveryState
    message_id: str | None = None  # of its first part
    error: str = ""


class MultipartSender:
    """Keeps nothing: what is known of each part is in the store before the next is tried."""

    def __init__(self, part_sender: PartSender, *, redact: Redaction) -> None:
        self._part_sender = part_sender
        self._redact = redact

    def part_texts(self, delivery: QueuedDelivery, platform: Platform) -> tuple[str, ...]:
        """What each part says, with every secret taken out."""
        return split_for_platform(self._redact(delivery.text), platform)

    def is_one_message(self, delivery: QueuedDelivery, platform: Platform) -> bool:
        """As it stands. One that has to lose the space behind its words first is a part of them."""
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
        """Part by part, in order. One that fails ends it: what follows would make no sense."""
        texts = self.part_texts(delivery, platform)
        known = {part.number: part for part in parts}
        done: list[DeliveryPart] = []
        for number, text in enumerate(texts, 1):
            last = number == len(texts)
            post = OutgoingPart(
                delivery_id=delivery.id,
                address=delivery.address,
                text=text,
                final=True,
                buttons=delivery.buttons if last else (),
            )
            part = _with_unknown_outcome(known.get(number, DeliveryPart(number=number)), delivery)
            if number == 1 and shown_text == text and part.state is DeliveryState.SENT:
                part = await self._part_sender.mark_shown(post, part)
            tries = _PartRetries(self._part_sender, post, platform, send_gate)
            done.append(await tries.run(part))
            if done[-1].state is DeliveryState.FAILED:
                why = f"part {number} of {len(texts)}: {tries.error}"
                about = {"action": "delivery_failed", "session": delivery.session_id}
                log.warning("A reply was refused: %s", why, extra=about)
                return DeliveryOutcome(
                    state=DeliveryState.FAILED, message_id=done[0].platform_message_id, error=why
                )
        return _combined_outcome(done)


class _PartRetries:
    """Owns how often in a row the last words of a part were not taken, or not heard of, and why."""

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
        """The part when it is shown as it is to be, refused for good, or for good unknown."""
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
        unheard = part.platform_message_id is None and part.resends > 0
        return unheard and not self._platform.capabilities.can_resolve_unknown

    async def _after_error(self, part: DeliveryPart, error: SendError) -> DeliveryPart:
        self.error = str(error)
        if part.platform_message_id is None:
            if part.outcome_unknown:  # the first is sent again at once, and no other
                self._unknown_outcomes += 1
                self._send_gate.hold(
                    min(_RESEND_WAIT * 2**self._unknown_outcomes, _MAX_RESEND_WAIT)
                )
            return part_after_error(part, error, final=True)
        # It stands there, half said. It is not said again beside itself: a change that is refused
        # now may be taken a little later, and one that is never taken is a failure to be seen.
        self._failed_edits += 1
        self._send_gate.hold(self._platform.capabilities.edit_interval * 2**self._failed_edits)
        if self._failed_edits < (
            _MAX_REFUSED_EDITS if isinstance(error, SendRejected) else _MAX_UNANSWERED_EDITS
        ):
            return part
        part = msgspec.structs.replace(part, state=DeliveryState.FAILED)
        await self._part_sender.record(self._outgoing.delivery_id, part, error=self.error)
        return part


def _with_unknown_outcome(part: DeliveryPart, delivery: QueuedDelivery) -> DeliveryPart:
    """Of a delivery that may have arrived as a whole, such as one of a restored backup, so may
    each part that is not known to stand somewhere."""
    if delivery.outcome_unknown and part.platform_message_id is None:
        return msgspec.structs.replace(part, outcome_unknown=True)
    return part


def _combined_outcome(parts: Sequence[DeliveryPart]) -> DeliveryOutcome:
    first = parts[0].platform_message_id
    if all(part.state is DeliveryState.SENT for part in parts):
        return DeliveryOutcome(state=DeliveryState.SENT, message_id=first)
    lost = [str(part.number) for part in parts if part.state is not DeliveryState.SENT]
    why = f"no receipt of part {', '.join(lost)}, which was already sent again once"
    return DeliveryOutcome(state=DeliveryState.UNKNOWN, message_id=first, error=why)

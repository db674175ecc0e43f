"""Completing: a delivery of several parts, or one that was begun early, brought to its end."""

import logging
from collections.abc import Sequence

import msgspec

from holdfast.core.errors import NotConnected, OutcomeUnknown, Refused, SendError, Throttled
from holdfast.core.messages.outbox import DeliveryState, Part
from holdfast.core.ports.protocols import Platform
from holdfast.gateway.outbound.fitting import messages_of
from holdfast.gateway.outbound.parcel import Parcel
from holdfast.gateway.outbound.posting import Post, Posting, changeable, outcome
from holdfast.gateway.outbound.way import Way
from holdfast.gateway.redaction import Redaction

log = logging.getLogger(__name__)

# Tries at a last change. One that nobody answers may meet a line that is dead and looks whole: it
# can be made again without harm, and is, for as long as it takes to find that out.
_REFUSED, _UNANSWERED = 4, 7
# Seconds before a part is sent again, doubled each time, where a platform takes it once.
_AGAIN, _LONGEST_WAIT = 0.05, 60.0


class End(msgspec.Struct, frozen=True, kw_only=True):
    """How a delivery ended as a whole."""

    state: DeliveryState
    message_id: str | None = None  # of its first part
    error: str = ""


class Completing:
    """Keeps nothing: what is known of each part is in the store before the next is tried."""

    def __init__(self, posting: Posting, *, redact: Redaction) -> None:
        self._posting = posting
        self._redact = redact

    def texts(self, parcel: Parcel, platform: Platform) -> tuple[str, ...]:
        """What each part says, with every secret taken out."""
        return messages_of(self._redact(parcel.text), platform)

    def is_one_message(self, parcel: Parcel, platform: Platform) -> bool:
        """As it stands. One that has to lose the space behind its words first is a part of them."""
        text = self._redact(parcel.text)
        return messages_of(text, platform) == (text,)

    async def complete(
        self, parcel: Parcel, platform: Platform, *, parts: Sequence[Part], shown: str, way: Way
    ) -> End:
        """Part by part, in order. One that fails ends it: what follows would make no sense."""
        texts = self.texts(parcel, platform)
        known = {part.number: part for part in parts}
        done: list[Part] = []
        for number, text in enumerate(texts, 1):
            last = number == len(texts)
            post = Post(
                delivery_id=parcel.id,
                address=parcel.address,
                text=text,
                final=True,
                choices=parcel.choices if last else (),
            )
            part = _in_doubt(known.get(number, Part(number=number)), parcel)
            if number == 1 and shown == text and part.state is DeliveryState.SENT:
                part = await self._posting.stands(post, part)
            tries = _Tries(self._posting, post, platform, way)
            done.append(await tries.to_the_end(part))
            if done[-1].state is DeliveryState.FAILED:
                why = f"part {number} of {len(texts)}: {tries.error}"
                about = {"action": "delivery_failed", "session": parcel.session_id}
                log.warning("A reply was refused: %s", why, extra=about)
                return End(
                    state=DeliveryState.FAILED, message_id=done[0].platform_message_id, error=why
                )
        return _whole(done)


class _Tries:
    """Owns how often in a row the last words of a part were not taken, or not heard of, and why."""

    def __init__(self, posting: Posting, post: Post, platform: Platform, way: Way) -> None:
        self.error = ""
        self._posting = posting
        self._post = post
        self._platform = platform
        self._way = way
        self._tried = 0
        self._unheard = 0

    async def to_the_end(self, part: Part) -> Part:
        """The part when it is shown as it is to be, refused for good, or for good unknown."""
        while not part.final and part.state is not DeliveryState.FAILED:
            await self._way.passed()
            part = changeable(part, self._platform)
            if self._used_up(part):
                return msgspec.structs.replace(part, state=DeliveryState.UNKNOWN)
            try:
                part = await self._posting.put(self._post, part, self._platform)
            except (Throttled, NotConnected) as error:
                self._way.blocked(error)
                if part.platform_message_id is None:
                    part = outcome(part, error, final=True)
            except (Refused, OutcomeUnknown) as error:
                part = await self._not_taken(part, error)
        return part

    def _used_up(self, part: Part) -> bool:
        """No receipt, and it was already sent again once."""
        unheard = part.platform_message_id is None and part.resends > 0
        return unheard and not self._platform.capabilities.settles_doubt

    async def _not_taken(self, part: Part, error: SendError) -> Part:
        self.error = str(error)
        if part.platform_message_id is None:
            if part.doubtful:  # the first is sent again at once, and no other
                self._unheard += 1
                self._way.hold(min(_AGAIN * 2**self._unheard, _LONGEST_WAIT))
            return outcome(part, error, final=True)
        # It stands there, half said. It is not said again beside itself: a change that is refused
        # now may be taken a little later, and one that is never taken is a failure to be seen.
        self._tried += 1
        self._way.hold(self._platform.capabilities.edit_interval * 2**self._tried)
        if self._tried < (_REFUSED if isinstance(error, Refused) else _UNANSWERED):
            return part
        part = msgspec.structs.replace(part, state=DeliveryState.FAILED)
        await self._posting.keep(self._post.delivery_id, part, error=self.error)
        return part


def _in_doubt(part: Part, parcel: Parcel) -> Part:
    """Of a delivery that may have arrived as a whole, such as one of a restored backup, so may
    each part that is not known to stand somewhere."""
    if parcel.doubtful and part.platform_message_id is None:
        return msgspec.structs.replace(part, doubtful=True)
    return part


def _whole(parts: Sequence[Part]) -> End:
    first = parts[0].platform_message_id
    if all(part.state is DeliveryState.SENT for part in parts):
        return End(state=DeliveryState.SENT, message_id=first)
    lost = [str(part.number) for part in parts if part.state is not DeliveryState.SENT]
    why = f"no receipt of part {', '.join(lost)}, which was already sent again once"
    return End(state=DeliveryState.UNKNOWN, message_id=first, error=why)

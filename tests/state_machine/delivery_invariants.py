"""Invariants of deliveries: each is committed before it is sent, arrives once and in order, and the
chat shows its final text, however much of it was streamed before.

Each invariant yields a sentence for every violation.
"""

from collections.abc import Iterator, Sequence

import apsw
from tests.state_machine.home import Home
from tests.state_machine.home_contents import HomeContents, Invariant, StepInvariant

from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import DeliveryRow, DeliveryState, part_delivery_id
from holdfast.core.text.splitting import split_message
from holdfast.core.turns.subagent import INTERNAL_PLATFORM
from holdfast.testing.simulated.events import BotMessage

_SETTLED = (DeliveryState.SENT, DeliveryState.FAILED, DeliveryState.UNKNOWN)


def every_send_has_a_committed_attempt(home: Home) -> Iterator[str]:
    """I1, I2, I4: its row and this attempt are committed before the platform has it."""
    if home.current_run is None or not home.current_run.store.reader.open or not home.service.sent:
        return
    attempted = set(home.current_run.store.look(_attempted))
    for delivery_id in _sent(home):
        if delivery_id not in attempted:
            yield f"{delivery_id} was sent, and nothing in the file says so"


def repeated_sends_are_marked(home: Home) -> Iterator[str]:
    """I2: a reply is there once, or a second time with a mark."""
    idempotent = home.service.info.idempotent_send
    for delivery_id, sent in _sent(home).items():
        if len(sent) > (1 if idempotent else 2):
            yield f"{delivery_id} was taken {len(sent)} times"
        if any(not again.outgoing.maybe_repeated for again in sent[1:]):
            yield f"{delivery_id} was repeated without a mark"


def _sent(home: Home) -> dict[str, list[BotMessage]]:
    taken: dict[str, list[BotMessage]] = {}
    for sent in home.service.sent:
        taken.setdefault(sent.outgoing.delivery_id, []).append(sent)
    return taken


def _attempted(cursor: apsw.Cursor) -> list[str]:
    """Delivery ids as the platform knows them."""
    whole = cursor.execute("SELECT id FROM outbox WHERE attempts > 0")
    found = [str(row[0]) for row in whole]
    parts = cursor.execute("SELECT delivery_id, number, replaced FROM parts")
    for delivery_id, number, replaced in parts:
        for other in (False, True)[: 2 if replaced else 1]:
            part_id = part_delivery_id(
                DeliveryId(str(delivery_id)), int(str(number)), replaced=other
            )
            found.append(part_id)
    return found


ALWAYS: Sequence[StepInvariant] = (every_send_has_a_committed_attempt, repeated_sends_are_marked)


def deliveries_are_settled(contents: HomeContents) -> Iterator[str]:
    """I2: sent is what the platform has; nothing is pending any more."""
    sent = _sent(contents.home)
    for delivery in contents.outbox:
        if delivery.state not in _SETTLED:
            yield f"delivery {delivery.id} is {delivery.state}"
        doubtful = delivery.outcome_unknown or any(part.outcome_unknown for part in delivery.parts)
        if delivery.state is DeliveryState.UNKNOWN and not doubtful:
            yield f"delivery {delivery.id} is unknown without a doubt"
        if _was_sent(delivery) and delivery.id not in sent:
            yield f"delivery {delivery.id} is sent, and the platform does not have it"


def chats_show_the_final_text(contents: HomeContents) -> Iterator[str]:
    """I4: whatever was streamed of it before, the chat shows its final text, part by part, in the
    message that the part began in, in the one that replaced it, or in the one marked as a possible
    repetition."""
    sent = _sent(contents.home)
    for delivery in filter(_was_sent, contents.outbox):
        texts = split_message(delivery.text, contents.home.service.info.max_length)
        for number, text in enumerate(texts, 1):
            replaced = any(part.replaced for part in delivery.parts if part.number == number)
            copies = sent.get(part_delivery_id(delivery.id, number, replaced=replaced), [])
            if not copies or copies[-1].text != text:
                shown = [copy.text for copy in copies]
                yield f"part {number} of {delivery.id} is {text!r}, and the chat shows {shown}"
        if part_delivery_id(delivery.id, len(texts) + 1) in sent:
            yield f"{delivery.id} has more than its {len(texts)} parts"


def every_message_belongs_to_a_delivery(contents: HomeContents) -> Iterator[str]:
    """I1: a chat contains no message that the outbox does not know."""
    known = {delivery.id for delivery in contents.outbox}
    for delivery_id in _sent(contents.home):
        if delivery_of_part(delivery_id) not in known:
            yield f"{delivery_id} is in a chat, and has no delivery"


def deliveries_arrive_in_order(contents: HomeContents) -> Iterator[str]:
    """I3: a chat gets its deliveries in the order of their commits, whichever session or command
    they come from. A reply that may have been streamed is ordered within its own session only."""
    known = {delivery.id: delivery for delivery in contents.outbox}
    last: dict[str, int] = {}
    for delivery_id in dict.fromkeys(map(delivery_of_part, _sent(contents.home))):
        delivery = known[delivery_id]
        chat = delivery.address.chat_id
        if contents.home.service.info.edit and delivery.turn_id is not None:
            chat, position = (
                f"{chat} {delivery.session_id}",
                int(delivery.turn_id.removeprefix("turn_")),
            )
        else:
            position = delivery.seq
        if position < last.get(chat, 0):
            yield f"{delivery_id} overtook another of {chat}"
        last[chat] = max(position, last.get(chat, 0))


def delivery_of_part(delivery_id: str) -> DeliveryId:
    """The delivery that a part belongs to."""
    return DeliveryId(delivery_id.partition(".")[0])


def _was_sent(delivery: DeliveryRow) -> bool:
    """Whether it was sent, and not merely stored to be fetched."""
    fetched = delivery.address.platform in ("api", INTERNAL_PLATFORM)
    return delivery.state is DeliveryState.SENT and not fetched


WHEN_IDLE: Sequence[Invariant] = (
    deliveries_are_settled,
    chats_show_the_final_text,
    every_message_belongs_to_a_delivery,
)
AT_THE_END: Sequence[Invariant] = (deliveries_arrive_in_order,)

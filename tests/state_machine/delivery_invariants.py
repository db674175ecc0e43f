"""The laws of deliveries: each is owed before it is sent, arrives once, in order, and says at last
what it was to say, however much of it was shown before.

Each law yields a sentence for every breach of it.
"""

from collections.abc import Iterator, Sequence

import apsw
from tests.state_machine.home import Home
from tests.state_machine.home_contents import Books, Instant, Law

from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import DeliveryRow, DeliveryState, part_delivery_id
from holdfast.core.text.splitting import split_message
from holdfast.core.turns.subagent import INTERNAL_PLATFORM
from holdfast.testing.simulated.events import BotMessage

_SETTLED = (DeliveryState.SENT, DeliveryState.FAILED, DeliveryState.UNKNOWN)


def nothing_is_sent_that_nobody_owes(home: Home) -> Iterator[str]:
    """I1, I2, I4: its row and this attempt at it are in the file before a platform has it."""
    if home.life is None or not home.life.store.reader.open or not home.service.sent:
        return
    attempted = set(home.life.store.look(_attempted))
    for delivery_id in _sent(home):
        if delivery_id not in attempted:
            yield f"{delivery_id} was sent, and nothing in the file says so"


def nothing_is_repeated_unmarked(home: Home) -> Iterator[str]:
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
    """Each by the name that the platform knows it by."""
    whole = cursor.execute("SELECT id FROM outbox WHERE attempts > 0")
    found = [str(row[0]) for row in whole]
    parts = cursor.execute("SELECT delivery_id, number FROM parts")
    return found + [part_delivery_id(DeliveryId(str(row[0])), int(str(row[1]))) for row in parts]


ALWAYS: Sequence[Instant] = (nothing_is_sent_that_nobody_owes, nothing_is_repeated_unmarked)


def deliveries_are_settled(books: Books) -> Iterator[str]:
    """I2: sent is what the platform has; nothing is owed any more."""
    sent = _sent(books.home)
    for delivery in books.outbox:
        if delivery.state not in _SETTLED:
            yield f"delivery {delivery.id} is {delivery.state}"
        doubtful = delivery.outcome_unknown or any(part.outcome_unknown for part in delivery.parts)
        if delivery.state is DeliveryState.UNKNOWN and not doubtful:
            yield f"delivery {delivery.id} is unknown without a doubt"
        if _sent_away(delivery) and delivery.id not in sent:
            yield f"delivery {delivery.id} is sent, and the platform does not have it"


def what_was_sent_stands_there(books: Books) -> Iterator[str]:
    """I4: whatever was shown of it before, people read its words in the end, part by part, in the
    message that they were begun in, or in the one that says it may be a repetition."""
    sent = _sent(books.home)
    for delivery in filter(_sent_away, books.outbox):
        texts = split_message(delivery.text, books.home.service.info.max_length)
        for number, text in enumerate(texts, 1):
            copies = sent.get(part_delivery_id(delivery.id, number), [])
            if not copies or copies[-1].text != text:
                stands = [copy.text for copy in copies]
                yield f"part {number} of {delivery.id} is {text!r}, and people read {stands}"
        if part_delivery_id(delivery.id, len(texts) + 1) in sent:
            yield f"{delivery.id} has more than its {len(texts)} parts"


def every_message_belongs_to_a_delivery(books: Books) -> Iterator[str]:
    """I1: nothing stands in a chat that the outbox does not know."""
    owed = {delivery.id for delivery in books.outbox}
    for delivery_id in _sent(books.home):
        if whole_of(delivery_id) not in owed:
            yield f"{delivery_id} stands in a chat, and nobody owed it"


def chats_are_in_order(books: Books) -> Iterator[str]:
    """I3: a chat gets what it is owed in the order in which that was committed, whichever
    conversation or command of that chat it comes from. A reply that may have been begun early has
    its place among those of its own conversation alone."""
    owed = {delivery.id: delivery for delivery in books.outbox}
    last: dict[str, int] = {}
    for delivery_id in dict.fromkeys(map(whole_of, _sent(books.home))):
        delivery = owed[delivery_id]
        chat = delivery.address.chat_id
        if books.home.service.info.edit and delivery.turn_id is not None:
            chat, place = (
                f"{chat} {delivery.session_id}",
                int(delivery.turn_id.removeprefix("turn_")),
            )
        else:
            place = delivery.seq
        if place < last.get(chat, 0):
            yield f"{delivery_id} overtook another of {chat}"
        last[chat] = max(place, last.get(chat, 0))


def whole_of(delivery_id: str) -> DeliveryId:
    """The delivery that a part belongs to."""
    return DeliveryId(delivery_id.partition(".")[0])


def _sent_away(delivery: DeliveryRow) -> bool:
    """It was sent, and not merely kept to be fetched."""
    fetched = delivery.address.platform in ("api", INTERNAL_PLATFORM)
    return delivery.state is DeliveryState.SENT and not fetched


AT_PEACE: Sequence[Law] = (
    deliveries_are_settled,
    what_was_sent_stands_there,
    every_message_belongs_to_a_delivery,
)
AFTER_ALL: Sequence[Law] = (chats_are_in_order,)

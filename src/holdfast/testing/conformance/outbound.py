"""Speaking: what is sent arrives once and in order, or the door says what is known of it."""

from collections.abc import Sequence
from functools import partial

import msgspec
import pytest

from holdfast.core.errors import (
    NotConnected,
    OutcomeUnknown,
    Refused,
    Throttled,
)
from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import Change
from holdfast.core.ports.protocols import Editing, LooksUp, Reacting, ShowsTyping
from holdfast.core.ports.signs import SEEN
from holdfast.testing.conformance.assertions import (
    connected,
    heard,
    outbound,
    shown,
    until_told,
    where,
)
from holdfast.testing.conformance.check import Check, needs
from holdfast.testing.conformance.ground import Ground, Place, Trouble
from holdfast.testing.intake import RecordingIntake


@Check
async def messages_arrive_in_the_order_in_which_they_are_sent(ground: Ground) -> None:
    """I3"""
    async with connected(ground, RecordingIntake()):
        for number, text in enumerate(("one", "two", "three")):
            receipt = await ground.door.send(outbound(ground, text, delivery=f"d{number}"))
            assert receipt.platform_message_id
        await shown(ground, "one", "two", "three")


@Check
async def what_was_sent_can_be_changed(ground: Ground) -> None:
    """I2: edits are idempotent; I4: a reply that grows is one message."""
    door = ground.door
    needs(door.capabilities.edit, "it declares that nothing is changed there")
    assert isinstance(door, Editing)
    async with connected(ground, RecordingIntake()):
        receipt = await door.send(outbound(ground, "Hel"))
        await shown(ground, "Hel")
        change = Change(
            delivery_id=DeliveryId("d1"),
            address=ground.address(),
            platform_message_id=receipt.platform_message_id,
            text="Hello",
        )
        for _ in range(2):
            await door.edit(change)
        await shown(ground, "Hello")


@Check
async def it_shows_that_an_answer_is_being_written(ground: Ground) -> None:
    door = ground.door
    needs(door.capabilities.typing, "it declares that nobody sees there who writes")
    assert isinstance(door, ShowsTyping)
    async with connected(ground, RecordingIntake()):
        await door.typing(ground.address())


@Check
async def a_message_of_a_person_bears_a_sign_until_it_is_taken_back(ground: Ground) -> None:
    """Busy: each of the two twice is once, and neither comes in as a message."""
    door, intake = ground.door, RecordingIntake()
    async with connected(ground, intake):
        needs(door.capabilities.reactions, "it declares that no message is marked there")
        assert isinstance(door, Reacting)
        name = await ground.say("one")
        (said,) = await heard(intake, "one")
        for sign in (SEEN, SEEN, None, None):
            await door.react(where(said), said.message_id, sign)
            wanted = [] if sign is None else [sign]
            await until_told(partial(ground.signs, name), partial(_same, wanted))
        await ground.say("two")
        await heard(intake, "one", "two")
        await shown(ground)


def _same(wanted: Sequence[str], found: Sequence[str]) -> bool:
    return list(found) == list(wanted)


@Check
async def who_declares_no_signs_puts_none(ground: Ground) -> None:
    """A door that has them for some accounts only is refused by its vendor for the others."""
    door, intake = ground.door, RecordingIntake()
    async with connected(ground, intake):
        needs(not door.capabilities.reactions, "it declares that it marks messages")
        if isinstance(door, Reacting):
            await ground.say("one")
            (said,) = await heard(intake, "one")
            with pytest.raises(Refused):
                await door.react(where(said), said.message_id, SEEN)


@Check
async def an_answer_stands_where_it_was_asked_for(ground: Ground) -> None:
    """D1, D2: in that thread, as a reply to that very message."""
    intake = RecordingIntake()
    can = ground.door.capabilities
    place = Place.THREAD if can.threads else Place.DM
    async with connected(ground, intake):
        name = await ground.say("where?", place=place, named=True)
        (asked,) = (await intake.wait_for_tries(1))[:1]
        assert (asked.source.thread_id is not None) == can.threads
        there = msgspec.structs.replace(outbound(ground, "here"), address=where(asked))
        await ground.door.send(there)
        (answer,) = await until_told(ground.read, bool)
    assert answer.place is place
    needs(ground.shows_answers, "it is not to be seen there what a message answers")
    assert answer.answers == name


@Check
async def a_flood_says_how_long_to_wait_and_nothing_was_taken(ground: Ground) -> None:
    """I2: 429 → wait as told."""
    async with connected(ground, RecordingIntake()):
        await ground.trouble(Trouble.FLOOD)
        with pytest.raises(Throttled) as told:
            await ground.door.send(outbound(ground, "too soon"))
        assert told.value.retry_after > 0
        await ground.trouble(Trouble.WELL)
        await ground.door.send(outbound(ground, "later", delivery="d2"))
        await shown(ground, "later")


@Check
async def what_is_refused_for_good_says_so(ground: Ground) -> None:
    """I2: another 4xx → failed."""
    async with connected(ground, RecordingIntake()):
        await ground.trouble(Trouble.REFUSED)
        with pytest.raises(Refused):
            await ground.door.send(outbound(ground, "never"))
        await ground.trouble(Trouble.WELL)
        await ground.door.send(outbound(ground, "this", delivery="d2"))
        await shown(ground, "this")


@Check
async def a_lost_receipt_leaves_it_open_whether_it_has_arrived(ground: Ground) -> None:
    """I2: a reset after the body was written → unknown. Sent again it is there twice and says so,
    unless it is known by its id, or can be looked up: then it is there once."""
    door, can = ground.door, ground.door.capabilities
    message = outbound(ground, "hello")
    async with connected(ground, RecordingIntake()):
        await ground.trouble(Trouble.RECEIPT_LOST)
        with pytest.raises(OutcomeUnknown):
            await door.send(message)
        await ground.trouble(Trouble.WELL)
    async with connected(ground, RecordingIntake()):
        if can.lookup:
            assert isinstance(door, LooksUp)
            assert await door.find(message.delivery_id, message.address) is not None
            assert await door.find(DeliveryId("d9"), message.address) is None
        else:
            await door.send(msgspec.structs.replace(message, maybe_repeated=True))
        found = await until_told(ground.read, lambda read: len(read) > (not can.settles_doubt))
    texts = [each.text for each in found]  # two that follow at once may be read in any order
    assert texts.count("hello") == 1
    assert all(text.endswith("hello") for text in texts)


@Check
async def a_door_without_a_line_sends_nothing(ground: Ground) -> None:
    """I2: connect failure → still pending."""
    needs(ground.has_line, "door and vendor are one process: there is no line to be missing")
    async with connected(ground, RecordingIntake()):
        pass
    with pytest.raises(NotConnected):
        await ground.door.send(outbound(ground, "too early"))
    async with connected(ground, RecordingIntake()):
        await ground.door.send(outbound(ground, "now"))
        await shown(ground, "now")

"""Checks of sending: a message arrives once and in order, or the platform says what is known of it."""

from collections.abc import Sequence
from functools import partial

import msgspec
import pytest

from holdfast.core.errors import (
    NotConnected,
    OutcomeUnknown,
    SendRejected,
    Throttled,
)
from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import MessageEdit
from holdfast.core.ports.capabilities import WAITING_REACTION
from holdfast.core.ports.platform import (
    SupportsEditing,
    SupportsLookup,
    SupportsReactions,
    SupportsTyping,
)
from holdfast.testing.conformance.assertions import (
    assert_received,
    assert_shown,
    connected,
    make_outbound,
    reply_address,
    wait_for,
)
from holdfast.testing.conformance.harness import (
    ChatKind,
    ConformanceCheck,
    PlatformHarness,
    VendorFault,
    require,
)
from holdfast.testing.intake import RecordingIntake


@ConformanceCheck
async def messages_arrive_in_the_order_in_which_they_are_sent(harness: PlatformHarness) -> None:
    """I3"""
    async with connected(harness, RecordingIntake()):
        for number, text in enumerate(("one", "two", "three")):
            receipt = await harness.platform.send(
                make_outbound(harness, text, delivery=f"d{number}")
            )
            assert receipt.platform_message_id
        await assert_shown(harness, "one", "two", "three")


@ConformanceCheck
async def a_sent_message_can_be_edited(harness: PlatformHarness) -> None:
    """I2: edits are idempotent; I4: a reply that grows is one message."""
    door = harness.platform
    require(door.capabilities.edit, "it declares that nothing is changed there")
    assert isinstance(door, SupportsEditing)
    async with connected(harness, RecordingIntake()):
        receipt = await door.send(make_outbound(harness, "Hel"))
        await assert_shown(harness, "Hel")
        change = MessageEdit(
            delivery_id=DeliveryId("d1"),
            address=harness.address(),
            platform_message_id=receipt.platform_message_id,
            text="Hello",
        )
        for _ in range(2):
            await door.edit(change)
        await assert_shown(harness, "Hello")


@ConformanceCheck
async def it_shows_a_typing_indicator(harness: PlatformHarness) -> None:
    door = harness.platform
    require(door.capabilities.typing, "it declares that nobody sees there who writes")
    assert isinstance(door, SupportsTyping)
    async with connected(harness, RecordingIntake()):
        await door.show_typing(harness.address())


@ConformanceCheck
async def a_reaction_is_set_and_removed(harness: PlatformHarness) -> None:
    """Busy: each of the two twice is once, and neither comes in as a message."""
    door, intake = harness.platform, RecordingIntake()
    async with connected(harness, intake):
        require(door.capabilities.reactions, "it declares that no message is marked there")
        assert isinstance(door, SupportsReactions)
        name = await harness.say("one")
        (said,) = await assert_received(intake, "one")
        for sign in (WAITING_REACTION, WAITING_REACTION, None, None):
            await door.react(reply_address(said), said.message_id, sign)
            wanted = [] if sign is None else [sign]
            await wait_for(partial(harness.reactions, name), partial(_same, wanted))
        await harness.say("two")
        await assert_received(intake, "one", "two")
        await assert_shown(harness)


def _same(wanted: Sequence[str], found: Sequence[str]) -> bool:
    return list(found) == list(wanted)


@ConformanceCheck
async def a_platform_without_reactions_refuses_them(harness: PlatformHarness) -> None:
    """A door that has them for some accounts only is refused by its vendor for the others."""
    door, intake = harness.platform, RecordingIntake()
    async with connected(harness, intake):
        require(not door.capabilities.reactions, "it declares that it marks messages")
        if isinstance(door, SupportsReactions):
            await harness.say("one")
            (said,) = await assert_received(intake, "one")
            with pytest.raises(SendRejected):
                await door.react(reply_address(said), said.message_id, WAITING_REACTION)


@ConformanceCheck
async def an_answer_goes_to_the_thread_and_message_it_replies_to(harness: PlatformHarness) -> None:
    """D1, D2: in that thread, as a reply to that very message."""
    intake = RecordingIntake()
    can = harness.platform.capabilities
    place = ChatKind.THREAD if can.threads else ChatKind.DM
    async with connected(harness, intake):
        name = await harness.say("where?", chat=place, mention=True)
        (asked,) = (await intake.wait_for_attempts(1))[:1]
        assert (asked.source.thread_id is not None) == can.threads
        there = msgspec.structs.replace(
            make_outbound(harness, "here"), address=reply_address(asked)
        )
        await harness.platform.send(there)
        (answer,) = await wait_for(harness.bot_messages, bool)
    assert answer.chat is place
    require(harness.shows_replies, "it is not to be seen there what a message answers")
    assert answer.reply_to == name


@ConformanceCheck
async def a_rate_limit_says_how_long_to_wait_and_nothing_was_sent(harness: PlatformHarness) -> None:
    """I2: 429 → wait as told."""
    async with connected(harness, RecordingIntake()):
        await harness.set_fault(VendorFault.RATE_LIMIT)
        with pytest.raises(Throttled) as told:
            await harness.platform.send(make_outbound(harness, "too soon"))
        assert told.value.retry_after > 0
        await harness.set_fault(VendorFault.NONE)
        await harness.platform.send(make_outbound(harness, "later", delivery="d2"))
        await assert_shown(harness, "later")


@ConformanceCheck
async def a_permanent_refusal_is_reported_as_one(harness: PlatformHarness) -> None:
    """I2: another 4xx → failed."""
    async with connected(harness, RecordingIntake()):
        await harness.set_fault(VendorFault.REFUSED)
        with pytest.raises(SendRejected):
            await harness.platform.send(make_outbound(harness, "never"))
        await harness.set_fault(VendorFault.NONE)
        await harness.platform.send(make_outbound(harness, "this", delivery="d2"))
        await assert_shown(harness, "this")


@ConformanceCheck
async def a_lost_receipt_means_an_unknown_outcome(harness: PlatformHarness) -> None:
    """I2: a reset after the body was written → unknown. Sent again it is there twice and says so,
    unless it is known by its id, or can be looked up: then it is there once."""
    door, can = harness.platform, harness.platform.capabilities
    message = make_outbound(harness, "hello")
    async with connected(harness, RecordingIntake()):
        await harness.set_fault(VendorFault.RECEIPT_LOST)
        with pytest.raises(OutcomeUnknown):
            await door.send(message)
        await harness.set_fault(VendorFault.NONE)
    async with connected(harness, RecordingIntake()):
        if can.lookup:
            assert isinstance(door, SupportsLookup)
            assert await door.find_delivery(message.delivery_id, message.address) is not None
            assert await door.find_delivery(DeliveryId("d9"), message.address) is None
        else:
            await door.send(msgspec.structs.replace(message, may_be_duplicate=True))
        found = await wait_for(
            harness.bot_messages, lambda read: len(read) > (not can.can_resolve_unknown)
        )
    texts = [each.text for each in found]  # two that follow at once may be read in any order
    assert texts.count("hello") == 1
    assert all(text.endswith("hello") for text in texts)


@ConformanceCheck
async def a_disconnected_platform_sends_nothing(harness: PlatformHarness) -> None:
    """I2: connect failure → still pending."""
    require(
        harness.has_connection, "door and vendor are one process: there is no line to be missing"
    )
    async with connected(harness, RecordingIntake()):
        pass
    with pytest.raises(NotConnected):
        await harness.platform.send(make_outbound(harness, "too early"))
    async with connected(harness, RecordingIntake()):
        await harness.platform.send(make_outbound(harness, "now"))
        await assert_shown(harness, "now")

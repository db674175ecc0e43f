"""Checks of sending: a message arrives once and in order, or the error says what is known of it."""

from collections.abc import Sequence
from functools import partial

import msgspec
import pytest

from holdfast.core.errors import (
    EditRefused,
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
    platform = harness.platform
    require(platform.capabilities.edit, "it declares no edits")
    assert isinstance(platform, SupportsEditing)
    async with connected(harness, RecordingIntake()):
        receipt = await platform.send(make_outbound(harness, "Hel"))
        await assert_shown(harness, "Hel")
        change = MessageEdit(
            delivery_id=DeliveryId("d1"),
            address=harness.address(),
            platform_message_id=receipt.platform_message_id,
            text="Hello",
        )
        for _ in range(2):
            await platform.edit(change)
        await assert_shown(harness, "Hello")


@ConformanceCheck
async def an_edit_of_a_deleted_message_says_that_no_edit_will_be_accepted(
    harness: PlatformHarness,
) -> None:
    """I4: then the reply is sent as a new message, and is not lost."""
    platform = harness.platform
    require(platform.capabilities.edit, "it declares no edits")
    assert isinstance(platform, SupportsEditing)
    async with connected(harness, RecordingIntake()):
        receipt = await platform.send(make_outbound(harness, "Hel"))
        await assert_shown(harness, "Hel")
        await harness.delete_answer()
        change = MessageEdit(
            delivery_id=DeliveryId("d1"),
            address=harness.address(),
            platform_message_id=receipt.platform_message_id,
            text="Hello",
        )
        with pytest.raises(EditRefused):
            await platform.edit(change)


@ConformanceCheck
async def it_shows_a_typing_indicator(harness: PlatformHarness) -> None:
    platform = harness.platform
    require(platform.capabilities.typing, "it declares no typing indicator")
    assert isinstance(platform, SupportsTyping)
    async with connected(harness, RecordingIntake()):
        await platform.show_typing(harness.address())


@ConformanceCheck
async def a_reaction_is_set_and_removed(harness: PlatformHarness) -> None:
    """Busy: setting or removing it twice is the same as once, and neither comes in as a message."""
    platform, intake = harness.platform, RecordingIntake()
    async with connected(harness, intake):
        require(platform.capabilities.reactions, "it declares no reactions")
        assert isinstance(platform, SupportsReactions)
        message_id = await harness.say("one")
        (inbound,) = await assert_received(intake, "one")
        for emoji in (WAITING_REACTION, WAITING_REACTION, None, None):
            await platform.react(reply_address(inbound), inbound.message_id, emoji)
            expected = [] if emoji is None else [emoji]
            await wait_for(partial(harness.reactions, message_id), partial(_same, expected))
        await harness.say("two")
        await assert_received(intake, "one", "two")
        await assert_shown(harness)


def _same(expected: Sequence[str], found: Sequence[str]) -> bool:
    return list(found) == list(expected)


@ConformanceCheck
async def a_platform_without_reactions_refuses_them(harness: PlatformHarness) -> None:
    """Where only some accounts have reactions, the vendor refuses those of the others."""
    platform, intake = harness.platform, RecordingIntake()
    async with connected(harness, intake):
        require(not platform.capabilities.reactions, "it declares reactions")
        if isinstance(platform, SupportsReactions):
            await harness.say("one")
            (inbound,) = await assert_received(intake, "one")
            with pytest.raises(SendRejected):
                await platform.react(reply_address(inbound), inbound.message_id, WAITING_REACTION)


@ConformanceCheck
async def an_answer_goes_to_the_thread_and_message_it_replies_to(harness: PlatformHarness) -> None:
    """D1, D2: in that thread, as a reply to that very message."""
    intake = RecordingIntake()
    can = harness.platform.capabilities
    chat = ChatKind.THREAD if can.threads else ChatKind.DM
    async with connected(harness, intake):
        message_id = await harness.say("where?", chat=chat, mention=True)
        (asked,) = (await intake.wait_for_attempts(1))[:1]
        assert (asked.source.thread_id is not None) == can.threads
        reply = msgspec.structs.replace(
            make_outbound(harness, "here"), address=reply_address(asked)
        )
        await harness.platform.send(reply)
        (answer,) = await wait_for(harness.bot_messages, bool)
    assert answer.chat is chat
    require(harness.shows_replies, "there it is not visible what a message replies to")
    assert answer.reply_to == message_id


@ConformanceCheck
async def a_rate_limit_says_how_long_to_wait_and_nothing_was_sent(harness: PlatformHarness) -> None:
    """I2: 429 → wait as long as the vendor says."""
    async with connected(harness, RecordingIntake()):
        await harness.set_fault(VendorFault.RATE_LIMIT)
        with pytest.raises(Throttled) as raised:
            await harness.platform.send(make_outbound(harness, "too soon"))
        assert raised.value.retry_after > 0
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
    """I2: a reset after the body was written → unknown. Sent again, it is there twice and marked as
    repeated, unless the vendor knows its id or can look it up: then it is there once."""
    platform, can = harness.platform, harness.platform.capabilities
    message = make_outbound(harness, "hello")
    async with connected(harness, RecordingIntake()):
        await harness.set_fault(VendorFault.RECEIPT_LOST)
        with pytest.raises(OutcomeUnknown):
            await platform.send(message)
        await harness.set_fault(VendorFault.NONE)
    async with connected(harness, RecordingIntake()):
        if can.lookup:
            assert isinstance(platform, SupportsLookup)
            assert await platform.find_delivery(message.delivery_id, message.address) is not None
            assert await platform.find_delivery(DeliveryId("d9"), message.address) is None
        else:
            await platform.send(msgspec.structs.replace(message, may_be_duplicate=True))
        found = await wait_for(
            harness.bot_messages, lambda read: len(read) > (not can.can_resolve_unknown)
        )
    texts = [each.text for each in found]  # two in quick succession may be read in any order
    assert texts.count("hello") == 1
    assert all(text.endswith("hello") for text in texts)


@ConformanceCheck
async def a_disconnected_platform_sends_nothing(harness: PlatformHarness) -> None:
    """I2: connect failure → still pending."""
    require(harness.has_connection, "there is no connection: platform and vendor are one process")
    async with connected(harness, RecordingIntake()):
        pass
    with pytest.raises(NotConnected):
        await harness.platform.send(make_outbound(harness, "too early"))
    async with connected(harness, RecordingIntake()):
        await harness.platform.send(make_outbound(harness, "now"))
        await assert_shown(harness, "now")

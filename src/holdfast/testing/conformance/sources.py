"""Checks of the source of a message: who wrote it, where, to whom, and in reply to what."""

import re

import msgspec

from holdfast.core.messages.source import Author, ChatType
from holdfast.testing.conformance.assertions import (
    assert_received,
    assert_shown,
    connected,
    make_outbound,
    messages_from_others,
    reply_address,
    wait_until,
)
from holdfast.testing.conformance.harness import (
    ChatKind,
    ConformanceCheck,
    Participant,
    PlatformHarness,
)
from holdfast.testing.intake import RecordingIntake


@ConformanceCheck
async def two_people_have_different_ids_and_chats(harness: PlatformHarness) -> None:
    """Authorisation uses these ids."""
    intake = RecordingIntake()
    texts = (("one", Participant.ANN), ("two", Participant.BOB), ("three", Participant.ANN))
    async with connected(harness, intake):
        for number, (text, by) in enumerate(texts, start=1):
            await harness.say(text, by=by)
            await assert_received(intake, *(each for each, _ in texts[:number]))
    ann, bob, again = (each.source for each in intake.accepted)
    assert ann.user_id == again.user_id != bob.user_id
    assert ann.chat_id == again.chat_id != bob.chat_id
    assert {each.chat_type for each in (ann, bob, again)} == {ChatType.DM}
    assert {each.author for each in (ann, bob, again)} == {Author.PERSON}
    assert ann.chat_id == harness.address().chat_id
    form = harness.platform.capabilities.chat_id_format
    assert form is None or all(re.fullmatch(form.pattern, each.chat_id) for each in (ann, bob))


@ConformanceCheck
async def a_bot_is_distinguished_from_a_person(harness: PlatformHarness) -> None:
    """Two bots that answer each other never stop. A platform may also drop messages of bots."""
    intake = RecordingIntake()
    async with connected(harness, intake):
        await harness.say("beep", by=Participant.PROGRAM, chat=ChatKind.GROUP, mention=True)
        await harness.say("and I am Ann", chat=ChatKind.GROUP, mention=True)
        await wait_until(lambda: any("Ann" in each.text for each in intake.accepted))
    *programs, ann = intake.accepted
    assert ann.source.author is Author.PERSON
    assert all(each.source.author is Author.BOT for each in programs)


@ConformanceCheck
async def its_own_messages_are_not_taken_for_a_persons(harness: PlatformHarness) -> None:
    """Where a vendor sends a bot its own messages, their author is `SELF`, or they are dropped."""
    intake = RecordingIntake()
    async with connected(harness, intake):
        await harness.platform.send(make_outbound(harness, "my own words"))
        await assert_shown(harness, "my own words")
        await harness.say("after")
        await assert_received(intake, "after")


@ConformanceCheck
async def in_a_group_it_reports_whether_it_was_mentioned(harness: PlatformHarness) -> None:
    """Groups: the agent answers when it is addressed."""
    intake = RecordingIntake()
    async with connected(harness, intake):
        await harness.say("dinner at eight", by=Participant.BOB, chat=ChatKind.GROUP)
        await harness.say("are you there?", chat=ChatKind.GROUP, mention=True)
        await wait_until(lambda: any("there?" in each.text for each in intake.accepted))
    *others, asked = intake.accepted
    assert asked.mentioned
    assert asked.source.chat_type is not ChatType.DM
    assert not any(each.mentioned for each in others)
    assert {each.source.chat_id for each in others} <= {asked.source.chat_id}


@ConformanceCheck
async def the_message_that_is_replied_to_is_quoted(harness: PlatformHarness) -> None:
    """Groups: a reply to the bot is addressed to it, and the agent sees what was quoted. A vendor
    that does not send the quoted text says at least whose message it was."""
    intake = RecordingIntake()
    async with connected(harness, intake):
        asked = await harness.say(
            "who is it?", by=Participant.BOB, chat=ChatKind.GROUP, mention=True
        )
        (question,) = (await intake.wait_for_attempts(1))[:1]
        here = msgspec.structs.replace(reply_address(question), thread_id=None, reply_to=None)
        answer = msgspec.structs.replace(make_outbound(harness, "it is me"), address=here)
        receipt = await harness.platform.send(answer)
        await harness.say("I see", chat=ChatKind.GROUP, reply_to=receipt.platform_message_id)
        await wait_until(lambda: len(messages_from_others(intake)) == 2)
        await harness.say("why?", chat=ChatKind.GROUP, mention=True, reply_to=asked)
        await wait_until(lambda: len(messages_from_others(intake)) == 3)
    ours, bobs = (each.quoted for each in messages_from_others(intake)[1:])
    assert ours is not None
    assert ours.ours
    assert not ours.text or "it is me" in ours.text
    assert bobs is not None
    assert not bobs.ours
    assert not bobs.text or "who is it?" in bobs.text

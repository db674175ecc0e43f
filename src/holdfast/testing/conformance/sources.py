"""People: who speaks, where, to whom, and about what, as far as the vendor tells."""

import re

import msgspec

from holdfast.core.messages.source import Author, ChatType
from holdfast.testing.conformance.assertions import (
    connected,
    heard,
    outbound,
    said,
    shown,
    until,
    where,
)
from holdfast.testing.conformance.check import Check
from holdfast.testing.conformance.ground import Ground, Person, Place
from holdfast.testing.intake import RecordingIntake


@Check
async def two_people_are_two_and_each_has_a_chat_of_their_own(ground: Ground) -> None:
    """Authorisation goes by these ids."""
    intake = RecordingIntake()
    words = (("one", Person.ANN), ("two", Person.BOB), ("three", Person.ANN))
    async with connected(ground, intake):
        for number, (text, by) in enumerate(words, start=1):
            await ground.say(text, by=by)
            await heard(intake, *(each for each, _ in words[:number]))
    ann, bob, again = (each.source for each in intake.accepted)
    assert ann.user_id == again.user_id != bob.user_id
    assert ann.chat_id == again.chat_id != bob.chat_id
    assert {each.chat_type for each in (ann, bob, again)} == {ChatType.DM}
    assert {each.author for each in (ann, bob, again)} == {Author.PERSON}
    assert ann.chat_id == ground.address().chat_id
    form = ground.door.capabilities.chat_form
    assert form is None or all(re.fullmatch(form.pattern, each.chat_id) for each in (ann, bob))


@Check
async def a_program_is_told_from_a_person(ground: Ground) -> None:
    """Who answers programs may do so for ever. A door may also keep them to itself."""
    intake = RecordingIntake()
    async with connected(ground, intake):
        await ground.say("beep", by=Person.PROGRAM, place=Place.GROUP, named=True)
        await ground.say("and I am Ann", place=Place.GROUP, named=True)
        await until(lambda: any("Ann" in each.text for each in intake.accepted))
    *programs, ann = intake.accepted
    assert ann.source.author is Author.PERSON
    assert all(each.source.author is Author.BOT for each in programs)


@Check
async def its_own_words_are_nobody_elses(ground: Ground) -> None:
    """Where a vendor gives a bot what the bot has said, it is ours, or kept from intake."""
    intake = RecordingIntake()
    async with connected(ground, intake):
        await ground.door.send(outbound(ground, "my own words"))
        await shown(ground, "my own words")
        await ground.say("after")
        await heard(intake, "after")


@Check
async def in_a_group_it_is_told_whether_it_was_named(ground: Ground) -> None:
    """Groups: the agent answers when it is meant."""
    intake = RecordingIntake()
    async with connected(ground, intake):
        await ground.say("dinner at eight", by=Person.BOB, place=Place.GROUP)
        await ground.say("are you there?", place=Place.GROUP, named=True)
        await until(lambda: any("there?" in each.text for each in intake.accepted))
    *others, asked = intake.accepted
    assert asked.mentioned
    assert asked.source.chat_type is not ChatType.DM
    assert not any(each.mentioned for each in others)
    assert {each.source.chat_id for each in others} <= {asked.source.chat_id}


@Check
async def what_a_message_answers_is_quoted(ground: Ground) -> None:
    """Groups: whoever answers the bot means it, and what was quoted is seen. A vendor that does
    not say what was answered says at least whose it was."""
    intake = RecordingIntake()
    async with connected(ground, intake):
        asked = await ground.say("who is it?", by=Person.BOB, place=Place.GROUP, named=True)
        (question,) = (await intake.wait_for_tries(1))[:1]
        here = msgspec.structs.replace(where(question), thread_id=None, reply_to=None)
        answer = msgspec.structs.replace(outbound(ground, "it is me"), address=here)
        receipt = await ground.door.send(answer)
        await ground.say("I see", place=Place.GROUP, answers=receipt.platform_message_id)
        await until(lambda: len(said(intake)) == 2)
        await ground.say("why?", place=Place.GROUP, named=True, answers=asked)
        await until(lambda: len(said(intake)) == 3)
    ours, bobs = (each.quoted for each in said(intake)[1:])
    assert ours is not None
    assert ours.ours
    assert not ours.text or "it is me" in ours.text
    assert bobs is not None
    assert not bobs.ours
    assert not bobs.text or "who is it?" in bobs.text

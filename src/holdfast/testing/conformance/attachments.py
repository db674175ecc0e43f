"""Belongings of a message: the files that come and go with it, and the buttons under it."""

import msgspec

from holdfast.core.messages.outbox import Choice, SentFile
from holdfast.testing.conformance.assertions import connected, outbound, said, until, until_told
from holdfast.testing.conformance.check import Check, needs
from holdfast.testing.conformance.ground import Ground
from holdfast.testing.intake import RecordingIntake

_FILE = SentFile(name="plan.txt", data=b"the plan\n\x00\xff" * 100)
_CHOICES = (
    Choice(label="Yes", says="/approve ap_0123456789abcdef session"),
    Choice(label="No", says="/deny ap_0123456789abcdef"),
)


@Check
async def a_file_that_people_send_can_be_fetched(ground: Ground) -> None:
    """Attachments: with the words beside it, under its name, and whole."""
    needs(ground.door.capabilities.attachments_in, "it declares that no files come in there")
    intake = RecordingIntake()
    async with connected(ground, intake):
        await ground.say("look", files=[_FILE])
        await until(lambda: intake.accepted)
    assert [each.text for each in intake.accepted] == ["look"]
    assert intake.attached == [(_FILE.name, _FILE.data)]


@Check
async def a_file_of_the_agent_arrives_whole(ground: Ground) -> None:
    needs(ground.door.capabilities.attachments_out, "it declares that it takes no files")
    async with connected(ground, RecordingIntake()):
        message = msgspec.structs.replace(outbound(ground, "the plan"), file=_FILE)
        receipt = await ground.door.send(message)
        assert receipt.platform_message_id
        found = await until_told(ground.read, lambda read: [f for each in read for f in each.files])
    assert [file for each in found for file in each.files] == [_FILE]
    assert any("the plan" in each.text for each in found)


@Check
async def a_button_says_what_it_stands_for(ground: Ground) -> None:
    """Approvals: a press comes in as the words of whoever pressed it, meant for the agent."""
    needs(ground.door.capabilities.buttons, "it declares no buttons: people write the words")
    intake = RecordingIntake()
    async with connected(ground, intake):
        await ground.say("clean up")
        await until(lambda: intake.accepted)
        asked = msgspec.structs.replace(outbound(ground, "May I?"), choices=_CHOICES)
        await ground.door.send(asked)
        await until_told(ground.read, lambda read: read and read[-1].choices == ("Yes", "No"))
        await ground.press("No")
        await until(lambda: len(said(intake)) == 2)
    person, pressed = said(intake)
    assert pressed.text == _CHOICES[1].says
    assert pressed.source.user_id == person.source.user_id
    assert pressed.source.chat_id == person.source.chat_id
    assert pressed.mentioned
    assert pressed.event_id != person.event_id

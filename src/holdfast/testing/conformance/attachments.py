"""Checks of what comes with a message: the files in both directions, and the buttons below it."""

import msgspec
import pytest

from holdfast.core.errors import FileTooLarge
from holdfast.core.messages.outbox import Button, OutboundFile
from holdfast.testing.conformance.assertions import (
    assert_shown,
    connected,
    make_outbound,
    messages_from_others,
    wait_for,
    wait_until,
)
from holdfast.testing.conformance.harness import ConformanceCheck, PlatformHarness, require
from holdfast.testing.intake import RecordingIntake

_FILE = OutboundFile(name="plan.txt", data=b"the plan\n\x00\xff" * 100)
_BUTTONS = (
    Button(label="Yes", value="/approve ap_0123456789abcdef session"),
    Button(label="No", value="/deny ap_0123456789abcdef"),
)


@ConformanceCheck
async def a_file_that_people_send_can_be_fetched(harness: PlatformHarness) -> None:
    """Attachments: with its caption, under its name, and intact."""
    require(harness.platform.capabilities.attachments_in, "it declares no incoming files")
    intake = RecordingIntake()
    async with connected(harness, intake):
        await harness.say("look", files=[_FILE])
        await wait_until(lambda: intake.accepted)
    assert [each.text for each in intake.accepted] == ["look"]
    assert intake.attachments == [(_FILE.name, _FILE.data)]


@ConformanceCheck
async def a_file_of_the_agent_arrives_intact(harness: PlatformHarness) -> None:
    require(harness.platform.capabilities.attachments_out, "it declares no outgoing files")
    async with connected(harness, RecordingIntake()):
        message = msgspec.structs.replace(make_outbound(harness, "the plan"), file=_FILE)
        receipt = await harness.platform.send(message)
        assert receipt.platform_message_id
        found = await wait_for(
            harness.bot_messages, lambda read: [f for each in read for f in each.files]
        )
    assert [file for each in found for file in each.files] == [_FILE]
    assert any("the plan" in each.text for each in found)


@ConformanceCheck
async def a_file_that_is_too_large_is_refused_for_its_size(harness: PlatformHarness) -> None:
    """I2: for good, and with that reason, which the chat and the agent get."""
    require(harness.platform.capabilities.attachments_out, "it declares no outgoing files")
    async with connected(harness, RecordingIntake()):
        file = await harness.too_large_file()
        with pytest.raises(FileTooLarge):
            await harness.platform.send(
                msgspec.structs.replace(make_outbound(harness, "the plan"), file=file)
            )
        await harness.platform.send(make_outbound(harness, "too large", delivery="d2"))
        await assert_shown(harness, "too large")


@ConformanceCheck
async def a_button_sends_its_text(harness: PlatformHarness) -> None:
    """Approvals: a press comes in as a message of the person who pressed, to the agent."""
    require(harness.platform.capabilities.buttons, "it declares no buttons")
    intake = RecordingIntake()
    async with connected(harness, intake):
        await harness.say("clean up")
        await wait_until(lambda: intake.accepted)
        asked = msgspec.structs.replace(make_outbound(harness, "May I?"), buttons=_BUTTONS)
        await harness.platform.send(asked)
        await wait_for(
            harness.bot_messages, lambda read: read and read[-1].buttons == ("Yes", "No")
        )
        await harness.press("No")
        await wait_until(lambda: len(messages_from_others(intake)) == 2)
    person, pressed = messages_from_others(intake)
    assert pressed.text == _BUTTONS[1].value
    assert pressed.source.user_id == person.source.user_id
    assert pressed.source.chat_id == person.source.chat_id
    assert pressed.mentioned
    assert pressed.event_id != person.event_id

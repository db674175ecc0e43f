"""Tests sending to Discord: messages, edits, files, buttons, commands and failures."""

from pathlib import Path

import pytest
from tests.platforms.connection_faults import ConnectionFault
from tests.platforms.discord.builders import address, change, new_platform, outbound, until
from tests.platforms.discord.fake import ANN_DM, BOT, TEXT, THREAD, FakeDiscord
from tests.platforms.discord.faults import flood

from holdfast.core.commands import COMMANDS_BY_NAME
from holdfast.core.errors import (
    IntakeClosed,
    NotAllowed,
    NotConnected,
    OutcomeUnknown,
    SendRejected,
    Throttled,
)
from holdfast.core.messages.outbox import Button, OutboundFile
from holdfast.system.languages import catalogue_for
from holdfast.testing.intake import RecordingIntake
from holdfast.testing.simulated.events import ALWAYS


async def test_a_reply_is_sent_to_its_thread_and_mentions_no_other_user(
    vendor: FakeDiscord, tmp_path: Path
) -> None:
    where = address(TEXT, thread_id=THREAD, reply_to="123")
    platform = new_platform(vendor, tmp_path)
    async with platform.connect(RecordingIntake()):
        await platform.send(outbound("@everyone **look**", to=where))
        await platform.send(outbound("more", name="d1.2", to=where, part=2))
        await platform.show_typing(where)
    assert [each["content"] for each in vendor.messages[THREAD]] == ["@everyone **look**", "more"]
    first, second = vendor.bodies
    assert first["message_reference"] == {"message_id": "123", "fail_if_not_exists": False}
    assert "message_reference" not in second
    assert first["allowed_mentions"] == {"parse": [], "replied_user": True}
    assert f"POST /channels/{THREAD}/typing" in vendor.calls


async def test_a_message_without_a_receipt_arrives_once(
    vendor: FakeDiscord, tmp_path: Path
) -> None:
    """I2: exactly once, by a nonce that is enforced."""
    platform = new_platform(vendor, tmp_path)
    async with platform.connect(RecordingIntake()):
        for fault in (ConnectionFault.RESET_AFTER, ConnectionFault.ERROR_AFTER):
            vendor.faults.append(fault)
            with pytest.raises(OutcomeUnknown):
                await platform.send(outbound("hello", name="d" * 60))
        receipt = await platform.send(outbound("hello", name="d" * 60))
        await platform.send(outbound("hello", name="d" * 61))
    assert receipt.platform_message_id == vendor.sent[0]["id"]
    assert vendor.texts() == ["hello", "hello"]


async def test_a_global_rate_limit_is_distinguished_from_one_of_a_channel(
    vendor: FakeDiscord, tmp_path: Path
) -> None:
    platform = new_platform(vendor, tmp_path)
    async with platform.connect(RecordingIntake()):
        for everywhere in (True, False):
            vendor.faults.append(flood(0.25, everywhere=everywhere))
            with pytest.raises(Throttled) as raised:
                await platform.send(outbound("hello"))
            assert (raised.value.retry_after, raised.value.whole_account) == (0.25, everywhere)


async def test_a_deleted_message_cannot_be_edited(vendor: FakeDiscord, tmp_path: Path) -> None:
    platform = new_platform(vendor, tmp_path)
    async with platform.connect(RecordingIntake()):
        with pytest.raises(SendRejected, match="Unknown Message"):
            await platform.edit(change("77", "hello"))


async def test_a_reset_token_keeps_the_message_pending(vendor: FakeDiscord, tmp_path: Path) -> None:
    platform = new_platform(vendor, tmp_path)
    async with platform.connect(RecordingIntake()):
        await platform.probe()
        vendor.token = "another"
        with pytest.raises(NotConnected):
            await platform.send(outbound("hello"))


async def test_a_file_is_sent_with_its_name_and_caption(
    vendor: FakeDiscord, tmp_path: Path
) -> None:
    platform = new_platform(vendor, tmp_path)
    async with platform.connect(RecordingIntake()):
        file = OutboundFile(name="plän.txt", data=b"the plan")
        await platform.send(outbound("as asked", file=file))
        await platform.send(outbound("", name="d2", file=file))
    assert vendor.texts() == ["as asked", ""]
    assert vendor.sent[0]["attachments"][0]["filename"] == "plän.txt"
    assert vendor.files["plän.txt"] == b"the plan"


async def test_a_button_press_is_acknowledged_when_it_is_durable_and_not_before(
    vendor: FakeDiscord, tmp_path: Path
) -> None:
    """G1: commit, then acknowledge."""
    platform = new_platform(vendor, tmp_path)
    choices = tuple(Button(label=f"Yes {n}", value=f"/approve {n}") for n in range(7))
    async with platform.connect(RecordingIntake(delay=ALWAYS)):
        await platform.send(outbound("May I?", buttons=choices))
        rows = vendor.sent[0]["components"]
        assert [len(row["components"]) for row in rows] == [5, 2]
        vendor.interact(3, {"custom_id": "/approve 1", "component_type": 2})
        # The last thing that is done before intake is asked.
        record = tmp_path / f"{BOT['id']}.json"
        await until(lambda: ANN_DM.encode() in record.read_bytes())
    assert not vendor.callbacks
    intake = RecordingIntake()
    async with platform.connect(intake):
        pressed = vendor.interact(
            3, {"custom_id": rows[0]["components"][2]["custom_id"], "component_type": 2}
        )
        await until(lambda: vendor.callbacks)
    press = intake.attempted[-1]
    assert (press.text, press.mentioned, press.source.chat_id) == ("/approve 2", True, ANN_DM)
    assert vendor.callbacks == [{"id": pressed["id"], "type": 6}]


async def test_a_slash_command_becomes_a_message_of_its_chat(
    vendor: FakeDiscord, tmp_path: Path
) -> None:
    intake = RecordingIntake()
    async with new_platform(vendor, tmp_path).connect(intake):
        options = [{"type": 3, "name": "text", "value": "later"}]
        data = {"id": "1", "name": "queue", "type": 1, "options": options}
        vendor.interact(2, data, channel=THREAD)
        await until(lambda: vendor.callbacks)
    (given,) = intake.accepted
    assert (given.text, given.source.chat_id, given.source.thread_id) == (
        "/queue later",
        TEXT,
        THREAD,
    )
    (callback,) = vendor.callbacks
    assert (callback["type"], callback["data"]["flags"]) == (4, 64)


@pytest.mark.parametrize(
    ("error", "expected"), [(NotAllowed("no"), "not allowed"), (IntakeClosed("no"), "Try again")]
)
async def test_a_rejected_button_press_gets_a_private_response_and_is_not_retried(
    vendor: FakeDiscord, tmp_path: Path, error: NotAllowed | IntakeClosed, expected: str
) -> None:
    intake = RecordingIntake()
    intake.fail_next(error)
    async with new_platform(vendor, tmp_path).connect(intake):
        vendor.interact(2, {"id": "1", "name": "stop", "type": 1})
        await until(lambda: vendor.callbacks)
    (callback,) = vendor.callbacks
    assert expected in callback["data"]["content"]
    assert (callback["data"]["flags"], intake.accepted) == (64, [])


async def test_the_commands_are_registered_as_slash_commands(
    vendor: FakeDiscord, tmp_path: Path
) -> None:
    async with new_platform(vendor, tmp_path, menu=True).connect(RecordingIntake()):
        await until(lambda: vendor.commands)
    by_name = {each["name"]: each for each in vendor.commands}
    assert by_name["queue"]["options"][0]["required"] is True
    assert by_name["stop"]["options"][0]["required"] is False
    assert by_name["usage"]["options"] == []
    german = catalogue_for("de").gettext(COMMANDS_BY_NAME["stop"].help)
    assert by_name["stop"]["description"] != german
    assert by_name["stop"]["description_localizations"] == {"de": german[:100]}
    assert "restart" not in by_name

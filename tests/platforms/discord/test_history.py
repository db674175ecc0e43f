"""Tests that messages sent while disconnected are read from the history, in order (G1)."""

from pathlib import Path

import pytest
from tests.platforms.connection_faults import ConnectionFault
from tests.platforms.discord.builders import new_platform, until, write_checkpoint
from tests.platforms.discord.fake import ANN, ANN_DM, BOB, BOB_DM, BOT, TEXT, THREAD, FakeDiscord
from tests.platforms.discord.faults import flood

from holdfast.core.errors import IntakeClosed, NotAddressed, StoreError, TransientStoreError
from holdfast.platforms.discord.events import snowflake_before
from holdfast.platforms.discord.history import DiscordCheckpoint
from holdfast.testing.intake import RecordingIntake


async def test_every_history_page_is_fetched_in_order_before_new_messages(
    vendor: FakeDiscord, tmp_path: Path
) -> None:
    """G1: 100 messages are given at once, the newest first."""
    await write_checkpoint(tmp_path, vendor)
    for number in range(230):
        vendor.say(str(number))
    intake = RecordingIntake()
    async with new_platform(vendor, tmp_path).connect(intake):
        vendor.say("230")
        await until(lambda: len(intake.accepted) == 231)
    assert [each.text for each in intake.attempted] == [str(number) for number in range(231)]


async def test_the_history_of_server_channels_and_threads_with_new_messages_is_read(
    vendor: FakeDiscord, tmp_path: Path
) -> None:
    await write_checkpoint(tmp_path, vendor)
    vendor.say("in a thread", channel=THREAD)
    intake = RecordingIntake()
    async with new_platform(vendor, tmp_path).connect(intake):
        (found,) = await intake.wait_for_attempts(1)
    assert found.source.thread_id == THREAD
    assert f"GET /channels/{TEXT}/messages" not in vendor.calls


async def test_a_durable_message_is_not_fetched_again(vendor: FakeDiscord, tmp_path: Path) -> None:
    """G1: the cursor of a channel commits with the row, and is where the next look begins."""
    await write_checkpoint(tmp_path, vendor)
    intake = RecordingIntake()
    for text in ("one", "two"):
        vendor.say(text)
        async with new_platform(vendor, tmp_path).connect(intake):
            await until(lambda text=text: intake.accepted and intake.accepted[-1].text == text)
    assert [each.text for each in intake.attempted] == ["one", "two"]


async def test_a_new_bot_ignores_messages_from_before_it_joined(
    vendor: FakeDiscord, tmp_path: Path
) -> None:
    vendor.say("long ago", channel=TEXT)
    intake = RecordingIntake()
    async with new_platform(vendor, tmp_path).connect(intake):
        vendor.say("now", channel=TEXT)
        await intake.wait_for_attempts(1)
    assert [each.text for each in intake.attempted] == ["now"]


async def test_the_history_of_a_new_server_is_read_from_the_time_the_bot_joined(
    vendor: FakeDiscord, tmp_path: Path
) -> None:
    await write_checkpoint(tmp_path, vendor)
    vendor.say("before it was invited", channel=TEXT)
    vendor.joined_at = "2099-01-01T00:00:00+00:00"
    intake = RecordingIntake()
    async with new_platform(vendor, tmp_path).connect(intake):
        vendor.say("to you", by=ANN)
        await intake.wait_for_attempts(1)
    assert [each.text for each in intake.attempted] == ["to you"]


async def test_a_chat_is_recorded_before_its_first_message_reaches_intake(
    vendor: FakeDiscord, tmp_path: Path
) -> None:
    """G1: killed in between, the next life finds it; Discord tells no bot which chats it has."""
    async with new_platform(vendor, tmp_path).connect(slow := RecordingIntake(delay=3600)):
        vendor.say("hello")
        await until(lambda: (tmp_path / f"{BOT['id']}.json").read_bytes().count(ANN_DM.encode()))
        assert not slow.attempted
    intake = RecordingIntake()
    async with new_platform(vendor, tmp_path).connect(intake):
        await intake.wait_for_attempts(1)
    assert [each.text for each in intake.accepted] == ["hello"]


async def test_the_first_messages_of_a_new_chat_are_read_once_its_person_writes_again(
    vendor: FakeDiscord, tmp_path: Path
) -> None:
    """G1: no bot is told which chats it has. What was written before the bot ran here is not for
    it; other starts and other chats in between change nothing."""
    vendor.say("long ago")
    async with new_platform(vendor, tmp_path).connect(RecordingIntake()):
        pass
    vendor.say("one")
    vendor.say("two")
    intake = RecordingIntake()
    for text in ("hello", "hello again"):
        async with new_platform(vendor, tmp_path).connect(intake):
            vendor.say(text, by=BOB)
            await until(lambda text=text: intake.accepted and intake.accepted[-1].text == text)
    async with new_platform(vendor, tmp_path).connect(intake):
        vendor.say("three")
        await until(lambda: len(intake.accepted) == 5)
        vendor.say("four")
        await until(lambda: len(intake.accepted) == 6)
    texts = ["hello", "hello again", "one", "two", "three", "four"]
    assert [each.text for each in intake.attempted] == texts


async def test_a_slash_command_in_a_new_chat_has_its_first_messages_read(
    vendor: FakeDiscord, tmp_path: Path
) -> None:
    async with new_platform(vendor, tmp_path).connect(RecordingIntake()):
        pass
    vendor.say("one")
    intake = RecordingIntake()
    async with new_platform(vendor, tmp_path).connect(intake):
        vendor.interact(2, {"id": "1", "name": "usage", "type": 1})
        await until(lambda: len(intake.accepted) == 2)
    assert sorted(each.text for each in intake.accepted) == ["/usage", "one"]


async def test_the_history_of_a_new_chat_is_read_to_its_end_by_the_next_start(
    vendor: FakeDiscord, tmp_path: Path
) -> None:
    """G1: a stop after the first of its messages leaves a chat that is known, and not read."""
    async with new_platform(vendor, tmp_path).connect(RecordingIntake()):
        pass
    vendor.say("one")
    vendor.say("two")
    first = RecordingIntake()
    first.fail_next(*[IntakeClosed("stopping")] * 1000)
    async with new_platform(vendor, tmp_path).connect(first):
        vendor.say("three")
        await first.wait_for_attempts(1)
    record = await DiscordCheckpoint.load(tmp_path / f"{BOT['id']}.json", start=0)
    await record.advance(int(vendor.snowflake()))  # as the messages of other chats move it
    intake = RecordingIntake()
    async with new_platform(vendor, tmp_path).connect(intake):
        await until(lambda: len(intake.accepted) == 3)
    assert [each.text for each in intake.accepted] == ["one", "two", "three"]


async def test_a_chat_with_only_a_slash_command_is_recorded_too(
    vendor: FakeDiscord, tmp_path: Path
) -> None:
    async with new_platform(vendor, tmp_path).connect(RecordingIntake()):
        vendor.interact(2, {"id": "1", "name": "usage", "type": 1})
        await until(lambda: vendor.callbacks)
    vendor.say("hello")
    intake = RecordingIntake()
    async with new_platform(vendor, tmp_path).connect(intake):
        await intake.wait_for_attempts(1)
    assert [each.text for each in intake.accepted] == ["hello"]


async def test_a_failed_history_request_is_retried_and_a_forbidden_one_is_not(
    vendor: FakeDiscord, tmp_path: Path
) -> None:
    await write_checkpoint(tmp_path, vendor)
    vendor.say("one")
    vendor.say("hidden", channel=TEXT)
    vendor.forbidden.add(TEXT)
    vendor.page_faults.extend([flood(0.01), ConnectionFault.ERROR_AFTER])
    intake = RecordingIntake()
    async with new_platform(vendor, tmp_path).connect(intake):
        await until(lambda: intake.accepted)
        await until(lambda: f"GET /channels/{TEXT}/messages" in vendor.calls)
        await until(lambda: f"GET /channels/{BOB_DM}/messages" in vendor.calls)
    assert [each.text for each in intake.attempted] == ["one"]


async def test_messages_not_addressed_to_the_bot_are_not_fetched_again(
    vendor: FakeDiscord, tmp_path: Path
) -> None:
    """The mark moves when all is taken; a minute is kept back for what may be on its way."""
    old = snowflake_before(int(vendor.snowflake()), seconds=3600)
    path = tmp_path / f"{BOT['id']}.json"
    await DiscordCheckpoint.load(path, start=old)
    intake = RecordingIntake()
    intake.fail_next(NotAddressed("said to others"))
    async with new_platform(vendor, tmp_path).connect(intake):
        said = vendor.say("lunch?", channel=TEXT)
        await intake.wait_for_attempts(1)
    record = await DiscordCheckpoint.load(path, start=0)
    assert record.until == snowflake_before(int(said["id"]), seconds=60)


async def test_the_checkpoint_does_not_pass_a_message_that_could_not_be_stored(
    vendor: FakeDiscord, tmp_path: Path
) -> None:
    old = snowflake_before(int(vendor.snowflake()), seconds=3600)
    path = tmp_path / f"{BOT['id']}.json"
    await DiscordCheckpoint.load(path, start=old)
    intake = RecordingIntake()
    intake.fail_next(*[StoreError("disk full")] * 50)
    async with new_platform(vendor, tmp_path).connect(intake):
        vendor.say("hello", channel=TEXT)
        await intake.wait_for_attempts(1)
    assert (await DiscordCheckpoint.load(path, start=0)).until == old


async def test_an_invalid_checkpoint_file_is_replaced(vendor: FakeDiscord, tmp_path: Path) -> None:
    (tmp_path / f"{BOT['id']}.json").write_bytes(b"{")
    record = await DiscordCheckpoint.load(tmp_path / f"{BOT['id']}.json", start=7)
    assert (record.until, record.dms) == (7, ())


async def test_an_invalid_message_does_not_block_the_next_one(
    vendor: FakeDiscord, tmp_path: Path
) -> None:
    await write_checkpoint(tmp_path, vendor)
    vendor.say("odd")["content"] = {"no": "text"}
    vendor.say("next")
    intake = RecordingIntake()
    async with new_platform(vendor, tmp_path).connect(intake):
        await intake.wait_for_attempts(1)
    assert [each.text for each in intake.attempted] == ["next"]


async def test_a_message_waits_until_the_checkpoint_can_be_written(
    tmp_path: Path,
) -> None:
    """G1: a chat that could not be found again is not answered before it is saved."""
    folder = tmp_path / "bots"
    record = await DiscordCheckpoint.load(folder / "9.json", start=7)
    (folder / "9.json").unlink()
    folder.rmdir()
    folder.write_bytes(b"in the way")
    with pytest.raises(TransientStoreError, match=r"9\.json"):
        await record.add_dm(ANN_DM)
    await record.advance(8)
    folder.unlink()
    await record.add_dm(ANN_DM)
    found = await DiscordCheckpoint.load(folder / "9.json", start=0)
    assert (found.until, found.dms) == (8, (ANN_DM,))

"""Tests how Discord events become inbound messages, and how the connection is supervised."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.platforms.discord.builders import new_platform, outbound, until, write_checkpoint
from tests.platforms.discord.fake import (
    ANN,
    ANN_DM,
    BOB,
    BOB_DM,
    BOT,
    ROLE,
    TEXT,
    THREAD,
    WHEN,
    FakeDiscord,
    discord_user,
)
from tests.platforms.discord.fake_rest import FakeRestApi

from holdfast.core.errors import AccountDisconnected, ConnectRefused, StoreError
from holdfast.core.messages.inbox import Accepted, Inbound
from holdfast.core.messages.source import Attachment, Author, ChatType
from holdfast.testing.intake import RecordingIntake


async def received(vendor: FakeDiscord, folder: Path, *said: dict[str, Any]) -> list[Inbound]:
    """What intake is handed of messages, each given as arguments of `Vendor.say`."""
    intake = RecordingIntake()
    async with new_platform(vendor, folder).connect(intake):
        for each in said:
            vendor.say(**each)
        return await intake.wait_for_attempts(len(said))


async def test_a_direct_message_a_channel_and_a_thread_have_distinct_sources(
    vendor: FakeDiscord, tmp_path: Path
) -> None:
    said = [{"text": "a"}, {"text": "b", "channel": TEXT}, {"text": "c", "channel": THREAD}]
    found = {each.text: each.source for each in await received(vendor, tmp_path, *said)}
    assert (found["a"].chat_id, found["a"].chat_type) == (ANN_DM, ChatType.DM)
    assert (found["b"].chat_id, found["b"].chat_type) == (TEXT, ChatType.GROUP)
    assert (found["b"].thread_id, found["c"].thread_id) == (None, THREAD)
    assert found["c"].chat_id == TEXT
    assert (found["a"].user_id, found["a"].user_name) == (ANN["id"], "Ann")


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"text": "<@9000> are you there?", "mentions": [BOT]}, "are you there?"),
        ({"text": f"<@&{ROLE}> /stop", "mention_roles": [ROLE]}, "/stop"),
        ({"text": "<@9000>", "mentions": [BOT]}, "@holdfast"),
        ({"text": "tell <@1002>, <@!9000>", "mentions": [BOT, BOB]}, "tell @Bob, @holdfast"),
    ],
)
async def test_a_mention_addresses_the_bot_and_user_ids_become_names(
    vendor: FakeDiscord, tmp_path: Path, more: dict[str, Any], text: str
) -> None:
    """Groups: by the platform's own mark, by a role that is the bot's alone too."""
    (found,) = await received(vendor, tmp_path, {"channel": TEXT, **more})
    assert (found.text, found.mentioned) == (text, True)


async def test_a_mention_of_others_does_not_address_the_bot(
    vendor: FakeDiscord, tmp_path: Path
) -> None:
    said = {"text": "<@1002> lunch?", "channel": TEXT, "mentions": [BOB], "mention_roles": ["77"]}
    (found,) = await received(vendor, tmp_path, said)
    assert (found.text, found.mentioned) == ("@Bob lunch?", False)


async def test_a_reply_quotes_the_original_and_says_whether_it_is_ours(
    vendor: FakeDiscord, tmp_path: Path
) -> None:
    ours = vendor.write(TEXT, BOT, "Paris")
    bobs = vendor.write(TEXT, BOB, "Rome")
    said = [
        {"text": "sure?", "channel": TEXT, "type": 19, "referenced_message": each}
        for each in (ours, bobs)
    ]
    one, other = [each.quoted for each in await received(vendor, tmp_path, *said)]
    assert one is not None and other is not None
    assert (one.text, one.ours) == ("Paris", True)
    assert (other.text, other.ours, other.user_name) == ("Rome", False, "Bob")


async def test_bots_are_distinguished_from_people_and_system_messages_are_skipped(
    vendor: FakeDiscord, tmp_path: Path
) -> None:
    said = [
        {"text": "beep", "channel": TEXT, "by": discord_user("2001", "other", bot=True)},
        {"text": "hook", "channel": TEXT, "by": discord_user("2002", "Ann"), "webhook_id": "2002"},
        {"text": "hi", "channel": TEXT},
    ]
    vendor.say("joined", channel=TEXT, type=7)
    found = await received(vendor, tmp_path, *said)
    assert [each.source.author for each in found] == [Author.BOT, Author.BOT, Author.PERSON]


async def test_a_message_without_text_is_described_as_text(
    vendor: FakeDiscord, tmp_path: Path
) -> None:
    # resources/message#message-snapshot-object
    lists: dict[str, Any] = {"attachments": [], "embeds": [], "mentions": [], "mention_roles": []}
    rest = {"type": 0, "timestamp": WHEN, "edited_timestamp": None, "flags": 0}
    shot = [{"message": {"content": "the plan", **rest, **lists}}]
    said: list[dict[str, Any]] = [
        {"sticker_items": [{"id": "1", "name": "Wave", "format_type": 1}]}
    ]
    said += [{"message_snapshots": shot, "message_reference": {"type": 1, "channel_id": TEXT}}]
    found = await received(vendor, tmp_path, *said)
    assert [each.text for each in found] == ["[Sticker: Wave]", "[Forwarded: the plan]"]


async def test_a_link_preview_is_not_an_edit(vendor: FakeDiscord, tmp_path: Path) -> None:
    """G2: an edit is another event; an update that edits nothing is none."""
    intake = RecordingIntake()
    async with new_platform(vendor, tmp_path).connect(intake):
        said = vendor.say("https://example.org")
        vendor.dispatch("MESSAGE_UPDATE", {**said, "embeds": []})
        vendor.revise(said, "https://example.com")
        one, other = await intake.wait_for_attempts(2)
    assert (one.text, other.text) == ("https://example.org", "https://example.com")
    assert (one.cursor is None, other.cursor is None) == (False, True)


async def test_a_file_without_text_reaches_intake(vendor: FakeDiscord, tmp_path: Path) -> None:
    intake = RecordingIntake()
    async with new_platform(vendor, tmp_path).connect(intake):
        vendor.say(attachments=[vendor.upload("plan.txt", b"the plan")])
        await intake.wait_for_attempts(1)
    assert intake.attachments == [("plan.txt", b"the plan")]


class ChannelFailingIntake(RecordingIntake):
    """Keeps nothing of a channel before something of a thread was kept."""

    async def accept(self, inbound: Inbound, attachments: Sequence[Attachment] = ()) -> Accepted:
        if inbound.source.thread_id is None and not self.accepted:
            raise StoreError("disk full")
        return await super().accept(inbound, attachments)


async def test_a_channel_whose_messages_cannot_be_stored_blocks_no_other(
    vendor: FakeDiscord, tmp_path: Path
) -> None:
    """I3: order is kept within a chat, and chats do not wait for each other."""
    intake = ChannelFailingIntake()
    async with new_platform(vendor, tmp_path).connect(intake):
        for text in ("one", "two"):
            vendor.say(text, channel=TEXT)
        vendor.say("elsewhere", channel=THREAD)
        await until(lambda: len(intake.accepted) == 3)
    assert [each.text for each in intake.accepted] == ["elsewhere", "one", "two"]


async def test_an_unknown_thread_is_looked_up(vendor: FakeDiscord, tmp_path: Path) -> None:
    intake = RecordingIntake()
    async with new_platform(vendor, tmp_path).connect(intake):
        vendor.dispatch(
            "THREAD_DELETE", {"id": THREAD, "guild_id": "500", "parent_id": TEXT, "type": 11}
        )
        vendor.say("still here", channel=THREAD)
        (found,) = await intake.wait_for_attempts(1)
    assert (found.source.chat_id, found.source.thread_id) == (TEXT, THREAD)
    assert f"GET /channels/{THREAD}" in vendor.calls


async def test_a_lost_connection_is_resumed_without_loss_or_duplicates(
    vendor: FakeDiscord, tmp_path: Path
) -> None:
    """G1: Discord tells what was missed, and no history is asked for."""
    await write_checkpoint(tmp_path, vendor)
    vendor.calls.clear()
    intake = RecordingIntake()
    async with new_platform(vendor, tmp_path).connect(intake):
        vendor.say("before")
        await intake.wait_for_attempts(1)
        vendor.close_connections(4000)
        vendor.sessions["s"].dispatch = None
        vendor.say("meanwhile")
        await intake.wait_for_attempts(2)
        assert not intake.disconnects
    assert [each.text for each in intake.attempted] == ["before", "meanwhile"]
    read = [each for each in vendor.calls if each.startswith("GET /channels")]
    assert sorted(read) == [f"GET /channels/{each}/messages" for each in (ANN_DM, BOB_DM)]


async def test_a_session_that_cannot_be_resumed_is_followed_by_reading_the_history(
    vendor: FakeDiscord, tmp_path: Path
) -> None:
    """G1: backlog = history_since(cursor), also after a gap during one run of the platform."""
    intake = RecordingIntake()
    async with new_platform(vendor, tmp_path).connect(intake):
        vendor.say("before")
        await until(lambda: intake.accepted)
        vendor.sessions.clear()
        vendor.close_connections(4000)
        vendor.say("meanwhile")
        vendor.say("in the server", channel=TEXT)
        await intake.wait_for_attempts(3)
    assert sorted(each.text for each in intake.attempted) == [
        "before",
        "in the server",
        "meanwhile",
    ]


async def test_a_reset_token_blocks_the_account(vendor: FakeDiscord, tmp_path: Path) -> None:
    intake = RecordingIntake()
    async with new_platform(vendor, tmp_path).connect(intake):
        vendor.close_connections(4004)
        await until(lambda: intake.disconnects)
    assert isinstance(intake.disconnects[0], ConnectRefused)


async def test_a_connection_that_keeps_failing_is_reported_as_lost(
    vendor: FakeDiscord, tmp_path: Path
) -> None:
    """Supervision: the library would take it up again at once, for ever."""
    intake = RecordingIntake()
    async with new_platform(vendor, tmp_path).connect(intake):
        vendor.closes_connections = True
        vendor.close_connections(4000)
        await until(lambda: intake.disconnects)
    assert isinstance(intake.disconnects[0], AccountDisconnected)


async def test_a_missing_message_content_intent_is_refused_with_a_remedy(
    vendor: FakeDiscord, tmp_path: Path
) -> None:
    vendor.content_allowed = False
    with pytest.raises(ConnectRefused, match="message content intent") as raised:
        async with new_platform(vendor, tmp_path).connect(RecordingIntake()):
            pass
    assert "Message Content Intent" in str(raised.value.remedy)
    async with new_platform(vendor, tmp_path, message_content=False).connect(RecordingIntake()):
        pass


async def test_an_event_that_the_library_cannot_read_is_logged_and_the_connection_stays(
    vendor: FakeDiscord, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Supervision: the same event would end every connection that it is sent to."""
    intake = RecordingIntake()
    async with new_platform(vendor, tmp_path).connect(intake):
        vendor.dispatch("MESSAGE_CREATE", {"id": "1", "channel_id": ANN_DM})
        vendor.dispatch("GUILD_ROLE_CREATE", {"role": "odd"})
        vendor.say("still here")
        await intake.wait_for_attempts(1)
    assert [each.text for each in intake.accepted] == ["still here"]
    assert intake.disconnects == []
    logged = [each for each in caplog.records if "could not parse the event" in each.message]
    assert [each.args[0] for each in logged if each.args] == [  # type: ignore[index]
        "MESSAGE_CREATE",
        "GUILD_ROLE_CREATE",
    ]
    assert all(each.exc_info and isinstance(each.exc_info[1], KeyError) for each in logged)


async def test_a_frame_that_the_library_cannot_read_is_logged_with_its_cause(
    vendor: FakeDiscord, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Supervision: one that is no event ends the connection; the next one finds what was said."""
    intake = RecordingIntake()
    async with new_platform(vendor, tmp_path).connect(intake):
        for session in vendor.sessions.values():
            assert session.dispatch is not None
            session.dispatch({"op": 10, "d": "odd"})
        await until(lambda: intake.disconnects)
    assert isinstance(intake.disconnects[0], AccountDisconnected)
    (logged,) = [each for each in caplog.records if "ended the connection" in each.message]
    assert logged.exc_info and isinstance(logged.exc_info[1], TypeError)


async def test_each_account_uses_the_api_and_the_gateway_at_its_own_address(
    vendor: FakeDiscord, tmp_path: Path
) -> None:
    """The library has one address for the whole process."""
    other = FakeDiscord()
    first, second = RecordingIntake(), RecordingIntake()
    async with FakeRestApi(other).serving():
        one, two = new_platform(vendor, tmp_path / "1"), new_platform(other, tmp_path / "2")
        async with one.connect(first), two.connect(second):
            vendor.say("to one")
            other.say("to two")
            await first.wait_for_attempts(1)
            await second.wait_for_attempts(1)
            await one.send(outbound("from one"))
            await two.send(outbound("from two"))
    assert [each.text for each in (*first.accepted, *second.accepted)] == ["to one", "to two"]
    assert (vendor.texts(), other.texts()) == (["from one"], ["from two"])

"""What a bot hears: read in our words, each channel in its order, and the line that brings it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.platforms.discord.builders import new_platform, until
from tests.platforms.discord.fake import (
    ANN,
    ANN_DM,
    BOB,
    BOT,
    ROLE,
    TEXT,
    THREAD,
    WHEN,
    FakeDiscord,
    discord_user,
)

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


async def test_a_chat_of_two_a_channel_and_a_thread_are_three_places(
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
async def test_who_names_the_bot_means_it_and_people_have_names(
    vendor: FakeDiscord, tmp_path: Path, more: dict[str, Any], text: str
) -> None:
    """Groups: by the platform's own mark, by a role that is the bot's alone too."""
    (found,) = await received(vendor, tmp_path, {"channel": TEXT, **more})
    assert (found.text, found.mentioned) == (text, True)


async def test_what_is_said_to_others_does_not_name_the_bot(
    vendor: FakeDiscord, tmp_path: Path
) -> None:
    said = {"text": "<@1002> lunch?", "channel": TEXT, "mentions": [BOB], "mention_roles": ["77"]}
    (found,) = await received(vendor, tmp_path, said)
    assert (found.text, found.mentioned) == ("@Bob lunch?", False)


async def test_a_reply_quotes_what_it_answers_and_says_whose_that_is(
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


async def test_programs_are_told_from_people_and_what_nobody_said_is_passed_over(
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


async def test_what_has_no_words_is_said_in_words(vendor: FakeDiscord, tmp_path: Path) -> None:
    # resources/message#message-snapshot-object
    lists: dict[str, Any] = {"attachments": [], "embeds": [], "mentions": [], "mention_roles": []}
    rest = {"type": 0, "timestamp": WHEN, "edited_timestamp": None, "flags": 0}
    shot = [{"message": {"content": "the plan", **rest, **lists}}]
    said = [{"sticker_items": [{"id": "1", "name": "Wave", "format_type": 1}]}]
    said += [{"message_snapshots": shot, "message_reference": {"type": 1, "channel_id": TEXT}}]
    found = await received(vendor, tmp_path, *said)
    assert [each.text for each in found] == ["[Sticker: Wave]", "[Forwarded: the plan]"]


async def test_a_picture_that_is_found_behind_a_link_is_no_edit(
    vendor: FakeDiscord, tmp_path: Path
) -> None:
    """G2: an edit is another event; an update that edits nothing is none."""
    intake = RecordingIntake()
    async with new_platform(vendor, tmp_path).connect(intake):
        said = vendor.say("https://example.org")
        vendor.dispatch("MESSAGE_UPDATE", {**said, "embeds": []})
        vendor.revise(said, "https://example.com")
        one, other = await intake.wait_for_attempts(2)
    assert (one.text, other.text) == ("https://example.org", "https://example.com")
    assert (one.cursor is None, other.cursor is None) == (False, True)


async def test_a_file_is_handed_in_also_without_words(vendor: FakeDiscord, tmp_path: Path) -> None:
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


async def test_a_channel_that_cannot_be_kept_holds_up_no_other(
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


async def test_a_thread_that_nobody_told_of_is_asked_for(
    vendor: FakeDiscord, tmp_path: Path
) -> None:
    intake = RecordingIntake()
    async with new_platform(vendor, tmp_path).connect(intake):
        vendor.dispatch(
            "THREAD_DELETE", {"id": THREAD, "guild_id": "500", "parent_id": TEXT, "type": 11}
        )
        vendor.say("still here", channel=THREAD)
        (found,) = await intake.wait_for_attempts(1)
    assert (found.source.chat_id, found.source.thread_id) == (TEXT, THREAD)
    assert f"GET /channels/{THREAD}" in vendor.calls


async def test_a_line_that_breaks_is_resumed_and_nothing_is_missed_or_told_twice(
    vendor: FakeDiscord, tmp_path: Path
) -> None:
    """G1: Discord tells what was missed, and no history is asked for."""
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
    assert not [each for each in vendor.calls if each.startswith("GET /channels")]


async def test_a_session_that_cannot_be_resumed_is_followed_by_a_look_into_the_history(
    vendor: FakeDiscord, tmp_path: Path
) -> None:
    """G1: backlog = history_since(cursor), also after a gap within one life of the door."""
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


async def test_a_token_that_is_reset_parks_the_account(vendor: FakeDiscord, tmp_path: Path) -> None:
    intake = RecordingIntake()
    async with new_platform(vendor, tmp_path).connect(intake):
        vendor.close_connections(4004)
        await until(lambda: intake.disconnects)
    assert isinstance(intake.disconnects[0], ConnectRefused)


async def test_a_line_that_never_holds_is_left_to_whoever_mends_lines(
    vendor: FakeDiscord, tmp_path: Path
) -> None:
    """Supervision: the library would take it up again at once, for ever."""
    intake = RecordingIntake()
    async with new_platform(vendor, tmp_path).connect(intake):
        vendor.closes_connections = True
        vendor.close_connections(4000)
        await until(lambda: intake.disconnects)
    assert isinstance(intake.disconnects[0], AccountDisconnected)


async def test_a_bot_that_may_not_read_messages_says_where_to_switch_it_on(
    vendor: FakeDiscord, tmp_path: Path
) -> None:
    vendor.content_allowed = False
    with pytest.raises(ConnectRefused, match="message content intent") as told:
        async with new_platform(vendor, tmp_path).connect(RecordingIntake()):
            pass
    assert "Message Content Intent" in told.value.remedy
    async with new_platform(vendor, tmp_path, message_content=False).connect(RecordingIntake()):
        pass


async def test_an_event_that_the_library_cannot_read_ends_the_line_and_says_so(
    vendor: FakeDiscord, tmp_path: Path
) -> None:
    """Supervision: the next line finds whatever was said meanwhile."""
    intake = RecordingIntake()
    async with new_platform(vendor, tmp_path).connect(intake):
        vendor.dispatch("MESSAGE_CREATE", {"id": "1", "channel_id": ANN_DM})
        await until(lambda: intake.disconnects)
    assert isinstance(intake.disconnects[0], AccountDisconnected)

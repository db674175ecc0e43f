"""Tests how polled updates become inbound messages that are durable before confirmation."""

import asyncio
from typing import Any

import pytest
from tests.platforms.connection_faults import ConnectionFault
from tests.platforms.telegram.builders import new_platform, until
from tests.platforms.telegram.fake import ANN, BOB, DEEP, OTHER_BOT, FakeTelegram
from tests.platforms.telegram.fake_bot_api import FakeBotApi
from tests.platforms.telegram.faults import BotApiError, flood

from holdfast.core.commands import COMMANDS_BY_NAME
from holdfast.core.errors import (
    AccountDisconnected,
    AccountInUse,
    ConnectRefused,
    IntakeClosed,
    NotAllowed,
    StoreError,
)
from holdfast.core.messages.inbox import Inbound
from holdfast.core.messages.source import Author, ChatType, Quote, Source
from holdfast.system.languages import catalogue_for, translated_languages
from holdfast.testing.intake import RecordingIntake
from holdfast.testing.simulated.events import ALWAYS


async def test_messages_sent_while_disconnected_reach_intake_and_are_then_confirmed(
    vendor: FakeTelegram, base_url: str
) -> None:
    """G1: what arrives while the gateway is down is still at the platform."""
    intake = RecordingIntake()
    first, second = vendor.say("one"), vendor.say("two", by=BOB)
    async with new_platform(vendor, base_url).connect(intake):
        await until(lambda: len(vendor.updates.confirmed) == 2)
    assert [(each.text, each.message_id) for each in intake.accepted] == [
        ("one", str(first["message_id"])),
        ("two", str(second["message_id"])),
    ]
    assert intake.accepted[0].source == Source(
        platform="telegram", chat_id=str(ANN["id"]), user_id=str(ANN["id"]), user_name="Ann"
    )
    assert intake.confirmations[0] == ("telegram", "default")


async def test_nothing_is_confirmed_before_intake_has_stored_it(
    vendor: FakeTelegram, base_url: str
) -> None:
    """G1: commit, then acknowledge."""
    platform = new_platform(vendor, base_url)
    vendor.say("slow")
    async with platform.connect(RecordingIntake(delay=ALWAYS)):
        await until(lambda: "getupdates" in vendor.calls)
        await asyncio.sleep(0.02)
    assert vendor.updates.confirmed == []
    quick = RecordingIntake()
    async with platform.connect(quick):
        await until(lambda: vendor.updates.confirmed)
    assert [each.text for each in quick.accepted] == ["slow"]


@pytest.mark.parametrize("trouble", [StoreError("disk full"), IntakeClosed("stopping")])
async def test_a_message_that_cannot_be_stored_comes_again_and_in_order(
    vendor: FakeTelegram, base_url: str, trouble: Any
) -> None:
    intake = RecordingIntake()
    intake.fail_next(trouble)
    vendor.say("one")
    vendor.say("two")
    async with new_platform(vendor, base_url).connect(intake):
        await until(lambda: len(vendor.updates.confirmed) == 2)
    assert [each.text for each in intake.attempted] == ["one", "one", "two"]


async def test_a_message_of_an_unknown_sender_is_confirmed_and_blocks_no_other(
    vendor: FakeTelegram, base_url: str
) -> None:
    intake = RecordingIntake()
    intake.fail_next(NotAllowed("not on the list"))
    vendor.say("let me in", by=BOB)
    vendor.say("hello")
    async with new_platform(vendor, base_url).connect(intake):
        await until(lambda: len(vendor.updates.confirmed) == 2)
    assert [each.text for each in intake.accepted] == ["hello"]


async def test_an_invalid_update_is_skipped(vendor: FakeTelegram, base_url: str) -> None:
    intake = RecordingIntake()
    vendor.updates.put("message", {"message_id": "not a number"})
    vendor.updates.put("message", {**vendor.say("hello"), "new_chat_members": [BOB], "text": ""})
    async with new_platform(vendor, base_url).connect(intake):
        await until(lambda: len(vendor.updates.confirmed) == 3)
    assert [each.text for each in intake.accepted] == ["hello"]


async def test_a_deeply_nested_update_blocks_no_other(vendor: FakeTelegram, base_url: str) -> None:
    """It comes in one answer with others, which are taken; what can be read of it is, too."""
    intake = RecordingIntake()
    vendor.say("one")
    vendor.updates.put("message", {"message_id": 7, "chat": DEEP})
    vendor.updates.put("message", {**vendor.say("two"), "text": "three", "web_app_data": DEEP})
    async with new_platform(vendor, base_url).connect(intake):
        await until(lambda: len(vendor.updates.confirmed) == 4)
    assert [each.text for each in intake.accepted] == ["one", "two", "three"]


async def test_polling_continues_after_the_last_durable_update(
    vendor: FakeTelegram, base_url: str
) -> None:
    """G1: cursor and inbox rows commit together, so a successor asks for what comes after."""
    intake, platform = RecordingIntake(), new_platform(vendor, base_url)
    vendor.say("one")
    async with platform.connect(intake):
        await intake.wait_for_attempts(1)
    vendor.say("two")
    async with platform.connect(intake):
        await intake.wait_for_attempts(2)
    assert [each.text for each in intake.attempted] == ["one", "two"]
    assert intake.accepted[0].cursor is not None
    assert intake.accepted[0].cursor.name == f"updates of {vendor.me['id']}"


async def test_no_update_is_lost_when_update_ids_start_over(
    vendor: FakeTelegram, base_url: str
) -> None:
    """After a week without updates the vendor numbers the next ones at random."""
    intake, platform = RecordingIntake(), new_platform(vendor, base_url)
    vendor.say("one")
    async with platform.connect(intake):
        await until(lambda: vendor.updates.confirmed)
        vendor.updates.restart(at=5)
        vendor.say("two")
        vendor.say("three")
        await until(lambda: len(vendor.updates.confirmed) == 3)
    assert [each.text for each in intake.accepted] == ["one", "two", "three"]


async def test_an_edit_is_another_event_about_the_same_message(
    vendor: FakeTelegram, base_url: str
) -> None:
    """G2: an edit is another event."""
    intake = RecordingIntake()
    said = vendor.say("helo")
    vendor.revise(said, "hello")
    async with new_platform(vendor, base_url).connect(intake):
        received = await intake.wait_for_attempts(2)
    assert [each.text for each in received] == ["helo", "hello"]
    assert len({each.message_id for each in received}) == 1
    assert len({each.event_id for each in received}) == 2


async def read(vendor: FakeTelegram, base_url: str) -> list[Inbound]:
    """All that waits at the vendor, as it is handed over."""
    intake, expected = RecordingIntake(), len(vendor.updates.waiting)
    async with new_platform(vendor, base_url).connect(intake):
        return await intake.wait_for_attempts(expected)


async def test_a_group_message_has_its_topic_its_sender_and_whether_the_bot_is_mentioned(
    vendor: FakeTelegram, base_url: str
) -> None:
    family = vendor.group(forum=True)
    opened = vendor.post(family, {"text": "topic opened"})
    vendor.say("hi all", chat=family, topic=7, by=BOB)
    vendor.say("🦆 hi @Holdfast_bot", chat=family, topic=7)
    vendor.say("hi @somebody_else", chat=family)
    vendor.say("beep", chat=family, by=OTHER_BOT)
    vendor.say("in a topic", chat=family, topic=opened["message_id"], reply_to=opened)
    plain, named, other, bot, topical = await read(vendor, base_url)
    assert (plain.source.chat_type, plain.source.thread_id) == (ChatType.GROUP, "7")
    assert plain.source.chat_id == str(family["id"])
    assert (plain.mentioned, named.mentioned, other.mentioned) == (False, True, False)
    assert other.source.thread_id is None
    assert (plain.source.author, bot.source.author) == (Author.PERSON, Author.BOT)
    assert topical.quoted is None


async def test_a_direct_message_to_a_channel_has_its_topic_and_is_addressed(
    vendor: FakeTelegram, base_url: str
) -> None:
    """https://core.telegram.org/bots/api#message: `direct_messages_topic`. What an administrator
    writes in the topic of a person, as the channel or not, is for that person."""
    inbox = vendor.direct_messages()
    vendor.say("are you open?", chat=inbox, direct=ANN)
    vendor.say("yes", chat=inbox, by=BOB, direct=ANN)
    vendor.say("and on Sunday", chat=inbox, direct=ANN)["sender_chat"] = vendor.channel()
    vendor.say("hi", chat=inbox, by=BOB, direct=BOB)
    asked, *answers, other = await read(vendor, base_url)
    assert asked.source.chat_id == str(inbox["id"])
    assert (asked.source.thread_id, asked.mentioned) == (f"direct-{ANN['id']}", True)
    assert [(each.source.thread_id, each.mentioned) for each in answers] == [
        (asked.source.thread_id, False)
    ] * 2
    assert (other.source.thread_id, other.mentioned) == (f"direct-{BOB['id']}", True)


async def test_a_reply_quotes_the_original_and_its_author(
    vendor: FakeTelegram, base_url: str
) -> None:
    family = vendor.group()
    ours = vendor.post(family, {"text": "the answer"})
    theirs = vendor.say("a thought", chat=family, by=BOB)
    vendor.say("why?", chat=family, reply_to=ours)
    vendor.say("indeed", chat=family, reply_to=theirs, quote={"text": "thought", "position": 2})
    _, one, other = await read(vendor, base_url)
    assert one.quoted == Quote(
        text="the answer",
        user_id=str(vendor.me["id"]),
        user_name="Holdfast",
        message_id=str(ours["message_id"]),
        ours=True,
    )
    assert other.quoted is not None
    assert (other.quoted.text, other.quoted.user_name, other.quoted.ours) == (
        "thought",
        "Bob",
        False,
    )


async def test_a_command_is_ours_unless_it_names_another_bot(
    vendor: FakeTelegram, base_url: str
) -> None:
    family = vendor.group()
    vendor.say("/stop@holdfast_bot now", chat=family)
    vendor.say("/stop@other_bot", chat=family)
    vendor.say("/stop", chat=family)
    ours, theirs, anybodys = await read(vendor, base_url)
    assert (ours.text, ours.mentioned, ours.commands) == ("/stop now", True, True)
    assert (theirs.text, theirs.mentioned, theirs.commands) == ("/stop@other_bot", False, False)
    assert (anybodys.text, anybodys.mentioned, anybodys.commands) == ("/stop", False, True)


async def test_an_anonymous_admin_is_the_group_and_not_a_bot(
    vendor: FakeTelegram, base_url: str
) -> None:
    family, channel_chat = vendor.group(), vendor.channel()
    anonymous = {"id": 1087968824, "is_bot": True, "first_name": "Group", "username": "x"}
    vendor.say("as the group", chat=family, by=anonymous, sender_chat=family)
    vendor.say("as a channel", chat=family, by=OTHER_BOT, sender_chat=channel_chat)
    vendor.say("news", chat=channel_chat)
    forwarded: dict[str, Any] = {"sender_chat": channel_chat, "is_automatic_forward": True}
    vendor.say("news", chat=family, by=OTHER_BOT, **forwarded)
    hidden, channel, post, forward = await read(vendor, base_url)
    assert (hidden.source.user_id, hidden.source.author) == (str(family["id"]), Author.PERSON)
    assert hidden.source.user_name == "The family"
    assert (channel.source.user_id, channel.source.author) == (
        str(channel_chat["id"]),
        Author.PERSON,
    )
    assert forward.source.author is Author.BOT
    assert (post.source.chat_type, post.source.user_id) == (
        ChatType.CHANNEL,
        str(channel_chat["id"]),
    )


async def test_files_of_all_kinds_reach_intake_and_an_album_is_one_group(
    vendor: FakeTelegram, base_url: str
) -> None:
    intake = RecordingIntake()
    picture = vendor.picture(b"\xff\xd8\xff one")
    vendor.say("look", photo=picture, album="a1")
    vendor.say(document=vendor.upload("plan.pdf", b"%PDF"), album="a1")
    vendor.say(voice=vendor.upload("x", b"OggS") | {"file_name": None})
    async with new_platform(vendor, base_url).connect(intake):
        received = await intake.wait_for_attempts(3)
    assert [each.group for each in received] == ["a1", "a1", None]
    assert [each.text for each in received] == ["look", "", ""]
    number = int(received[2].message_id)
    assert intake.attachments == [
        (f"photo-{received[0].message_id}.jpg", b"\xff\xd8\xff one"),
        ("plan.pdf", b"%PDF"),
        (f"voice-{number}.ogg", b"OggS"),
    ]


async def test_a_location_and_a_contact_are_described_as_text(
    vendor: FakeTelegram, base_url: str
) -> None:
    vendor.say(location={"latitude": 52.5, "longitude": 13.4})
    vendor.say(contact={"phone_number": "+49 30", "first_name": "Cy"})
    vendor.say(sticker={"emoji": "🦆", "file_id": "s", "type": "regular"})
    texts = [each.text for each in await read(vendor, base_url)]
    assert texts == ["[Location: 52.5, 13.4]", "[Contact: Cy, +49 30]", "🦆"]


async def test_a_button_is_answered_after_its_press_is_durable(
    vendor: FakeTelegram, base_url: str
) -> None:
    """J3: its label counts as a message of the person who pressed it."""
    intake = RecordingIntake()
    question = vendor.post(vendor.group(), {"text": "may it run?"})
    intake.fail_next(StoreError("disk full"))
    vendor.click(question, "/approve ap1", by=BOB)
    async with new_platform(vendor, base_url).connect(intake):
        await intake.wait_for_attempts(1)
        assert vendor.answered == []
        await until(lambda: vendor.answered)
        intake.fail_next(NotAllowed("not Bob"))
        vendor.click(question, "/approve ap1", by=BOB)
        await until(lambda: len(vendor.answered) == 2)
    pressed = intake.accepted[0]
    assert (pressed.text, pressed.mentioned) == ("/approve ap1", True)
    assert (pressed.source.user_id, pressed.source.chat_type) == (str(BOB["id"]), ChatType.GROUP)
    assert ["text" in each for each in vendor.answered] == [False, True]


async def test_a_wrong_token_is_refused_permanently_with_a_remedy(
    vendor: FakeTelegram, base_url: str
) -> None:
    platform = new_platform(vendor, base_url)
    vendor.token = "another"
    with pytest.raises(ConnectRefused) as raised:
        async with platform.connect(RecordingIntake()):
            pass
    assert "revoked" in str(raised.value)
    assert "platforms.telegram.token" in str(raised.value.remedy)


async def test_a_token_revoked_later_ends_the_connection(
    vendor: FakeTelegram, base_url: str
) -> None:
    intake = RecordingIntake()
    async with new_platform(vendor, base_url).connect(intake):
        await until(lambda: "getupdates" in vendor.calls)
        vendor.token = "another"
        vendor.updates.changed.set()
        await until(lambda: intake.disconnects)
    assert isinstance(intake.disconnects[0], ConnectRefused)


async def test_a_second_poller_is_reported(vendor: FakeTelegram, base_url: str) -> None:
    """Two gateways on one token: who loses says so."""
    first, second = RecordingIntake(), RecordingIntake()
    async with new_platform(vendor, base_url).connect(first):
        await until(lambda: "getupdates" in vendor.calls)
        async with new_platform(vendor, base_url).connect(second):
            await until(lambda: first.disconnects or second.disconnects)
    (lost,) = first.disconnects or second.disconnects
    assert isinstance(lost, AccountInUse)
    assert "another program receives" in str(lost)


async def test_our_webhook_is_deleted_and_a_foreign_one_is_reported(
    vendor: FakeTelegram, base_url: str
) -> None:
    intake = RecordingIntake()
    vendor.webhook = {"url": "https://bot.example.org/hooks/telegram/default"}
    vendor.say("hello")
    async with new_platform(vendor, base_url).connect(intake):
        await until(lambda: vendor.updates.confirmed)
    assert vendor.webhook == {"url": ""}
    vendor.webhook = {"url": "https://other.example.org/bot"}
    async with new_platform(vendor, base_url).connect(intake):
        await until(lambda: intake.disconnects)
    (lost,) = intake.disconnects
    assert isinstance(lost, AccountInUse)
    assert lost.holder == "https://other.example.org/bot"


@pytest.mark.parametrize(
    "trouble",
    [
        ConnectionFault.RESET_BEFORE,
        ConnectionFault.ERROR_AFTER,
        BotApiError(500, "Internal Server Error"),
    ],
)
async def test_a_failed_poll_ends_the_connection_and_loses_no_update(
    vendor: FakeTelegram, base_url: str, trouble: Any
) -> None:
    intake, platform = RecordingIntake(), new_platform(vendor, base_url)
    vendor.faults.add("getUpdates", trouble)
    vendor.say("hello")
    async with platform.connect(intake):
        await until(lambda: intake.disconnects)
    assert isinstance(intake.disconnects[0], AccountDisconnected)
    assert intake.accepted == []
    async with platform.connect(intake):
        await until(lambda: vendor.updates.confirmed)
    assert [each.text for each in intake.accepted] == ["hello"]


async def test_a_rate_limited_poll_waits_as_long_as_required(
    vendor: FakeTelegram, base_url: str
) -> None:
    intake = RecordingIntake()
    vendor.faults.add("getUpdates", flood(0))
    vendor.say("hello")
    async with new_platform(vendor, base_url).connect(intake):
        await until(lambda: vendor.updates.confirmed)
    assert intake.disconnects == []


async def test_the_menu_shows_the_commands(vendor: FakeTelegram, base_url: str) -> None:
    async with new_platform(vendor, base_url, menu=True).connect(RecordingIntake()):
        await until(lambda: vendor.commands)
    names = [each["command"] for each in vendor.commands]
    assert {"help", "new", "stop"} <= set(names)
    assert "restart" not in names


async def test_the_menu_is_in_every_language_that_is_translated(
    vendor: FakeTelegram, base_url: str
) -> None:
    languages = {"", *(each.partition("-")[0] for each in translated_languages())}
    assert "de" in languages
    async with new_platform(vendor, base_url, menu=True).connect(RecordingIntake()):
        await until(lambda: vendor.menus.keys() == languages)
    english, german = vendor.menus[""], vendor.menus["de"]
    assert [each["command"] for each in german] == [each["command"] for each in english]
    stop = {each["command"]: each["description"] for each in german}["stop"]
    assert stop == catalogue_for("de").gettext(COMMANDS_BY_NAME["stop"].help)
    assert stop != COMMANDS_BY_NAME["stop"].help


async def test_connecting_to_a_vendor_that_is_down_fails(vendor: FakeTelegram) -> None:
    async with FakeBotApi(vendor).serving() as url:
        pass
    with pytest.raises(AccountDisconnected, match="cannot be reached"):
        async with new_platform(vendor, url).connect(RecordingIntake()):
            pass

"""Tests the fake Bot API with the library python-telegram-bot."""

import asyncio
from collections.abc import AsyncIterator

import aiohttp.web
import pytest
from telegram import (
    Bot,
    BotCommand,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    MessageEntity,
    ReplyParameters,
)
from telegram.constants import ReactionEmoji
from telegram.error import BadRequest, Conflict, Forbidden, InvalidToken, NetworkError, RetryAfter
from tests.platforms.connection_faults import ConnectionFault
from tests.platforms.telegram.fake import ANN, BOB, FakeTelegram
from tests.platforms.telegram.faults import flood


@pytest.fixture
async def ptb(vendor: FakeTelegram, base_url: str) -> AsyncIterator[Bot]:
    """python-telegram-bot is not our code: it understands what Telegram does, not what we do."""
    bot = Bot(vendor.token, base_url=f"{base_url}/bot", base_file_url=f"{base_url}/file/bot")
    async with bot:
        yield bot


async def test_an_update_is_given_until_a_higher_offset_confirms_it(
    vendor: FakeTelegram, ptb: Bot
) -> None:
    vendor.say("one")
    vendor.say("two")
    first = await ptb.get_updates()
    assert await ptb.get_updates() == first
    assert [update.message.text for update in first if update.message] == ["one", "two"]
    assert await ptb.get_updates(offset=first[0].update_id + 1) == first[1:]
    assert vendor.updates.confirmed == [first[0].update_id]
    assert await ptb.get_updates(offset=first[1].update_id + 1, timeout=0) == ()
    assert await ptb.get_updates(limit=1) == ()
    vendor.say("three")
    vendor.say("four")
    (future,) = await ptb.get_updates(offset=first[1].update_id + 1000, limit=1)
    assert (future.message and future.message.text) == "three"


async def test_a_long_poll_ends_with_the_first_update(vendor: FakeTelegram, ptb: Bot) -> None:
    polling = asyncio.create_task(ptb.get_updates(timeout=30))
    await _called(vendor, "getupdates", 1)
    vendor.say("hello")
    (update,) = await polling
    assert update.message is not None
    assert update.message.from_user is not None
    assert (update.message.text, update.message.from_user.id) == ("hello", ANN["id"])


async def test_a_second_poller_disconnects_the_first(vendor: FakeTelegram, ptb: Bot) -> None:
    first = asyncio.create_task(ptb.get_updates(timeout=30))
    await _called(vendor, "getupdates", 1)
    async with Bot(vendor.token, base_url=ptb.base_url.removesuffix(vendor.token)) as other:
        second = asyncio.create_task(other.get_updates(timeout=30))
        with pytest.raises(Conflict, match="terminated by other getUpdates"):
            await first
        vendor.say("hello")
        assert len(await second) == 1


async def test_a_bot_has_one_reaction_on_a_message_and_can_remove_it(
    vendor: FakeTelegram, ptb: Bot
) -> None:
    message = vendor.say("hello")
    message_key = message["chat"]["id"], message["message_id"]
    assert await ptb.set_message_reaction(*message_key, reaction=ReactionEmoji.EYES)
    assert vendor.reactions[message_key] == ["👀"]
    with pytest.raises(BadRequest, match="Reaction_invalid"):
        await ptb.set_message_reaction(*message_key, reaction=["👀", "👍"])
    with pytest.raises(BadRequest, match="essage to react not found"):
        await ptb.set_message_reaction(message_key[0], 999, reaction="👀")
    assert await ptb.set_message_reaction(*message_key)
    assert vendor.reactions[message_key] == []


async def test_update_types_that_are_not_requested_are_not_queued(
    vendor: FakeTelegram, ptb: Bot
) -> None:
    await ptb.get_updates(allowed_updates=["callback_query"])
    message = vendor.say("nobody wants this")
    vendor.click(message, "yes")
    (update,) = await ptb.get_updates()
    assert update.callback_query is not None
    assert update.callback_query.data == "yes"
    assert await ptb.answer_callback_query(update.callback_query.id, text="done")
    assert vendor.answered[0]["text"] == "done"


async def test_a_message_has_its_topic_entities_buttons_and_reply(
    vendor: FakeTelegram, ptb: Bot
) -> None:
    family = vendor.group(forum=True)
    asked = vendor.say("hi", chat=family, by=BOB, topic=7)
    sent = await ptb.send_message(
        family["id"],
        "🦆 bold",
        entities=[MessageEntity(MessageEntity.BOLD, offset=3, length=4)],
        message_thread_id=7,
        reply_parameters=ReplyParameters(asked["message_id"]),
        reply_markup=InlineKeyboardMarkup([[InlineKeyboardButton("Yes", callback_data="y")]]),
    )
    assert sent.reply_to_message is not None
    assert (sent.message_thread_id, sent.reply_to_message.message_id) == (7, asked["message_id"])
    assert sent.parse_entity(sent.entities[0]) == "bold"
    with pytest.raises(BadRequest, match="thread not found"):
        await ptb.send_message(family["id"], "x", message_thread_id=8)
    with pytest.raises(BadRequest, match="replied not found"):
        await ptb.send_message(family["id"], "x", reply_parameters=ReplyParameters(999))


async def test_a_message_to_direct_messages_of_a_channel_names_its_topic(
    vendor: FakeTelegram, ptb: Bot
) -> None:
    inbox = vendor.direct_messages()
    vendor.say("hi", chat=inbox, direct=ANN)
    (update,) = await ptb.get_updates()
    asked = update.message
    assert asked is not None and asked.chat.is_direct_messages
    assert asked.direct_messages_topic is not None
    topic = asked.direct_messages_topic.topic_id
    sent = await ptb.send_message(inbox["id"], "hello", direct_messages_topic_id=topic)
    assert sent.direct_messages_topic is not None
    assert sent.direct_messages_topic.topic_id == topic
    with pytest.raises(BadRequest, match="opic must be specified"):
        await ptb.send_message(inbox["id"], "hello")
    with pytest.raises(BadRequest, match="opic not found"):
        await ptb.send_message(inbox["id"], "hello", direct_messages_topic_id=7)
    with pytest.raises(BadRequest, match="not an administered"):
        await ptb.send_message(vendor.group()["id"], "hello", direct_messages_topic_id=7)
    with pytest.raises(BadRequest, match="aren't supported"):
        await ptb.send_chat_action(inbox["id"], "typing")


async def test_a_message_of_4096_units_is_accepted_and_a_longer_one_is_not(
    vendor: FakeTelegram, ptb: Bot
) -> None:
    chat = vendor.dm()["id"]
    await ptb.send_message(chat, "🦆" * 2048)
    with pytest.raises(BadRequest, match="too long"):
        await ptb.send_message(chat, "🦆" * 2048 + "x")
    with pytest.raises(BadRequest, match="text is empty"):
        await ptb.send_message(chat, "  ")
    with pytest.raises(BadRequest, match="ends after the end of the text"):
        await ptb.send_message(chat, "duck", entities=[MessageEntity("bold", 2, 9)])
    with pytest.raises(BadRequest, match=r"(?i)middle of a utf-16 symbol"):
        await ptb.send_message(chat, "🦆!", entities=[MessageEntity("bold", 0, 1)])
    with pytest.raises(BadRequest, match=r"(?i)button_data_invalid"):
        long = InlineKeyboardMarkup([[InlineKeyboardButton("x", callback_data="x" * 65)]])
        await ptb.send_message(chat, "choose", reply_markup=long)
    assert len(vendor.sent) == 1


async def test_an_edit_that_changes_nothing_and_an_edit_of_a_missing_message_are_refused(
    vendor: FakeTelegram, ptb: Bot
) -> None:
    chat = vendor.dm()["id"]
    sent = await ptb.send_message(chat, "one")
    await ptb.edit_message_text("two", chat, sent.message_id)
    assert vendor.texts() == ["two"]
    with pytest.raises(BadRequest, match="not modified"):
        await ptb.edit_message_text("two", chat, sent.message_id)
    with pytest.raises(BadRequest, match="can't be edited"):
        await ptb.edit_message_text("mine", chat, vendor.say("hers")["message_id"])
    assert await ptb.delete_message(chat, sent.message_id)
    with pytest.raises(BadRequest, match="to edit not found"):
        await ptb.edit_message_text("three", chat, sent.message_id)
    with pytest.raises(BadRequest, match="to delete not found"):
        await ptb.delete_message(chat, sent.message_id)


async def test_files_are_received_and_sent(vendor: FakeTelegram, ptb: Bot) -> None:
    given = vendor.upload("notes.txt", b"what people wrote", mime="text/plain")
    vendor.say("look", document=given)
    (update,) = await ptb.get_updates()
    assert update.message is not None
    assert update.message.document is not None
    assert (update.message.caption, update.message.document.file_name) == ("look", "notes.txt")
    file = await ptb.get_file(update.message.document)
    assert bytes(await file.download_as_bytearray()) == b"what people wrote"
    chat = vendor.dm()["id"]
    sent = await ptb.send_document(chat, b"a report", filename="report.txt", caption="here")
    assert sent.document is not None
    assert sent.document.file_name == "report.txt"
    await ptb.send_photo(chat, b"\xff\xd8\xff a picture")
    await ptb.send_voice(chat, b"OggS a voice")
    assert [data for _, data in vendor.files.values()][1:] == [
        b"a report",
        b"\xff\xd8\xff a picture",
        b"OggS a voice",
    ]
    with pytest.raises(BadRequest, match=r"(?i)file is too big"):
        await ptb.get_file(vendor.upload("huge.bin", bytes(20 * 2**20 + 1))["file_id"])


# The library announces that a later version of it counts in other units.
@pytest.mark.filterwarnings("ignore:.*retry_after")
async def test_refusals_have_the_wording_of_the_vendor(vendor: FakeTelegram, ptb: Bot) -> None:
    chat = vendor.dm()["id"]
    vendor.faults.add("sendMessage", flood(7))
    with pytest.raises(RetryAfter, match="7"):
        await ptb.send_message(chat, "hi")
    with pytest.raises(BadRequest, match=r"(?i)chat not found"):
        await ptb.send_message(99, "hi")
    vendor.blocked.add(chat)
    with pytest.raises(Forbidden, match="blocked by the user"):
        await ptb.send_message(chat, "hi")
    with pytest.raises(BadRequest, match=r"(?i)bot_command_invalid"):
        await ptb.set_my_commands([BotCommand("No-Such", "x")])
    with pytest.raises(InvalidToken):
        async with Bot("999:wrong", base_url=ptb.base_url.removesuffix(vendor.token)):
            pass


@pytest.mark.parametrize(
    "how", [ConnectionFault.RESET_AFTER, ConnectionFault.RESET_BEFORE, ConnectionFault.ERROR_AFTER]
)
async def test_a_connection_breaks_before_or_after_the_message_is_accepted(
    vendor: FakeTelegram, ptb: Bot, how: ConnectionFault
) -> None:
    chat = vendor.dm()["id"]
    vendor.faults.add("sendMessage", how)
    with pytest.raises(NetworkError):
        await ptb.send_message(chat, "hi")
    assert len(vendor.sent) == (how is not ConnectionFault.RESET_BEFORE)


async def test_an_update_is_posted_until_the_webhook_returns_200(
    vendor: FakeTelegram, ptb: Bot
) -> None:
    got: list[tuple[str, str]] = []

    async def hook(request: aiohttp.web.Request) -> aiohttp.web.Response:
        body = await request.json()
        secret = request.headers["X-Telegram-Bot-Api-Secret-Token"]
        got.append((body["message"]["text"], secret))
        return aiohttp.web.Response(status=500 if len(got) == 1 else 200)

    app = aiohttp.web.Application()
    app.router.add_post("/hook", hook)
    runner = aiohttp.web.AppRunner(app)
    await runner.setup()
    site = aiohttp.web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    vendor.proxies["https://bot.example.org"] = f"http://127.0.0.1:{runner.addresses[0][1]}"
    with pytest.raises(BadRequest, match=r"(?i)https url must be provided"):
        await ptb.set_webhook("http://bot.example.org/hook")
    await ptb.set_webhook("https://bot.example.org/hook", secret_token="s3cret")
    with pytest.raises(Conflict, match="while webhook is active"):
        await ptb.get_updates()
    vendor.say("hello")
    async with asyncio.timeout(30):
        while vendor.updates.waiting:
            await asyncio.sleep(0.005)
    assert got == [("hello", "s3cret")] * 2
    assert await ptb.delete_webhook()
    assert (await ptb.get_webhook_info()).url == ""
    await runner.cleanup()


async def _called(vendor: FakeTelegram, method: str, times: int) -> None:
    async with asyncio.timeout(30):
        while vendor.calls.count(method) < times:
            await asyncio.sleep(0.005)
    await asyncio.sleep(0)

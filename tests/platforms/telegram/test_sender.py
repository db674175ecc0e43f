"""Tests sending to Telegram, and the outcome of each failure."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from tests.platforms.connection_faults import ConnectionFault
from tests.platforms.telegram.builders import address, change, new_platform, outbound
from tests.platforms.telegram.fake import ANN, FakeTelegram
from tests.platforms.telegram.faults import BotApiError, bad, flood

from holdfast.core.errors import (
    AccountDisconnected,
    NotConnected,
    OutcomeUnknown,
    SendRejected,
    Throttled,
)
from holdfast.core.messages.outbox import Address, Button, Outbound, OutboundFile
from holdfast.core.ports.capabilities import WAITING_REACTION, Backlog, LengthUnit
from holdfast.core.ports.platform import (
    HttpPlatform,
    SupportsEditing,
    SupportsProbing,
    SupportsReactions,
    SupportsTyping,
)
from holdfast.core.secrets import Secret
from holdfast.platforms.telegram.client import TelegramClient
from holdfast.platforms.telegram.events import TelegramUser
from holdfast.platforms.telegram.platform import TelegramPlatform
from holdfast.testing.intake import RecordingIntake

PNG = b"\x89PNG\r\n\x1a\n and so on"


@pytest.fixture
async def platform(vendor: FakeTelegram, base_url: str) -> AsyncIterator[TelegramPlatform]:
    vendor.dm()
    platform = new_platform(vendor, base_url)
    async with platform.connect(RecordingIntake()):
        yield platform


async def test_a_message_is_sent_with_formatting_and_the_receipt_has_its_id(
    vendor: FakeTelegram, platform: TelegramPlatform
) -> None:
    receipt = await platform.send(
        outbound("🦆 is **bold**, `code` and [here](https://example.org)")
    )
    (sent,) = vendor.sent
    assert receipt.platform_message_id == str(sent["message_id"])
    assert sent["text"] == "🦆 is bold, code and here"
    marks = {each["type"]: (each["offset"], each["length"]) for each in sent["entities"]}
    assert marks == {"bold": (6, 4), "code": (12, 4), "text_link": (21, 4)}


async def test_a_reply_is_sent_to_its_topic_as_a_reply_with_buttons(
    vendor: FakeTelegram, platform: TelegramPlatform
) -> None:
    family = vendor.group(forum=True)
    asked = vendor.say("may it?", chat=family, topic=7)
    to = address(family["id"], thread_id="7", reply_to=str(asked["message_id"]))
    choices = tuple(Button(label=each, value=f"/{each} ap1") for each in ("yes", "no", "never"))
    first = outbound("May this run?", buttons=choices)
    await platform.send(_addressed(first, to))
    await platform.send(_addressed(outbound("and so on", part=2), to))
    sent, second = vendor.sent
    assert sent["message_thread_id"] == second["message_thread_id"] == 7
    assert sent["reply_to_message"]["message_id"] == asked["message_id"]
    assert "reply_to_message" not in second
    rows = sent["reply_markup"]["inline_keyboard"]
    assert [[each["text"] for each in row] for row in rows] == [["yes", "no"], ["never"]]
    assert rows[0][0]["callback_data"] == "/yes ap1"
    await platform.show_typing(to)
    assert vendor.actions[0]["message_thread_id"] == 7


async def test_a_reply_is_sent_to_its_topic_of_a_channels_direct_messages(
    vendor: FakeTelegram, platform: TelegramPlatform
) -> None:
    """Each part and each file. Telegram cannot show there that we type, so it is not asked to."""
    inbox = vendor.direct_messages()
    asked = vendor.say("are you open?", chat=inbox, direct=ANN)
    to = address(inbox["id"], thread_id=f"direct-{ANN['id']}", reply_to=str(asked["message_id"]))
    await platform.show_typing(to)
    await platform.send(_addressed(outbound("Yes"), to))
    await platform.send(_addressed(outbound("until six", part=2), to))
    plan = OutboundFile(name="plan.txt", data=b"the plan")
    await platform.send(_addressed(outbound("", file=plan), to))
    topics = [each["direct_messages_topic"]["topic_id"] for each in vendor.sent]
    assert topics == [ANN["id"]] * 3
    assert vendor.sent[0]["reply_to_message"]["message_id"] == asked["message_id"]
    assert "reply_to_message" not in vendor.sent[1]
    assert "sendchataction" not in vendor.calls


@pytest.mark.parametrize("file", [None, OutboundFile(name="a.png", data=PNG)])
async def test_a_message_to_a_deleted_topic_is_sent_to_the_chat(
    vendor: FakeTelegram, platform: TelegramPlatform, file: OutboundFile | None
) -> None:
    """I2: the refusal was of the whole message, so it arrives once."""
    family = vendor.group(forum=True)
    asked = vendor.say("may it?", chat=family, topic=7)
    vendor.delete_topic(family, 7)
    to = address(family["id"], thread_id="7", reply_to=str(asked["message_id"]))
    await platform.send(_addressed(outbound("yes", file=file), to))
    await platform.send(_addressed(outbound("and so on", part=2), to))
    assert vendor.texts() == ["yes", "and so on"]
    assert not any("message_thread_id" in each for each in vendor.sent)
    assert ("photo" in vendor.sent[0]) == (file is not None)


async def test_a_message_to_a_lost_topic_replies_in_the_chat_if_it_can(
    vendor: FakeTelegram, platform: TelegramPlatform
) -> None:
    """Each part says what it answers. If the vendor refuses the reply, it is sent without:
    https://core.telegram.org/bots/api#replyparameters, `allow_sending_without_reply` is "always
    False for replies in another chat or forum topic"."""
    family = vendor.group(forum=True)
    asked = vendor.say("may it?", chat=family)
    to = address(family["id"], thread_id="7", reply_to=str(asked["message_id"]))
    await platform.send(_addressed(outbound("and so on", part=2), to))
    gone = bad("message thread not found"), bad("message to be replied not found")
    vendor.faults.add("sendMessage", *gone)
    await platform.send(_addressed(outbound("yes"), to))
    first, second = vendor.sent
    assert first["reply_to_message"]["message_id"] == asked["message_id"]
    assert "reply_to_message" not in second
    vendor.faults.add("sendMessage", gone[0])
    with pytest.raises(SendRejected, match="thread not found"):
        await platform.send(_addressed(outbound("hello"), address(family["id"])))
    vendor.faults.add("sendMessage", gone[1])
    with pytest.raises(SendRejected, match="replied not found"):
        await platform.send(_addressed(outbound("hello"), address(family["id"])))


async def test_a_direct_message_to_a_lost_topic_is_sent_as_a_reply(
    vendor: FakeTelegram, platform: TelegramPlatform
) -> None:
    """Without a message to reply to, the chat has no place for it: the vendor says so."""
    inbox = vendor.direct_messages()
    asked = vendor.say("are you open?", chat=inbox, direct=ANN)
    to = address(inbox["id"], thread_id="direct-5", reply_to=str(asked["message_id"]))
    for part in (1, 2):
        await platform.send(_addressed(outbound("yes", part=part), to))
    assert [each["reply_to_message"]["message_id"] for each in vendor.sent] == [
        asked["message_id"]
    ] * 2
    with pytest.raises(SendRejected, match="topic must be specified"):
        await platform.send(
            _addressed(outbound("news"), address(inbox["id"], thread_id="direct-5"))
        )


async def test_a_reaction_to_an_unknown_message_is_refused(
    vendor: FakeTelegram, platform: TelegramPlatform
) -> None:
    """A press, a command of the operator: nothing else is harmed by it."""
    for name in ("999", "d1"):
        with pytest.raises(SendRejected):
            await platform.react(address(), name, WAITING_REACTION)
    vendor.faults.add("setMessageReaction", flood(3))
    said = vendor.say("hello")
    with pytest.raises(Throttled):
        await platform.react(address(), str(said["message_id"]), WAITING_REACTION)


async def test_a_reply_to_a_deleted_message_is_still_sent(
    vendor: FakeTelegram, platform: TelegramPlatform
) -> None:
    await platform.send(_addressed(outbound("hello"), address(reply_to="999")))
    assert vendor.texts() == ["hello"]


async def test_a_message_that_may_be_a_duplicate_is_marked(
    vendor: FakeTelegram, platform: TelegramPlatform
) -> None:
    """I2: resent once, marked as possibly repeated; the mark has room in the longest message."""
    most = platform.capabilities.max_length
    assert most is not None
    await platform.send(outbound("x" * most, may_be_duplicate=True))
    assert vendor.texts()[0].startswith("(This may have reached you before.)")


@pytest.mark.parametrize(
    "how", [ConnectionFault.RESET_AFTER, ConnectionFault.ERROR_AFTER, ConnectionFault.RESET_BEFORE]
)
async def test_a_connection_lost_after_the_request_leaves_the_outcome_unknown(
    vendor: FakeTelegram, platform: TelegramPlatform, how: ConnectionFault
) -> None:
    """I2: a timeout, reset or 5xx after the body was written → unknown."""
    vendor.faults.add("sendMessage", how)
    with pytest.raises(OutcomeUnknown):
        await platform.send(outbound("hello"))


async def test_an_unreachable_vendor_was_sent_nothing(vendor: FakeTelegram) -> None:
    """I2: connect failure → still pending."""
    platform = new_platform(vendor, "http://127.0.0.1:9")
    with pytest.raises(NotConnected, match="not connected"):
        await platform.send(outbound("hello"))
    with pytest.raises(AccountDisconnected, match="cannot be reached"):
        async with platform.connect(RecordingIntake()):
            pass


async def _nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n")
    writer.write(b"HTTP/1.1 what nonsense\r\n\r\n")
    writer.close()


async def test_no_connection_error_contains_the_token(vendor: FakeTelegram) -> None:
    """Law 13: what is said of a fault stands in the status, in the outbox and in prompts."""
    async with await asyncio.start_server(_nonsense, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        for base_url in (f"http://127.0.0.1:{port}", "localhost:8081"):
            api = TelegramClient(Secret(vendor.token), base_url=base_url)
            async with api.open(lambda: None):
                with pytest.raises(OutcomeUnknown, match="did not respond to getMe: ") as raised:
                    await api.call("getMe", TelegramUser)
                assert vendor.token not in str(raised.value)
                with pytest.raises(NotConnected) as raised_by_download:
                    await api.download("f1", max_bytes=10)
                assert vendor.token not in str(raised_by_download.value)


async def test_a_rate_limit_says_how_long_to_wait(
    vendor: FakeTelegram, platform: TelegramPlatform
) -> None:
    """I2: 429 → wait as told."""
    vendor.faults.add("sendMessage", flood(7))
    with pytest.raises(Throttled) as raised:
        await platform.send(outbound("hello"))
    assert raised.value.retry_after == 7
    assert vendor.sent == []


async def test_a_refused_message_says_why(vendor: FakeTelegram, platform: TelegramPlatform) -> None:
    """I2: another 4xx → failed."""
    with pytest.raises(SendRejected, match="chat not found"):
        await platform.send(outbound("hello", chat=99))
    vendor.blocked.add(ANN["id"])
    with pytest.raises(SendRejected, match="blocked by the user"):
        await platform.send(outbound("hello"))


async def test_a_revoked_token_does_not_fail_the_message(
    vendor: FakeTelegram, platform: TelegramPlatform
) -> None:
    """It says nothing about the message, which waits until there is a token again."""
    vendor.token = "another"
    with pytest.raises(NotConnected, match="does not accept the token"):
        await platform.send(outbound("hello"))


async def test_formatting_that_the_vendor_rejects_is_left_out(
    vendor: FakeTelegram, platform: TelegramPlatform
) -> None:
    vendor.faults.add("sendMessage", bad("can't parse entities: unsupported start tag"))
    await platform.send(outbound("**hello**"))
    vendor.faults.add("editMessageText", bad("entity beginning at UTF-16 offset 3 ends after"))
    await platform.edit(change(str(vendor.sent[0]["message_id"]), "**bye**"))
    assert vendor.texts() == ["**bye**"]


async def test_a_text_that_is_too_long_only_when_rendered_is_sent_unrendered(
    vendor: FakeTelegram, platform: TelegramPlatform
) -> None:
    wide = "a" * 40
    table = f"| x | y |\n|---|---|\n| {wide} | {wide} |\n" + "| a | b |\n" * 380
    assert len(table) < 4096
    await platform.send(outbound(table))
    assert len(vendor.texts()[0]) <= 4096


async def test_a_group_that_became_a_supergroup_is_followed(
    vendor: FakeTelegram, platform: TelegramPlatform
) -> None:
    """https://core.telegram.org/bots/api#responseparameters: `migrate_to_chat_id`."""
    new = vendor.group(-100_777)
    moved = BotApiError(
        400,
        "Bad Request: group chat was upgraded to a supergroup chat",
        migrate_to_chat_id=new["id"],
    )
    vendor.faults.add("sendMessage", moved)
    await platform.send(outbound("hello", chat=-7))
    assert vendor.sent[0]["chat"]["id"] == new["id"]


async def test_an_edit_changes_the_message_and_repeating_it_changes_nothing(
    vendor: FakeTelegram, platform: TelegramPlatform
) -> None:
    """I2: edits are idempotent."""
    name = (await platform.send(outbound("Hel"))).platform_message_id
    for text in ("Hello", "Hello"):
        await platform.edit(change(name, text))
    assert (vendor.texts(), len(vendor.edits)) == (["Hello"], 1)
    with pytest.raises(SendRejected, match="not found"):
        await platform.edit(change("999", "Hello"))
    vendor.faults.add("editMessageText", ConnectionFault.RESET_AFTER)
    with pytest.raises(OutcomeUnknown):
        await platform.edit(change(name, "Hello!"))


async def test_a_file_is_sent_by_its_type(vendor: FakeTelegram, platform: TelegramPlatform) -> None:
    files = {"chart.png": PNG, "hello.ogg": b"OggS", 'résumé "x".pdf': b"%PDF"}
    for name, data in files.items():
        await platform.send(outbound("see *here*", file=OutboundFile(name=name, data=data)))
    picture, voice, document = vendor.sent
    assert ("photo" in picture, "voice" in voice, "document" in document) == (True, True, True)
    assert document["document"]["file_name"] == "résumé _x_.pdf"
    assert [each["caption"] for each in vendor.sent] == ["see *here*"] * 3
    assert [data for _, data in vendor.files.values()] == list(files.values())


async def test_a_picture_that_telegram_rejects_is_sent_as_a_file(
    vendor: FakeTelegram, platform: TelegramPlatform
) -> None:
    vendor.faults.add("sendPhoto", bad("PHOTO_INVALID_DIMENSIONS"))
    to = address(reply_to="999")
    await platform.send(_addressed(outbound("", file=OutboundFile(name="long.png", data=PNG)), to))
    assert "document" in vendor.sent[0]
    vendor.faults.add("sendDocument", ConnectionFault.RESET_AFTER)
    with pytest.raises(OutcomeUnknown):
        await platform.send(outbound("", file=OutboundFile(name="a.txt", data=b"a")))


async def test_the_platform_declares_what_telegram_can_do(
    vendor: FakeTelegram, base_url: str
) -> None:
    platform: Any = new_platform(vendor, base_url)
    can = platform.capabilities
    assert (can.backlog, can.length_unit) == (Backlog.UNTIL_ACKED, LengthUnit.UTF16)
    assert can.edit and can.typing and can.reactions and can.buttons and can.threads
    assert can.attachments_in and can.attachments_out
    assert not can.idempotent_send
    assert can.heartbeat_interval > 25
    for port in (SupportsEditing, SupportsTyping, SupportsReactions, SupportsProbing, HttpPlatform):
        assert isinstance(platform, port)


def _addressed(message: Outbound, to: Address) -> Outbound:
    return msgspec.structs.replace(message, address=to)

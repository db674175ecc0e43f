"""Tests how Matrix events become inbound messages."""

from typing import Any

import msgspec
import pytest

from holdfast.core.messages.source import Author, ChatType
from holdfast.platforms.matrix.events import MatrixMessage, MatrixParser, MessageContext
from holdfast.platforms.matrix.receiver import parse_message

BOT = "@bot:example.org"
READER = MatrixParser(BOT, account="default")


def message(sender: str = "@ann:example.org", **content: Any) -> MatrixMessage:
    event = {
        "type": content.pop("type", "m.room.message"),
        "event_id": content.pop("event_id", "$one"),
        "sender": sender,
        "origin_server_ts": 1700000000000,
        "content": {"msgtype": "m.text", **content},
        "unsigned": {"age": 12},
    }
    return msgspec.convert(event, MatrixMessage)


def event_of(said: MatrixMessage, **more: Any) -> MessageContext:
    given = {"chat_type": ChatType.GROUP, "user_name": "Ann", "our_name": "Holly", **more}
    return MessageContext(message=said, room_id="!room:example.org", **given)


def test_a_message_has_its_sender_chat_and_text() -> None:
    inbound = READER.parse(event_of(message(body="hello")))
    source = inbound.source
    assert (inbound.text, inbound.event_id, inbound.message_id) == ("hello", "$one", "$one")
    assert (source.chat_id, source.user_id, source.user_name) == (
        "!room:example.org",
        "@ann:example.org",
        "Ann",
    )
    assert (source.author, source.thread_id, inbound.mentioned) == (Author.PERSON, None, False)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        # https://spec.matrix.org/latest/client-server-api/#user-and-room-mentions
        ({"body": "Holly: are you there?", "m.mentions": {"user_ids": [BOT]}}, "are you there?"),
        ({"body": "are you there, Holly?", "m.mentions": {"user_ids": [BOT]}}, None),
        ({"body": "holly, /stop"}, "/stop"),
        ({"body": f"{BOT} help"}, "help"),
        ({"body": "Holly"}, "Holly"),
        (
            {
                "body": "you there",
                "formatted_body": f'<a href="https://matrix.to/#/{BOT}">H</a> you there',
            },
            None,
        ),
    ],
)
def test_a_mention_of_the_account_addresses_it(content: dict[str, Any], text: str | None) -> None:
    inbound = READER.parse(event_of(message(**content)))
    assert inbound.mentioned
    assert inbound.text == (content["body"] if text is None else text)


@pytest.mark.parametrize(
    "content",
    [
        {"body": "Hollywood is far"},
        {"body": "Holly-oak: the tree"},
        {"body": f"what {BOT} said", "m.mentions": {}},
        {"body": "all of you", "m.mentions": {"room": True}},
    ],
)
def test_a_mention_of_another_user_does_not_address_the_account(content: dict[str, Any]) -> None:
    inbound = READER.parse(event_of(message(**content)))
    assert (inbound.mentioned, inbound.text) == (False, content["body"])


def test_a_command_may_have_an_exclamation_mark_in_front() -> None:
    """Clients keep those with a slash to themselves."""
    texts = ("!stop", "!model fast", "!important: read this", "! stop", "/stop")
    said = [READER.parse(event_of(message(body=each))).text for each in texts]
    assert said == ["/stop", "/model fast", "!important: read this", "! stop", "/stop"]


def test_a_message_without_text_is_described_as_text() -> None:
    emote = message(msgtype="m.emote", body="waves")
    location = message(msgtype="m.location", body="the pub", geo_uri="geo:51.5,0.1")
    sticker = message(type="m.sticker", body="a duck")
    texts = [READER.parse(event_of(each)).text for each in (emote, location, sticker)]
    assert texts == ["* Ann waves", "[Location: geo:51.5,0.1 the pub]", "[Sticker: a duck]"]


def test_a_file_name_is_not_a_caption() -> None:
    bare = message(msgtype="m.image", body="duck.png", url="mxc://x/y")
    same = message(msgtype="m.image", body="duck.png", filename="duck.png", url="mxc://x/y")
    captioned = message(msgtype="m.image", body="a duck", filename="duck.png", url="mxc://x/y")
    assert [READER.parse(event_of(each)).text for each in (bare, same, captioned)] == [
        "",
        "",
        "a duck",
    ]


def test_a_notice_is_from_a_bot() -> None:
    """Groups: never converses with bots in a loop."""
    assert (
        READER.parse(event_of(message(msgtype="m.notice", body="beep"))).source.author is Author.BOT
    )


def test_a_reply_quotes_the_original_without_the_fallback_of_older_clients() -> None:
    relation = {"m.in_reply_to": {"event_id": "$zero"}}
    body = "> <@bot:example.org> it is me\n> really\n\nI see"
    said = message(body=body, **{"m.relates_to": relation})
    answered = message(BOT, event_id="$zero", body="it is me")
    inbound = READER.parse(event_of(said, reply_target=answered, reply_target_name="Holly"))
    assert inbound.text == "I see"
    assert inbound.quoted is not None
    assert (inbound.quoted.text, inbound.quoted.ours) == ("it is me", True)
    unknown = READER.parse(event_of(said)).quoted
    assert unknown is not None
    assert (unknown.message_id, unknown.ours) == ("$zero", False)


def test_the_reply_fallback_of_a_thread_is_not_a_reply() -> None:
    thread = {"rel_type": "m.thread", "event_id": "$root", "m.in_reply_to": {"event_id": "$last"}}
    falling = message(body="hi", **{"m.relates_to": {**thread, "is_falling_back": True}})
    meant = message(body="hi", **{"m.relates_to": thread})
    one, other = (READER.parse(event_of(each)) for each in (falling, meant))
    assert (one.source.thread_id, one.quoted) == ("$root", None)
    assert other.quoted is not None


def test_an_edit_refers_to_its_original_and_its_thread() -> None:
    """G2: an event of its own."""
    edit = message(
        event_id="$two",
        body="* hello",
        **{
            "m.new_content": {"msgtype": "m.text", "body": "hello"},
            "m.relates_to": {"rel_type": "m.replace", "event_id": "$one"},
        },
    )
    thread = {"rel_type": "m.thread", "event_id": "$root", "is_falling_back": True}
    original = message(body="helo", **{"m.relates_to": thread})
    inbound = READER.parse(event_of(edit, original=original))
    assert (inbound.text, inbound.event_id, inbound.message_id) == ("hello", "$two", "$one")
    assert inbound.source.thread_id == "$root"


def test_an_invalid_event_is_skipped() -> None:
    wrong = {"type": "m.room.message", "event_id": "$one", "sender": "@ann:example.org"}
    assert parse_message({**wrong, "content": {"body": 5}}) is None
    assert parse_message({**wrong, "event_id": None, "content": {}}) is None
    assert parse_message({**wrong, "content": {}}) is not None  # redacted

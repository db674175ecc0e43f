"""The rules of the fake Bot API: what Telegram checks in a message, each with its source."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.platforms.telegram.faults import bad

# https://core.telegram.org/bots/api#sendmessage: "Text of the message to be sent, 1-4096
# characters after entities parsing"; lengths are UTF-16 code units, as entities count them.
LONGEST_TEXT = 4096
# https://core.telegram.org/bots/api#senddocument: "caption …, 0-1024 characters".
LONGEST_CAPTION = 1024
# https://core.telegram.org/bots/api#messageentity
KINDS = frozenset(
    {"mention", "hashtag", "cashtag", "bot_command", "url", "email", "phone_number", "bold"}
    | {"italic", "underline", "strikethrough", "spoiler", "blockquote", "expandable_blockquote"}
    | {"code", "pre", "text_link", "text_mention", "custom_emoji"}
)
_FOUND = re.compile(r"(?<![\w/@])(?:/\w+(?:@\w+)?|@\w{4,32})")


def units(text: str) -> int:
    """Length in UTF-16 code units, in which entities are counted."""
    return len(text.encode("utf-16-le")) // 2


def check_text(text: str, entities: Sequence[Mapping[str, Any]]) -> None:
    if not text.strip():
        raise bad("message text is empty")
    if units(text) > LONGEST_TEXT:
        raise bad("message is too long")
    check_entities(text, entities)


def check_caption(text: str, entities: Sequence[Mapping[str, Any]]) -> None:
    if units(text) > LONGEST_CAPTION:
        raise bad("message caption is too long")
    check_entities(text, entities)


def check_entities(text: str, entities: Sequence[Mapping[str, Any]]) -> None:
    """tdlib/td, MessageEntity.cpp, fix_entities: an entity must lie within the text and must not
    begin or end within a surrogate pair. https://core.telegram.org/bots/api#formatting-options:
    "If two entities have common characters, then one of them is fully contained inside another";
    "pre and code entities can't contain" others, nor can they be part of them."""
    whole = text.encode("utf-16-le")
    for entity in entities:
        kind, offset, length = entity["type"], int(entity["offset"]), int(entity["length"])
        if kind not in KINDS:
            raise bad(f"can't parse entities: unsupported entity type {kind!r}")
        if offset < 0 or length <= 0 or offset + length > len(whole) // 2:
            raise bad(
                f"entity beginning at UTF-16 offset {offset} ends after the end of the text at "
                f"UTF-16 offset {len(whole) // 2}"
            )
        for position in (offset, offset + length):
            if _within_a_pair(whole, position):
                raise bad(f"entity ends in a middle of a UTF-16 symbol at UTF-16 offset {position}")
        if kind == "text_link" and "." not in entity.get("url", ""):
            raise bad("can't parse entities: wrong HTTP URL specified")


def _within_a_pair(whole: bytes, position: int) -> bool:
    unit = whole[2 * position : 2 * position + 2]
    return len(unit) == 2 and 0xDC <= unit[1] <= 0xDF


def check_markup(markup: Mapping[str, Any] | None) -> None:
    """https://core.telegram.org/bots/api#inlinekeyboardbutton: `callback_data` is "data to be sent
    in a callback query to the bot when the button is pressed, 1-64 bytes"."""
    for row in (markup or {}).get("inline_keyboard", ()):
        for button in row:
            if not button.get("text"):
                raise bad('can\'t parse inline keyboard button: Field "text" must be non-empty')
            if not 1 <= len(button.get("callback_data", "").encode()) <= 64:
                raise bad("BUTTON_DATA_INVALID")


def check_commands(commands: Sequence[Mapping[str, Any]]) -> None:
    """https://core.telegram.org/bots/api#botcommand: "1-32 characters. Can contain only lowercase
    English letters, digits and underscores"; "Description of the command; 1-256 characters";
    https://core.telegram.org/bots/api#setmycommands: "At most 100 commands can be specified"."""
    if len(commands) > 100:
        raise bad("too many commands specified")
    for each in commands:
        if not re.fullmatch("[a-z0-9_]{1,32}", each["command"]):
            raise bad("BOT_COMMAND_INVALID")
        if not 1 <= len(each["description"]) <= 256:
            raise bad("BOT_COMMAND_DESCRIPTION_INVALID")


def found_in(text: str) -> list[dict[str, Any]]:
    """The entities that the server itself finds in what people write: commands and mentions."""
    return [
        {
            "type": "bot_command" if found[0].startswith("/") else "mention",
            "offset": units(text[: found.start()]),
            "length": units(found[0]),
        }
        for found in _FOUND.finditer(text)
    ]

"""The rules of the fake Web API: which messages Slack refuses, as it documents them."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.platforms.slack.faults import SlackError

_LONGEST = 40_000
_RICH = {"rich_text_section", "rich_text_list", "rich_text_preformatted", "rich_text_quote"}


def check_message(args: Mapping[str, Any]) -> None:
    """https://docs.slack.dev/reference/methods/chat.postMessage#errors: `no_text` without words
    or blocks, `msg_too_long` (#truncating: "messages containing more than 40,000 characters")."""
    text, blocks = str(args.get("text") or ""), args.get("blocks") or []
    if not text.strip() and not blocks:
        raise SlackError("no_text")
    if len(text) > _LONGEST:
        raise SlackError("msg_too_long")
    check_blocks(blocks)
    metadata = args.get("metadata")
    # https://docs.slack.dev/messaging/message-metadata: both fields are required.
    if metadata is not None and not {"event_type", "event_payload"} <= set(metadata):
        raise SlackError("invalid_metadata_format")


def check_blocks(blocks: Sequence[Mapping[str, Any]]) -> None:
    """https://docs.slack.dev/reference/block-kit/blocks: "up to 50 blocks in each message";
    `block_id` has at most 255 characters and is unique in a message."""
    names = [block["block_id"] for block in blocks if "block_id" in block]
    long = any(len(name) > 255 for name in names)
    if len(blocks) > 50 or long or len(set(names)) != len(names):
        raise SlackError("invalid_blocks")
    for block in blocks:
        {"rich_text": _rich_text, "actions": _actions}.get(block["type"], _unknown)(block)


def _unknown(block: Mapping[str, Any]) -> None:
    raise SlackError("invalid_blocks")


def _rich_text(block: Mapping[str, Any]) -> None:
    """https://docs.slack.dev/reference/block-kit/blocks/rich-text-block: words are not empty."""
    for element in block["elements"]:
        if element["type"] not in _RICH or not element["elements"]:
            raise SlackError("invalid_blocks")
        inner = element["elements"]
        if element["type"] == "rich_text_list":
            if element.get("style") not in ("bullet", "ordered"):
                raise SlackError("invalid_blocks")
            inner = [word for section in inner for word in section["elements"]]
        if any(not word.get("text") and not word.get("url") for word in inner):
            raise SlackError("invalid_blocks")


def _actions(block: Mapping[str, Any]) -> None:
    """https://docs.slack.dev/reference/block-kit/blocks/actions-block: at most 25 elements;
    https://docs.slack.dev/reference/block-kit/block-elements/button-element: 75 characters on a
    button, 2000 in its value; `action_id` is unique in its block."""
    buttons = block["elements"]
    actions = {each.get("action_id") for each in buttons}
    if not 0 < len(buttons) <= 25 or len(actions) != len(buttons):
        raise SlackError("invalid_blocks")
    for each in buttons:
        if not 0 < len(each["text"]["text"]) <= 75 or len(each.get("value", "")) > 2000:
            raise SlackError("invalid_blocks")

"""Sends messages, edits, files, typing indicators and reactions as calls of the Bot API."""

import logging
from collections.abc import Sequence
from typing import Any

from holdfast.core.errors import SendRejected
from holdfast.core.messages.outbox import (
    Address,
    Button,
    MessageEdit,
    Outbound,
    OutboundFile,
    Receipt,
)
from holdfast.core.messages.transcript import detect_image
from holdfast.core.ports.capabilities import LengthUnit
from holdfast.core.text.splitting import message_length
from holdfast.platforms.telegram.client import (
    TelegramBadFormat,
    TelegramChatMigrated,
    TelegramClient,
    TelegramNotModified,
    TelegramReplyGone,
    TelegramTargetGone,
    TelegramTopicGone,
)
from holdfast.platforms.telegram.events import DIRECT_TOPIC_PREFIX, TelegramSentMessage
from holdfast.platforms.text.telegram import MAX_LENGTH, render

log = logging.getLogger(__name__)

_REPEAT_NOTICE = "*(This may have reached you before.)*\n\n"
REPEAT_NOTICE_LENGTH = len(_REPEAT_NOTICE)
_BUTTONS_IN_A_ROW = 2
_NO_PREVIEW = {"is_disabled": True}
_MAX_PHOTO_BYTES = 10 * 1024 * 1024  # larger pictures are sent as files
_TOPIC_ARGUMENTS = frozenset({"message_thread_id", "direct_messages_topic_id"})
_VOICE_EXTENSIONS = (".ogg", ".oga", ".opus")


class TelegramSender:
    """Stateless. Every method raises the `SendError` that fits what is known of the outcome."""

    def __init__(self, client: TelegramClient) -> None:
        self._client = client

    async def send(self, outbound: Outbound) -> Receipt:
        """Send a message. Without its topic it is sent to the chat, as a reply, and without the
        message that it answers as no reply. What was refused was refused as a whole, so another
        attempt is no duplicate."""
        text = f"{_REPEAT_NOTICE}{outbound.text}" if outbound.may_be_duplicate else outbound.text
        target = _target(outbound.address) | _reply_and_buttons(outbound)
        followed = False
        while True:
            try:
                sent = await self._send_content(text, outbound.file, target)
            except TelegramChatMigrated as moved:
                if followed:
                    raise
                followed = True
                target["chat_id"] = moved.chat_id
            except TelegramTopicGone as error:
                if not _TOPIC_ARGUMENTS & target.keys():
                    raise
                log.warning(
                    "A topic of chat %s is gone, so a message to it is sent to the chat: %s",
                    outbound.address.chat_id,
                    error,
                    extra={"action": "topic_gone"},
                )
                target = {k: v for k, v in target.items() if k not in _TOPIC_ARGUMENTS}
                target |= _reply(outbound.address)  # each part: nothing else says where it belongs
            except TelegramReplyGone:
                if target.pop("reply_parameters", None) is None:
                    raise
            else:
                return Receipt(platform_message_id=str(sent.message_id))

    async def _send_content(
        self, text: str, file: OutboundFile | None, target: dict[str, Any]
    ) -> TelegramSentMessage:
        if file is None:
            return await self._call_with_text("sendMessage", TelegramSentMessage, text, target)
        caption = raw_arguments(text)["text"].strip() or None
        method, field = _upload_method(file)
        try:
            return await self._client.upload(
                method, TelegramSentMessage, field=field, file=file, caption=caption, **target
            )
        except SendRejected as error:
            # A picture may be too large for a photo, but can still be sent as a file.
            if field == "document" or isinstance(error, TelegramTargetGone):
                raise
            return await self._client.upload(
                "sendDocument",
                TelegramSentMessage,
                field="document",
                file=file,
                caption=caption,
                **target,
            )

    async def edit(self, change: MessageEdit) -> None:
        target = {"chat_id": change.address.chat_id, "message_id": int(change.platform_message_id)}
        try:
            await self._call_with_text("editMessageText", TelegramSentMessage, change.text, target)
        except TelegramNotModified:
            return

    async def typing(self, address: Address) -> None:
        """Show that we type, in a chat that can show it: "channel direct messages chats aren't
        supported" (https://core.telegram.org/bots/api#sendchataction)."""
        target = _target(address)
        if "direct_messages_topic_id" not in target:
            await self._client.call("sendChatAction", bool, action="typing", **target)

    async def react(self, address: Address, message_id: str, emoji: str | None) -> None:
        """Set or remove our reaction (https://core.telegram.org/bots/api#setmessagereaction). A
        call sets all reactions of the bot on the message, so it can be repeated."""
        number = _to_int(message_id)
        if number is None:
            raise SendRejected(
                "{message_id!r} is not a message id of Telegram", message_id=message_id
            )
        reaction = [] if emoji is None else [{"type": "emoji", "emoji": emoji}]
        await self._client.call(
            "setMessageReaction",
            bool,
            chat_id=address.chat_id,
            message_id=number,
            reaction=reaction,
        )

    async def _call_with_text(
        self, method: str, kind: type[TelegramSentMessage], text: str, target: dict[str, Any]
    ) -> TelegramSentMessage:
        try:
            return await self._client.call(method, kind, **formatted_arguments(text), **target)
        except TelegramBadFormat:
            return await self._client.call(method, kind, **raw_arguments(text), **target)


def formatted_arguments(text: str) -> dict[str, Any]:
    """The text with its entities. A text that is too long only when rendered, for example with a
    table, is sent as written: Telegram would refuse it otherwise."""
    rendered = render(text)
    if message_length(rendered.text, LengthUnit.UTF16) > MAX_LENGTH:
        return raw_arguments(text)
    return {"text": rendered.text, "entities": rendered.entities or None}


def raw_arguments(text: str) -> dict[str, Any]:
    """The Markdown as written: without entities there is nothing to refuse."""
    return {"text": text}


def _upload_method(file: OutboundFile) -> tuple[str, str]:
    """The method and its field: pictures are displayed, voice messages can be played."""
    if len(file.data) <= _MAX_PHOTO_BYTES and detect_image(file.data) is not None:
        return "sendPhoto", "photo"
    if file.name.endswith(_VOICE_EXTENSIONS):
        return "sendVoice", "voice"
    return "sendDocument", "document"


def _target(address: Address) -> dict[str, Any]:
    """The chat, and its topic: of a forum, or of the direct messages of a channel."""
    target: dict[str, Any] = {"chat_id": address.chat_id}
    thread = address.thread_id or ""
    direct = _to_int(thread.removeprefix(DIRECT_TOPIC_PREFIX))
    if thread.startswith(DIRECT_TOPIC_PREFIX) and direct:
        return {**target, "direct_messages_topic_id": direct}
    topic = _to_int(thread)
    return {**target, "message_thread_id": topic} if topic else target


def _reply(address: Address) -> dict[str, Any]:
    """The message that it answers. It is sent even if that was deleted meanwhile."""
    reply_to = _to_int(address.reply_to)
    if reply_to is None:
        return {}
    return {"reply_parameters": {"message_id": reply_to, "allow_sending_without_reply": True}}


def _reply_and_buttons(outbound: Outbound) -> dict[str, Any]:
    """The message that it replies to, for the first part only, and the buttons."""
    arguments: dict[str, Any] = {} if outbound.file else {"link_preview_options": _NO_PREVIEW}
    if outbound.part == 1:
        arguments |= _reply(outbound.address)
    if outbound.buttons:
        arguments["reply_markup"] = {"inline_keyboard": _keyboard(outbound.buttons)}
    return arguments


def _keyboard(buttons: Sequence[Button]) -> list[list[dict[str, str]]]:
    keys = [{"text": button.label, "callback_data": button.value} for button in buttons]
    starts = range(0, len(keys), _BUTTONS_IN_A_ROW)
    return [keys[start : start + _BUTTONS_IN_A_ROW] for start in starts]


def _to_int(name: str | None) -> int | None:
    """A Telegram id as a number; None for anything else."""
    return int(name) if name is not None and name.isascii() and name.isdigit() else None

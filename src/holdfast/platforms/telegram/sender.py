"""Sends messages, edits, files, typing indicators and reactions as calls of the Bot API."""

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
)
from holdfast.platforms.telegram.events import TelegramSentMessage
from holdfast.platforms.text.telegram import MAX_LENGTH, render


# MERGED holdfast.platforms.telegram.formatting: Formatting: Markdown as the text and the marks that the Bot API shows it by.
def formatted_arguments(text: str) -> dict[str, Any]:
    """The arguments that say this text. One that is too long only as it would be shown, a table
    for example, is said as it was written: refused, it would be lost."""
    shown = render(text)
    if message_length(shown.text, LengthUnit.UTF16) > MAX_LENGTH:
        return raw_arguments(text)
    return {"text": shown.text, "entities": shown.entities or None}


def raw_arguments(text: str) -> dict[str, Any]:
    """The text as it was written, signs and all: there is nothing in it to be refused."""
    return {"text": text}


# MERGED holdfast.platforms.telegram.sending: Sending: our messages, changes and signs as calls of the Bot API.
_REPEAT_NOTICE = "*(This may have reached you before.)*\n\n"
REPEAT_NOTICE_LENGTH = len(_REPEAT_NOTICE)
_BUTTONS_IN_A_ROW = 2
_NO_PREVIEW = {"is_disabled": True}
_MAX_PHOTO_BYTES = 10 * 1024 * 1024  # bytes of one that Telegram shows as such
_VOICE_EXTENSIONS = (".ogg", ".oga", ".opus")


class TelegramSender:
    """Keeps nothing. Everything raises a `SendError` that says what is known of the call's fate."""

    def __init__(self, client: TelegramClient) -> None:
        self._client = client

    async def send(self, outbound: Outbound) -> Receipt:
        """A chat that has moved, and marks that are not understood, were refused as a whole: what
        is sent instead is no repetition."""
        text = f"{_REPEAT_NOTICE}{outbound.text}" if outbound.may_be_duplicate else outbound.text
        place = _target(outbound.address) | _reply_and_buttons(outbound)
        try:
            sent = await self._send_content(text, outbound.file, place)
        except TelegramChatMigrated as moved:
            place["chat_id"] = moved.chat_id
            sent = await self._send_content(text, outbound.file, place)
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
            # A picture may be too large or too odd for one, and is a file all the same.
            if field == "document" or isinstance(error, TelegramChatMigrated):
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
        place = {"chat_id": change.address.chat_id, "message_id": int(change.platform_message_id)}
        try:
            await self._call_with_text("editMessageText", TelegramSentMessage, change.text, place)
        except TelegramNotModified:
            return

    async def typing(self, address: Address) -> None:
        await self._client.call("sendChatAction", bool, action="typing", **_target(address))

    async def react(self, address: Address, message_id: str, emoji: str | None) -> None:
        """https://core.telegram.org/bots/api#setmessagereaction: what is set is all that the bot
        has on the message, so that either of the two may be done again."""
        number = _to_int(message_id)
        if number is None:
            raise SendRejected(f"{message_id!r} is no message of Telegram")
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


def _upload_method(file: OutboundFile) -> tuple[str, str]:
    """The method and its field: pictures are shown, voices can be listened to."""
    if len(file.data) <= _MAX_PHOTO_BYTES and detect_image(file.data) is not None:
        return "sendPhoto", "photo"
    if file.name.endswith(_VOICE_EXTENSIONS):
        return "sendVoice", "voice"
    return "sendDocument", "document"


def _target(address: Address) -> dict[str, Any]:
    thread = _to_int(address.thread_id)
    return {"chat_id": address.chat_id, **({"message_thread_id": thread} if thread else {})}


def _reply_and_buttons(outbound: Outbound) -> dict[str, Any]:
    """What it answers, under the first of its messages only, and its buttons. What it answers may
    have been deleted meanwhile; the answer is owed all the same."""
    hung: dict[str, Any] = {} if outbound.file else {"link_preview_options": _NO_PREVIEW}
    answered = _to_int(outbound.address.reply_to)
    if answered is not None and outbound.part == 1:
        hung["reply_parameters"] = {"message_id": answered, "allow_sending_without_reply": True}
    if outbound.buttons:
        hung["reply_markup"] = {"inline_keyboard": _keyboard(outbound.buttons)}
    return hung


def _keyboard(choices: Sequence[Button]) -> list[list[dict[str, str]]]:
    buttons = [{"text": choice.label, "callback_data": choice.value} for choice in choices]
    starts = range(0, len(buttons), _BUTTONS_IN_A_ROW)
    return [buttons[start : start + _BUTTONS_IN_A_ROW] for start in starts]


def _to_int(name: str | None) -> int | None:
    """An id of this platform; one that is none was made up by nobody here, and is left out."""
    return int(name) if name is not None and name.isascii() and name.isdigit() else None

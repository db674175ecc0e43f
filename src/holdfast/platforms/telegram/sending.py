"""Sending: our messages, changes and signs as calls of the Bot API."""

from collections.abc import Sequence
from typing import Any

from holdfast.core.errors import Refused
from holdfast.core.messages.outbox import Address, Change, Choice, Outbound, Receipt, SentFile
from holdfast.core.messages.pictures import picture_of
from holdfast.platforms.telegram.client import BadFormat, BotApi, Moved, NotModified
from holdfast.platforms.telegram.formatting import formatted, unformatted
from holdfast.platforms.telegram.wire import SentMessage

_REPEATED = "*(This may have reached you before.)*\n\n"
LONGEST_MARK = len(_REPEATED)
_BUTTONS_IN_A_ROW = 2
_NO_PREVIEW = {"is_disabled": True}
_LARGEST_PICTURE = 10 * 1024 * 1024  # bytes of one that Telegram shows as such
_VOICES = (".ogg", ".oga", ".opus")


class Sending:
    """Keeps nothing. Everything raises a `SendError` that says what is known of the call's fate."""

    def __init__(self, api: BotApi) -> None:
        self._api = api

    async def send(self, outbound: Outbound) -> Receipt:
        """A chat that has moved, and marks that are not understood, were refused as a whole: what
        is sent instead is no repetition."""
        text = f"{_REPEATED}{outbound.text}" if outbound.maybe_repeated else outbound.text
        place = _place(outbound.address) | _hung_on(outbound)
        try:
            sent = await self._said(text, outbound.file, place)
        except Moved as moved:
            place["chat_id"] = moved.chat_id
            sent = await self._said(text, outbound.file, place)
        return Receipt(platform_message_id=str(sent.message_id))

    async def _said(self, text: str, file: SentFile | None, place: dict[str, Any]) -> SentMessage:
        if file is None:
            return await self._shown("sendMessage", SentMessage, text, place)
        caption = unformatted(text)["text"].strip() or None
        method, field = _way_of(file)
        try:
            return await self._api.upload(
                method, SentMessage, field=field, file=file, caption=caption, **place
            )
        except Refused as error:
            # A picture may be too large or too odd for one, and is a file all the same.
            if field == "document" or isinstance(error, Moved):
                raise
            return await self._api.upload(
                "sendDocument", SentMessage, field="document", file=file, caption=caption, **place
            )

    async def edit(self, change: Change) -> None:
        place = {"chat_id": change.address.chat_id, "message_id": int(change.platform_message_id)}
        try:
            await self._shown("editMessageText", SentMessage, change.text, place)
        except NotModified:
            return

    async def typing(self, address: Address) -> None:
        await self._api.call("sendChatAction", bool, action="typing", **_place(address))

    async def react(self, address: Address, message_id: str, sign: str | None) -> None:
        """https://core.telegram.org/bots/api#setmessagereaction: what is set is all that the bot
        has on the message, so that either of the two may be done again."""
        number = _number(message_id)
        if number is None:
            raise Refused(f"{message_id!r} is no message of Telegram")
        reaction = [] if sign is None else [{"type": "emoji", "emoji": sign}]
        await self._api.call(
            "setMessageReaction",
            bool,
            chat_id=address.chat_id,
            message_id=number,
            reaction=reaction,
        )

    async def _shown(
        self, method: str, kind: type[SentMessage], text: str, place: dict[str, Any]
    ) -> SentMessage:
        try:
            return await self._api.call(method, kind, **formatted(text), **place)
        except BadFormat:
            return await self._api.call(method, kind, **unformatted(text), **place)


def _way_of(file: SentFile) -> tuple[str, str]:
    """The method and its field: pictures are shown, voices can be listened to."""
    if len(file.data) <= _LARGEST_PICTURE and picture_of(file.data) is not None:
        return "sendPhoto", "photo"
    if file.name.endswith(_VOICES):
        return "sendVoice", "voice"
    return "sendDocument", "document"


def _place(address: Address) -> dict[str, Any]:
    thread = _number(address.thread_id)
    return {"chat_id": address.chat_id, **({"message_thread_id": thread} if thread else {})}


def _hung_on(outbound: Outbound) -> dict[str, Any]:
    """What it answers, under the first of its messages only, and its buttons. What it answers may
    have been deleted meanwhile; the answer is owed all the same."""
    hung: dict[str, Any] = {} if outbound.file else {"link_preview_options": _NO_PREVIEW}
    answered = _number(outbound.address.reply_to)
    if answered is not None and outbound.part == 1:
        hung["reply_parameters"] = {"message_id": answered, "allow_sending_without_reply": True}
    if outbound.choices:
        hung["reply_markup"] = {"inline_keyboard": _keyboard(outbound.choices)}
    return hung


def _keyboard(choices: Sequence[Choice]) -> list[list[dict[str, str]]]:
    buttons = [{"text": choice.label, "callback_data": choice.says} for choice in choices]
    starts = range(0, len(buttons), _BUTTONS_IN_A_ROW)
    return [buttons[start : start + _BUTTONS_IN_A_ROW] for start in starts]


def _number(name: str | None) -> int | None:
    """An id of this platform; one that is none was made up by nobody here, and is left out."""
    return int(name) if name is not None and name.isascii() and name.isdigit() else None

"""Sends messages, edits, files, typing indicators and reactions as calls of Discord's REST API."""

from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any
from urllib.parse import quote

import msgspec

from holdfast.core.errors import EditRefused
from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import Address, Button, MessageEdit, Outbound, Receipt
from holdfast.core.ports.capabilities import WAITING_REACTION
from holdfast.platforms.discord.client import DiscordClient, DiscordNotFound
from holdfast.platforms.discord.events import DiscordSentMessage
from holdfast.platforms.text.discord import MAX_LENGTH, render

_BUTTONS_IN_A_ROW = 5
_MAX_LABEL_LENGTH = 80
_ROW, _BUTTON, _GREY = 1, 2, 2
_NO_PREVIEW = 1 << 2  # the flag SUPPRESS_EMBEDS
# A reply notifies the person it answers, and no one else: no @everyone, whatever the agent writes.
_ALLOWED_MENTIONS = {"parse": [], "replied_user": True}


class DiscordSender:
    """Stateless. Every method raises the `SendError` that fits what is known of the outcome."""

    def __init__(self, client: DiscordClient) -> None:
        self._client = client

    async def send(self, outbound: Outbound) -> Receipt:
        """Send a message (https://discord.com/developers/docs/resources/message#create-message). Of
        two messages with one nonce within a few minutes, the second is not created, and the
        response is the first."""
        path = f"/channels/{_channel(outbound.address)}/messages"
        body = {
            **_content_fields(outbound.text),
            **_reply_and_buttons(outbound),
            "nonce": _nonce(outbound.delivery_id),
            "enforce_nonce": True,
        }
        if outbound.file is None:
            sent = await self._client.call("POST", path, DiscordSentMessage, body=body)
        else:
            sent = await self._client.upload(
                path, DiscordSentMessage, body=body, file=outbound.file
            )
        return Receipt(platform_message_id=sent.id)

    async def edit(self, change: MessageEdit) -> None:
        channel = _channel(change.address)
        path = f"/channels/{channel}/messages/{change.platform_message_id}"
        try:
            await self._client.call(
                "PATCH", path, DiscordSentMessage, body=_content_fields(change.text)
            )
        except DiscordNotFound as error:
            raise EditRefused("{error}", error=error) from error

    async def typing(self, address: Address) -> None:
        await self._client.call("POST", f"/channels/{_channel(address)}/typing", msgspec.Raw)

    async def react(self, address: Address, message_id: str, emoji: str | None) -> None:
        """Set or remove our reaction
        (https://discord.com/developers/docs/resources/message#create-reaction). To remove one,
        Discord requires its emoji; the gateway sets only one."""
        of_message = f"/channels/{_channel(address)}/messages/{message_id}"
        path = f"{of_message}/reactions/{quote(emoji or WAITING_REACTION)}/@me"
        if emoji is not None:
            await self._client.call("PUT", path, msgspec.Raw)
            return
        with suppress(DiscordNotFound):
            await self._client.call("DELETE", path, msgspec.Raw)


def _channel(address: Address) -> str:
    """The channel to send to. A thread is a channel of its own."""
    return address.thread_id or address.chat_id


def _nonce(delivery_id: DeliveryId) -> str:
    """A nonce has at most 25 characters, and a delivery id may be longer."""
    return blake2b(delivery_id.encode(), digest_size=12).hexdigest()


def _content_fields(text: str) -> dict[str, Any]:
    """The text fields. A text that is too long only when rendered, for example with a table, is
    sent as written: it would be refused and lost otherwise."""
    shown = render(text) if text.strip() else ""  # a file needs no text
    content = shown if len(shown) <= MAX_LENGTH else text
    return {"content": content, "flags": _NO_PREVIEW, "allowed_mentions": _ALLOWED_MENTIONS}


def _reply_and_buttons(outbound: Outbound) -> dict[str, Any]:
    """The message that it replies to, for the first part only, and the buttons. It is sent even if
    the message that it replies to was deleted meanwhile."""
    hung: dict[str, Any] = {}
    answered = outbound.address.reply_to
    if answered is not None and answered.isascii() and answered.isdigit() and outbound.part == 1:
        hung["message_reference"] = {"message_id": answered, "fail_if_not_exists": False}
    if outbound.buttons:
        hung["components"] = _button_rows(outbound.buttons)
    return hung


def _button_rows(choices: Sequence[Button]) -> list[dict[str, Any]]:
    buttons = [
        {
            "type": _BUTTON,
            "style": _GREY,
            "label": choice.label[:_MAX_LABEL_LENGTH],
            "custom_id": choice.value,
        }
        for choice in choices
    ]
    starts = range(0, len(buttons), _BUTTONS_IN_A_ROW)
    return [
        {"type": _ROW, "components": buttons[start : start + _BUTTONS_IN_A_ROW]} for start in starts
    ]

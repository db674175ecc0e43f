"""Sends messages, edits, files, typing notifications and reactions as Matrix events."""

import asyncio
import mimetypes
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from holdfast.core.messages.outbox import Address, MessageEdit, Outbound, OutboundFile, Receipt
from holdfast.core.messages.transcript import detect_image
from holdfast.core.ports.capabilities import WAITING_REACTION
from holdfast.core.ports.runtime import IdFactory
from holdfast.platforms.matrix.client import DuplicateReaction, MatrixClient, room_path
from holdfast.platforms.matrix.events import (
    MESSAGE,
    REACTION,
    Json,
    MatrixEmptyResponse,
    MatrixSendResponse,
)
from holdfast.platforms.matrix.rooms import RoomDirectory, RoomKeys
from holdfast.platforms.text.html import fits_matrix, render_matrix

# Bytes of both bodies as JSON. An edit contains them twice, encryption adds a third, and an event
# may have at most 65,536 bytes.
MAX_BODY_BYTES = 22_000
_TYPING_TIMEOUT_MS = 8000  # for which a typing notification is shown
_HTML_FORMAT = "org.matrix.custom.html"


class MatrixSender:
    """Has no state. Every method raises a `SendError` that states what is known of the outcome."""

    def __init__(
        self,
        client: MatrixClient,
        rooms: RoomDirectory,
        room_keys: RoomKeys,
        *,
        user_id: str,
        new_id: IdFactory,
        room_of: Callable[[str], str],
    ) -> None:
        """`room_of`: the current room of a chat."""
        self._client = client
        self._room_of = room_of
        self._rooms = rooms
        self._room_keys = room_keys
        self._user_id = user_id
        self._new_id = new_id

    async def send(self, outbound: Outbound) -> Receipt:
        """Idempotent: for a repeated transaction id, the server creates no second event and returns
        the first one.
        https://spec.matrix.org/latest/client-server-api/#transaction-identifiers"""
        room_id = self._room_of(outbound.address.chat_id)
        if outbound.file is None:
            content = _text_content(outbound.text)
        else:
            content = await self._file_content(room_id, outbound.file, outbound.text)
        content |= _relation_content(outbound)
        return await self._send_event(room_id, content, transaction_id=outbound.delivery_id)

    async def edit(self, edit: MessageEdit) -> None:
        """https://spec.matrix.org/latest/client-server-api/#event-replacements. Each edit has a new
        transaction id: with a reused one, a text that returns to an earlier version would not be
        shown."""
        shown = _text_content(edit.text)
        relation = {"rel_type": "m.replace", "event_id": edit.platform_message_id}
        content = {
            **shown,
            "body": f"* {shown['body']}",  # for clients without support for edits
            "m.new_content": shown,
            "m.relates_to": relation,
        }
        await self._send_event(
            self._room_of(edit.address.chat_id), content, transaction_id=self._new_id("edit")
        )

    async def show_typing(self, address: Address) -> None:
        path = room_path(self._room_of(address.chat_id), "typing", self._user_id)
        body = {"typing": True, "timeout": _TYPING_TIMEOUT_MS}
        await self._client.call("PUT", path, MatrixEmptyResponse, body=body)

    async def react(self, address: Address, message_id: str, emoji: str | None) -> None:
        """https://spec.matrix.org/latest/client-server-api/#event-annotations-and-reactions: a
        reaction is a separate event, one per sender and emoji; redacting it removes the
        reaction."""
        room_id = self._room_of(address.chat_id)
        if emoji is not None:
            relation = {"rel_type": "m.annotation", "event_id": message_id, "key": emoji}
            path = room_path(room_id, "send", REACTION, self._new_id("sign"))
            with suppress(DuplicateReaction):
                await self._client.call(
                    "PUT", path, MatrixSendResponse, body={"m.relates_to": relation}
                )
            return
        ours = (self._user_id, WAITING_REACTION)
        for reaction in await self._client.reactions_on(room_id, message_id):
            if (reaction.sender, reaction.content.relates_to.key) == ours:
                path = room_path(room_id, "redact", reaction.event_id, self._new_id("sign"))
                await self._client.call("PUT", path, MatrixSendResponse, body={})

    async def _send_event(self, room_id: str, content: Json, *, transaction_id: str) -> Receipt:
        event_type, content = await self._room_keys.encrypt_for_room(room_id, MESSAGE, content)
        path = room_path(room_id, "send", event_type, transaction_id)
        sent = await self._client.call("PUT", path, MatrixSendResponse, body=content)
        return Receipt(platform_message_id=sent.event_id)

    async def _file_content(self, room_id: str, file: OutboundFile, text: str) -> Json:
        caption = _text_content(text) if text.strip() else {"body": file.name}
        mime_type = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        info = {"size": len(file.data), "mimetype": mime_type}
        return {
            **caption,
            "msgtype": _message_type(file, mime_type),
            "filename": file.name,
            "info": info,
            "m.mentions": {},
            **await self._upload(room_id, file),
        }

    async def _upload(self, room_id: str, file: OutboundFile) -> Json:
        if not (await self._rooms.room_info(room_id)).encrypted:
            return {"url": await self._client.upload(file)}
        from holdfast.platforms.matrix.encryption import encrypt_file  # noqa: PLC0415 - an extra

        data, keys = await asyncio.to_thread(encrypt_file, file.data)
        # Without its real name, which the server must not learn.
        uri = await self._client.upload(msgspec.structs.replace(file, name="file", data=data))
        return {"file": {**keys, "url": uri}}


def _message_type(file: OutboundFile, mime_type: str) -> str:
    """The `msgtype` by which clients show images and play audio and video."""
    if detect_image(file.data) is not None:
        return "m.image"
    family = mime_type.partition("/")[0]
    return f"m.{family}" if family in ("audio", "video") else "m.file"


def _text_content(text: str) -> Json:
    """A text that is too long only when rendered, such as a table, is sent as plain text: the
    server would reject it otherwise. The empty `m.mentions` prevents notifications by anything that
    the agent writes."""
    content: Json = {"msgtype": "m.text", "body": text, "m.mentions": {}}
    if not fits_matrix(text, limit=MAX_BODY_BYTES):
        return content
    rendered = render_matrix(text)
    formatted: dict[str, Any] = (
        {"format": _HTML_FORMAT, "formatted_body": rendered.html} if rendered.html else {}
    )
    return {**content, "body": rendered.plain, **formatted}


def _relation_content(outbound: Outbound) -> Json:
    """The thread of the message; or its reply target, for the first part of a delivery only."""
    reply_to, thread = outbound.address.reply_to, outbound.address.thread_id
    if thread is not None:
        return {
            "m.relates_to": {
                "rel_type": "m.thread",
                "event_id": thread,
                "is_falling_back": True,  # the next line is for clients without threads
                "m.in_reply_to": {"event_id": reply_to or thread},
            }
        }
    if reply_to is not None and outbound.part == 1:
        return {"m.relates_to": {"m.in_reply_to": {"event_id": reply_to}}}
    return {}

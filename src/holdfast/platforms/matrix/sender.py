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

# Bytes of both bodies as JSON. An edit carries them twice, and a sealed event is a third longer:
# an event may have 65,536 bytes in all.
MAX_BODY_BYTES = 22_000
_TYPING_TIMEOUT_MS = 8000  # milliseconds for which a sign of writing is shown
_HTML_FORMAT = "org.matrix.custom.html"


class MatrixSender:
    """Keeps nothing. Everything raises a `SendError` that says what is known of the call's fate."""

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
        """`room_of`: where a chat is had now."""
        self._client = client
        self._room_of = room_of
        self._rooms = rooms
        self._room_keys = room_keys
        self._user_id = user_id
        self._new_id = new_id

    async def send(self, outbound: Outbound) -> Receipt:
        """https://spec.matrix.org/latest/client-server-api/#transaction-identifiers: of two events
        of one transaction, the second is not made, and the first is answered."""
        room_id = self._room_of(outbound.address.chat_id)
        if outbound.file is None:
            content = _text_content(outbound.text)
        else:
            content = await self._file_content(room_id, outbound.file, outbound.text)
        content |= _relation_content(outbound)
        return await self._send_event(room_id, content, transaction_id=outbound.delivery_id)

    async def edit(self, edit: MessageEdit) -> None:
        """https://spec.matrix.org/latest/client-server-api/#event-replacements. Each is an event of
        its own: by the same name, words that come back would not be shown a second time."""
        shown = _text_content(edit.text)
        relation = {"rel_type": "m.replace", "event_id": edit.platform_message_id}
        content = {
            **shown,
            "body": f"* {shown['body']}",  # for clients that know no edits
            "m.new_content": shown,
            "m.relates_to": relation,
        }
        await self._send_event(
            self._room_of(edit.address.chat_id), content, transaction_id=self._new_id("edit")
        )

    async def show_typing(self, address: Address) -> None:
        where = room_path(self._room_of(address.chat_id), "typing", self._user_id)
        body = {"typing": True, "timeout": _TYPING_TIMEOUT_MS}
        await self._client.call("PUT", where, MatrixEmptyResponse, body=body)

    async def react(self, address: Address, message_id: str, emoji: str | None) -> None:
        """https://spec.matrix.org/latest/client-server-api/#event-annotations-and-reactions: it is
        an event of its own, of which one sender has one; to take it back, that is redacted."""
        room_id = self._room_of(address.chat_id)
        if emoji is not None:
            relation = {"rel_type": "m.annotation", "event_id": message_id, "key": emoji}
            where = room_path(room_id, "send", REACTION, self._new_id("sign"))
            with suppress(DuplicateReaction):
                await self._client.call(
                    "PUT", where, MatrixSendResponse, body={"m.relates_to": relation}
                )
            return
        for each in await self._client.reactions_on(room_id, message_id):
            if (each.sender, each.content.relates_to.key) == (self._user_id, WAITING_REACTION):
                where = room_path(room_id, "redact", each.event_id, self._new_id("sign"))
                await self._client.call("PUT", where, MatrixSendResponse, body={})

    async def _send_event(self, room_id: str, content: Json, *, transaction_id: str) -> Receipt:
        kind, content = await self._room_keys.encrypt_for_room(room_id, MESSAGE, content)
        where = room_path(room_id, "send", kind, transaction_id)
        sent = await self._client.call("PUT", where, MatrixSendResponse, body=content)
        return Receipt(platform_message_id=sent.event_id)

    async def _file_content(self, room_id: str, file: OutboundFile, text: str) -> Json:
        words = _text_content(text) if text.strip() else {"body": file.name}
        kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        info = {"size": len(file.data), "mimetype": kind}
        return {
            **words,
            "msgtype": _message_type(file, kind),
            "filename": file.name,
            "info": info,
            "m.mentions": {},
            **await self._upload(room_id, file),
        }

    async def _upload(self, room_id: str, file: OutboundFile) -> Json:
        if not (await self._rooms.room_info(room_id)).encrypted:
            return {"url": await self._client.upload(file)}
        from holdfast.platforms.matrix.encryption import encrypt_file

        data, keys = await asyncio.to_thread(encrypt_file, file.data)
        # Its name would tell the server what it must not know.
        uri = await self._client.upload(msgspec.structs.replace(file, name="file", data=data))
        return {"file": {**keys, "url": uri}}


def _message_type(file: OutboundFile, mime_type: str) -> str:
    """Pictures are shown, voices can be listened to."""
    if detect_image(file.data) is not None:
        return "m.image"
    family = mime_type.partition("/")[0]
    return f"m.{family}" if family in ("audio", "video") else "m.file"


def _text_content(text: str) -> Json:
    """One that is too long only as it would be shown, a table for example, is said as it was
    written: refused, it would be lost. An agent notifies nobody, whatever it writes."""
    said: Json = {"msgtype": "m.text", "body": text, "m.mentions": {}}
    if not fits_matrix(text, limit=MAX_BODY_BYTES):
        return said
    both = render_matrix(text)
    formatted: dict[str, Any] = (
        {"format": _HTML_FORMAT, "formatted_body": both.html} if both.html else {}
    )
    return {**said, "body": both.plain, **formatted}


def _relation_content(outbound: Outbound) -> Json:
    """The thread it belongs to; or what it answers, under the first of its messages only."""
    answered, thread = outbound.address.reply_to, outbound.address.thread_id
    if thread is not None:
        return {
            "m.relates_to": {
                "rel_type": "m.thread",
                "event_id": thread,
                "is_falling_back": True,  # what follows is for clients that know no threads
                "m.in_reply_to": {"event_id": answered or thread},
            }
        }
    if answered is not None and outbound.part == 1:
        return {"m.relates_to": {"m.in_reply_to": {"event_id": answered}}}
    return {}

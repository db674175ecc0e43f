"""Sending: our messages, changes and signs as events of a room."""

import asyncio
import mimetypes
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from holdfast.core.messages.outbox import Address, Change, Outbound, Receipt, SentFile
from holdfast.core.messages.pictures import picture_of
from holdfast.core.ports.protocols import NewId
from holdfast.core.ports.signs import SEEN
from holdfast.platforms.matrix.api import ClientApi, Duplicate
from holdfast.platforms.matrix.keys import Keys
from holdfast.platforms.matrix.paths import in_room
from holdfast.platforms.matrix.rooms import Rooms
from holdfast.platforms.matrix.wire import MESSAGE, REACTION, Json, Nothing, Sent
from holdfast.platforms.text.matrix import fits, render

# Bytes of both bodies as JSON. An edit carries them twice, and a sealed event is a third longer:
# an event may have 65,536 bytes in all.
LONGEST = 22_000
_WRITING = 8000  # milliseconds for which a sign of writing is shown
_HTML = "org.matrix.custom.html"


class Sending:
    """Keeps nothing. Everything raises a `SendError` that says what is known of the call's fate."""

    def __init__(
        self,
        api: ClientApi,
        rooms: Rooms,
        keys: Keys,
        *,
        user_id: str,
        new_id: NewId,
        room_of: Callable[[str], str],
    ) -> None:
        """`room_of`: where a chat is had now."""
        self._api = api
        self._room_of = room_of
        self._rooms = rooms
        self._keys = keys
        self._me = user_id
        self._new_id = new_id

    async def send(self, outbound: Outbound) -> Receipt:
        """https://spec.matrix.org/latest/client-server-api/#transaction-identifiers: of two events
        of one transaction, the second is not made, and the first is answered."""
        room_id = self._room_of(outbound.address.chat_id)
        if outbound.file is None:
            content = _shown(outbound.text)
        else:
            content = await self._filed(room_id, outbound.file, outbound.text)
        content |= _related(outbound)
        return await self._put(room_id, content, name=outbound.delivery_id)

    async def edit(self, change: Change) -> None:
        """https://spec.matrix.org/latest/client-server-api/#event-replacements. Each is an event of
        its own: by the same name, words that come back would not be shown a second time."""
        shown = _shown(change.text)
        relation = {"rel_type": "m.replace", "event_id": change.platform_message_id}
        content = {
            **shown,
            "body": f"* {shown['body']}",  # for clients that know no edits
            "m.new_content": shown,
            "m.relates_to": relation,
        }
        await self._put(self._room_of(change.address.chat_id), content, name=self._new_id("edit"))

    async def typing(self, address: Address) -> None:
        where = in_room(self._room_of(address.chat_id), "typing", self._me)
        body = {"typing": True, "timeout": _WRITING}
        await self._api.call("PUT", where, Nothing, body=body)

    async def react(self, address: Address, message_id: str, sign: str | None) -> None:
        """https://spec.matrix.org/latest/client-server-api/#event-annotations-and-reactions: it is
        an event of its own, of which one sender has one; to take it back, that is redacted."""
        room_id = self._room_of(address.chat_id)
        if sign is not None:
            relation = {"rel_type": "m.annotation", "event_id": message_id, "key": sign}
            where = in_room(room_id, "send", REACTION, self._new_id("sign"))
            with suppress(Duplicate):
                await self._api.call("PUT", where, Sent, body={"m.relates_to": relation})
            return
        for each in await self._api.signs_on(room_id, message_id):
            if (each.sender, each.content.relates_to.key) == (self._me, SEEN):
                where = in_room(room_id, "redact", each.event_id, self._new_id("sign"))
                await self._api.call("PUT", where, Sent, body={})

    async def _put(self, room_id: str, content: Json, *, name: str) -> Receipt:
        kind, content = await self._keys.for_room(room_id, MESSAGE, content)
        where = in_room(room_id, "send", kind, name)
        sent = await self._api.call("PUT", where, Sent, body=content)
        return Receipt(platform_message_id=sent.event_id)

    async def _filed(self, room_id: str, file: SentFile, text: str) -> Json:
        words = _shown(text) if text.strip() else {"body": file.name}
        kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        info = {"size": len(file.data), "mimetype": kind}
        return {
            **words,
            "msgtype": _kind_of(file, kind),
            "filename": file.name,
            "info": info,
            "m.mentions": {},
            **await self._uploaded(room_id, file),
        }

    async def _uploaded(self, room_id: str, file: SentFile) -> Json:
        if not (await self._rooms.known(room_id)).encrypted:
            return {"url": await self._api.upload(file)}
        from holdfast.platforms.matrix.sealed_files import (  # noqa: PLC0415 - imports the library
            seal_file,
        )

        data, keys = await asyncio.to_thread(seal_file, file.data)
        # Its name would tell the server what it must not know.
        uri = await self._api.upload(msgspec.structs.replace(file, name="file", data=data))
        return {"file": {**keys, "url": uri}}


def _kind_of(file: SentFile, kind: str) -> str:
    """Pictures are shown, voices can be listened to."""
    if picture_of(file.data) is not None:
        return "m.image"
    family = kind.partition("/")[0]
    return f"m.{family}" if family in ("audio", "video") else "m.file"


def _shown(text: str) -> Json:
    """One that is too long only as it would be shown, a table for example, is said as it was
    written: refused, it would be lost. An agent notifies nobody, whatever it writes."""
    said: Json = {"msgtype": "m.text", "body": text, "m.mentions": {}}
    if not fits(text, limit=LONGEST):
        return said
    both = render(text)
    formatted: dict[str, Any] = {"format": _HTML, "formatted_body": both.html} if both.html else {}
    return {**said, "body": both.plain, **formatted}


def _related(outbound: Outbound) -> Json:
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

"""The message archive of a server or room, and the file that records how far each was read.

https://xmpp.org/extensions/xep-0313.html, with pages as in XEP-0059. Most messages of a room are
not for the agent and leave no row in the inbox: without the file, all of them would be fetched
again at each start. A new account starts at the end of the archive.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from threading import Lock
from xml.etree.ElementTree import Element

import msgspec

from holdfast.core.errors import TransientStoreError
from holdfast.platforms.xmpp.events import (
    CLIENT,
    DELAY,
    StanzaRejected,
    XmppMessage,
    XmppStream,
    add_child,
    make_element,
    parse_message,
    tag,
)
from holdfast.system import state_file

MAM = "urn:xmpp:mam:2"
_RSM = "http://jabber.org/protocol/rsm"
_FORM = "jabber:x:data"
_FORWARD = "urn:xmpp:forward:0"
_PAGE_SIZE = 50  # messages: many servers return no more at once
_MAX_PAGES_BACK = 10
_LOSS_CONSEQUENCE = (
    "messages sent over XMPP meanwhile are fetched only for chats with an accepted message."
)


class ArchivePosition(msgspec.Struct, frozen=True, kw_only=True):
    """A position in an archive: after the message with this id. The timestamp is used if the
    archive does not know the id any more, because it was cleared or recreated."""

    id: str  # "": the start of the archive
    timestamp: str = ""  # of the message, in UTC

    def __str__(self) -> str:
        return f"{self.timestamp} {self.id}"

    @classmethod
    def parse(cls, text: str) -> "ArchivePosition":
        timestamp, _, message_id = text.partition(" ")
        return cls(id=message_id, timestamp=timestamp)


class ArchivedMessage(msgspec.Struct, frozen=True, kw_only=True):
    position: ArchivePosition
    message: XmppMessage


class MessageArchive:
    """The archive of one account or room. All methods raise what `XmppStream.request` raises."""

    def __init__(self, stream: XmppStream, *, room: str | None = None) -> None:
        self._stream = stream
        self._room = room

    async def end_position(self) -> ArchivePosition:
        """The current end of the archive."""
        page, _ = await self._fetch_page(before="", max_messages=1)
        return page[-1].position if page else ArchivePosition(id="")

    async def messages_since(self, position: ArchivePosition) -> AsyncIterator[ArchivedMessage]:
        """Oldest first. If the position is no longer known, the messages since its timestamp."""
        start = ""
        while True:
            try:
                page, complete = await self._fetch_page(after=position.id, start=start)
            except StanzaRejected as error:
                if (
                    error.error.condition != "item-not-found"
                    or not position.id
                    or not position.timestamp
                ):
                    raise
                start, position = position.timestamp, ArchivePosition(id="")
                continue
            for archived in page:
                yield archived
            if complete or not page:
                return
            position = page[-1].position

    async def newest_first(self, *, chat: str | None) -> AsyncIterator[ArchivedMessage]:
        """Newest first, of one chat, up to a maximum number of pages."""
        before = ""
        for _ in range(_MAX_PAGES_BACK):
            page, complete = await self._fetch_page(before=before, chat=chat)
            for archived in reversed(page):
                yield archived
            if complete or not page:
                return
            before = page[0].position.id

    async def _fetch_page(
        self,
        *,
        after: str = "",
        before: str | None = None,
        start: str = "",
        chat: str | None = None,
        max_messages: int = _PAGE_SIZE,
    ) -> tuple[list[ArchivedMessage], bool]:
        """A page, oldest first, and whether it is the last one."""
        query = make_element("query", MAM)
        fields = {"start": start, "with": chat or ""}
        if any(fields.values()):
            query.append(_make_form(fields))
        pages = add_child(query, "set", _RSM)
        add_child(pages, "max", _RSM, str(max_messages))
        if after:
            add_child(pages, "after", _RSM, after)
        if before is not None:
            add_child(pages, "before", _RSM, before)
        found, answer = await self._stream.search_archive(query, to=self._room)
        fin = answer.find(tag("fin", MAM))
        complete = fin is not None and fin.get("complete") == "true"
        messages = [parsed for each in found if (parsed := _parse_result(each)) is not None]
        return messages, complete


def _make_form(fields: dict[str, str]) -> Element:
    form = make_element("x", _FORM, type="submit")
    for name, value in {"FORM_TYPE": MAM, **fields}.items():
        if value:
            field = add_child(form, "field", _FORM, var=name)
            add_child(field, "value", _FORM, value)
    return form


def _parse_result(result: Element) -> ArchivedMessage | None:
    forwarded = result.find(tag("forwarded", _FORWARD))
    message = None if forwarded is None else forwarded.find(tag("message", CLIENT))
    if forwarded is None or message is None or not result.get("id"):
        return None
    delay = forwarded.find(tag("delay", DELAY))
    timestamp = "" if delay is None else delay.get("stamp", "")
    return ArchivedMessage(
        position=ArchivePosition(id=result.get("id", ""), timestamp=timestamp),
        message=parse_message(message),
    )


class ArchiveCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Valid only while the cursor in the store is the one that it was saved with: if the cursor has
    moved, more was processed since."""

    position: str
    cursor: str | None = None


class ArchiveCheckpoints:
    """Owns one file, which is replaced as a whole. It may lag behind: then some messages are
    processed twice, but none is missed."""

    def __init__(self, path: Path, checkpoints: dict[str, ArchiveCheckpoint]) -> None:
        self._path = path
        self._checkpoints = checkpoints
        self._write_lock = Lock()  # a writing thread continues after its task was cancelled

    @classmethod
    async def load(cls, path: Path) -> "ArchiveCheckpoints":
        known = await asyncio.to_thread(
            state_file.load, path, dict[str, ArchiveCheckpoint], consequence=_LOSS_CONSEQUENCE
        )
        return cls(path, known or {})

    def position_for(self, archive: str, *, cursor: str | None) -> str | None:
        checkpoint = self._checkpoints.get(archive)
        if checkpoint is not None and checkpoint.cursor == cursor:
            return checkpoint.position
        return cursor

    async def save(self, archive: str, checkpoint: ArchiveCheckpoint) -> None:
        """Durable when this returns. Raises `TransientStoreError`."""
        if self._checkpoints.get(archive) == checkpoint:
            return
        try:
            await asyncio.to_thread(self._write, archive, checkpoint)
        except OSError as error:
            raise TransientStoreError(
                "Could not write {path}: {error}; check its permissions and the free space",
                path=self._path,
                error=error,
            ) from error

    def _write(self, archive: str, checkpoint: ArchiveCheckpoint) -> None:
        with self._write_lock:  # the last write has the latest value
            known = {**self._checkpoints, archive: checkpoint}
            state_file.write_atomically(self._path, msgspec.json.encode(known))
            self._checkpoints = known

"""The message archive of a server or room (XEP-0313, pages as in XEP-0059), and the file that says how far each was read."""

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

# MERGED holdfast.platforms.xmpp.archive: The archive: what a server, or a room, has kept of what was said (XEP-0313).
#
# https://xmpp.org/extensions/xep-0313.html; pages are asked for as in XEP-0059.
MAM = "urn:xmpp:mam:2"
_RSM = "http://jabber.org/protocol/rsm"
_FORM = "jabber:x:data"
_FORWARD = "urn:xmpp:forward:0"
_PAGE_SIZE = 50  # messages: many servers give no more at once
_MAX_PAGES_BACK = 10


class ArchivePosition(msgspec.Struct, frozen=True, kw_only=True):
    """A place in an archive: behind the message of that id. The time is for when the archive does
    not know the id any more, because it has been emptied or begun anew."""

    id: str  # "": before everything
    timestamp: str = ""  # when that was said, in UTC

    def __str__(self) -> str:
        return f"{self.timestamp} {self.id}"

    @classmethod
    def parse(cls, text: str) -> "ArchivePosition":
        stamp, _, name = text.partition(" ")
        return cls(id=name, timestamp=stamp)


class ArchivedMessage(msgspec.Struct, frozen=True, kw_only=True):
    position: ArchivePosition
    message: XmppMessage


class MessageArchive:
    """Of one account, or of one room. Everything raises as `XmppStream.ask` does."""

    def __init__(self, stream: XmppStream, *, room: str | None = None) -> None:
        self._stream = stream
        self._room = room

    async def end_position(self) -> ArchivePosition:
        """Where it ends now."""
        page, _ = await self._fetch_page(before="", max_messages=1)
        return page[-1].position if page else ArchivePosition(id="")

    async def messages_since(self, position: ArchivePosition) -> AsyncIterator[ArchivedMessage]:
        """Oldest first. Where the position is not known any more, what was said since its time."""
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
            for kept in page:
                yield kept
            if complete or not page:
                return
            position = page[-1].position

    async def newest_first(self, *, chat: str | None) -> AsyncIterator[ArchivedMessage]:
        """The newest first, of one chat, as far as it is worth it to look."""
        before = ""
        for _ in range(_MAX_PAGES_BACK):
            page, complete = await self._fetch_page(before=before, chat=chat)
            for kept in reversed(page):
                yield kept
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
        """Oldest first, and whether there are no more beyond."""
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
        return [kept for each in found if (kept := _parse_result(each)) is not None], complete


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
    stamp = "" if delay is None else delay.get("stamp", "")
    return ArchivedMessage(
        position=ArchivePosition(id=result.get("id", ""), timestamp=stamp),
        message=parse_message(message),
    )


# MERGED holdfast.platforms.xmpp.marks: Marks: how far each archive was looked at, which no row of the inbox says.
#
# Most of what is said in a room is not for the agent: without a mark, all of it would be fetched
# again at each start. And an account that is new has seen everything that was said before it came.
_LOSS_CONSEQUENCE = (
    "what was written over XMPP meanwhile is looked for only where something was taken before."
)


class ArchiveCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Believed only while the cursor is still the one that it was made beside: whoever moved that
    has taken more since."""

    position: str
    cursor: str | None = None


class ArchiveCheckpoints:
    """Owns one file, which is replaced as a whole. What it says may be old: whoever goes by it
    looks at some messages twice, and at none never."""

    def __init__(self, path: Path, checkpoints: dict[str, ArchiveCheckpoint]) -> None:
        self._path = path
        self._checkpoints = checkpoints
        self._write_lock = Lock()  # of a thread, which goes on when nobody waits for it any more

    @classmethod
    async def load(cls, path: Path) -> "ArchiveCheckpoints":
        known = await asyncio.to_thread(
            state_file.load, path, dict[str, ArchiveCheckpoint], consequence=_LOSS_CONSEQUENCE
        )
        return cls(path, known or {})

    def position_for(self, archive: str, *, cursor: str | None) -> str | None:
        mark = self._checkpoints.get(archive)
        return mark.position if mark is not None and mark.cursor == cursor else cursor

    async def save(self, archive: str, checkpoint: ArchiveCheckpoint) -> None:
        """Written when this returns. Raises `TransientStoreError`."""
        if self._checkpoints.get(archive) == checkpoint:
            return
        try:
            await asyncio.to_thread(self._write, archive, checkpoint)
        except OSError as error:
            raise TransientStoreError(f"{self._path} cannot be written: {error}") from error

    def _write(self, archive: str, checkpoint: ArchiveCheckpoint) -> None:
        with self._write_lock:  # what is written last is what is known last
            known = {**self._checkpoints, archive: checkpoint}
            state_file.write_atomically(self._path, msgspec.json.encode(known))
            self._checkpoints = known

"""The archive: what a server, or a room, has kept of what was said (XEP-0313).

https://xmpp.org/extensions/xep-0313.html; pages are asked for as in XEP-0059.
"""

from collections.abc import AsyncIterator
from xml.etree.ElementTree import Element

import msgspec

from holdfast.platforms.xmpp.stanza import CLIENT, DELAY, Said, said, tag
from holdfast.platforms.xmpp.wire import Rejected, Wire, element, within

MAM = "urn:xmpp:mam:2"
_RSM = "http://jabber.org/protocol/rsm"
_FORM = "jabber:x:data"
_FORWARD = "urn:xmpp:forward:0"
_PAGE = 50  # messages: many servers give no more at once
_PAGES_BACK = 10


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """A place in an archive: behind the message of that id. The time is for when the archive does
    not know the id any more, because it has been emptied or begun anew."""

    id: str  # "": before everything
    stamp: str = ""  # when that was said, in UTC

    def __str__(self) -> str:
        return f"{self.stamp} {self.id}"

    @classmethod
    def read(cls, written: str) -> "Position":
        stamp, _, name = written.partition(" ")
        return cls(id=name, stamp=stamp)


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    position: Position
    said: Said


class Archive:
    """Of one account, or of one room. Everything raises as `Wire.ask` does."""

    def __init__(self, wire: Wire, *, room: str | None = None) -> None:
        self._wire = wire
        self._room = room

    async def end(self) -> Position:
        """Where it ends now."""
        page, _ = await self._page(before="", most=1)
        return page[-1].position if page else Position(id="")

    async def since(self, position: Position) -> AsyncIterator[Kept]:
        """Oldest first. Where the position is not known any more, what was said since its time."""
        start = ""
        while True:
            try:
                page, complete = await self._page(after=position.id, start=start)
            except Rejected as error:
                if error.why.condition != "item-not-found" or not position.id or not position.stamp:
                    raise
                start, position = position.stamp, Position(id="")
                continue
            for kept in page:
                yield kept
            if complete or not page:
                return
            position = page[-1].position

    async def backwards(self, *, chat: str | None) -> AsyncIterator[Kept]:
        """The newest first, of one chat, as far as it is worth it to look."""
        before = ""
        for _ in range(_PAGES_BACK):
            page, complete = await self._page(before=before, chat=chat)
            for kept in reversed(page):
                yield kept
            if complete or not page:
                return
            before = page[0].position.id

    async def _page(
        self,
        *,
        after: str = "",
        before: str | None = None,
        start: str = "",
        chat: str | None = None,
        most: int = _PAGE,
    ) -> tuple[list[Kept], bool]:
        """Oldest first, and whether there are no more beyond."""
        query = element("query", MAM)
        fields = {"start": start, "with": chat or ""}
        if any(fields.values()):
            query.append(_form(fields))
        pages = within(query, "set", _RSM)
        within(pages, "max", _RSM, str(most))
        if after:
            within(pages, "after", _RSM, after)
        if before is not None:
            within(pages, "before", _RSM, before)
        found, answer = await self._wire.search(query, to=self._room)
        fin = answer.find(tag("fin", MAM))
        complete = fin is not None and fin.get("complete") == "true"
        return [kept for each in found if (kept := _kept(each)) is not None], complete


def _form(fields: dict[str, str]) -> Element:
    form = element("x", _FORM, type="submit")
    for name, value in {"FORM_TYPE": MAM, **fields}.items():
        if value:
            field = within(form, "field", _FORM, var=name)
            within(field, "value", _FORM, value)
    return form


def _kept(result: Element) -> Kept | None:
    forwarded = result.find(tag("forwarded", _FORWARD))
    message = None if forwarded is None else forwarded.find(tag("message", CLIENT))
    if forwarded is None or message is None or not result.get("id"):
        return None
    delay = forwarded.find(tag("delay", DELAY))
    stamp = "" if delay is None else delay.get("stamp", "")
    return Kept(position=Position(id=result.get("id", ""), stamp=stamp), said=said(message))

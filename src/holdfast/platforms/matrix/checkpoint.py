"""The record: how far everything was looked at, what could not be read yet, and which room goes on
with the chat of which.

Most of what is said in rooms is not for the agent, so no row of the inbox says that it was looked
at: without the mark, all of it would be fetched again at each start. And a message whose keys have
not come is in no inbox either.
"""

import asyncio
import logging
from collections.abc import Iterable
from pathlib import Path
from threading import Lock

import msgspec

from holdfast.core.errors import StoreFailing
from holdfast.platforms.matrix.wire import Json
from holdfast.system import state_file

log = logging.getLogger(__name__)

_LOST = "what came since the last message that was kept is looked at again."

MOST_SEALED = 500  # messages that wait for their keys


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """How far the stream was taken. The server's token says nothing of which of two is the later
    one, so that each has a number of ours."""

    number: int
    since: str

    def __str__(self) -> str:
        return f"{self.number} {self.since}"

    @classmethod
    def read(cls, value: str | None) -> "Place | None":
        number, space, since = (value or "").partition(" ")
        return cls(number=int(number), since=since) if space and number.isdigit() else None

    def next(self, since: str) -> "Place":
        return Place(number=self.number + 1, since=since)


class Sealed(msgspec.Struct, frozen=True, kw_only=True):
    """An event that cannot be read: its keys have not come."""

    room_id: str
    event: Json
    told: bool = False  # whoever wrote it knows

    @property
    def event_id(self) -> str:
        return str(self.event.get("event_id", ""))


class Awaited(msgspec.Struct, frozen=True, kw_only=True):
    """A room that is to take the place of another, and that we are not in yet."""

    instead_of: str
    by: str  # who says so


class Written(msgspec.Struct, frozen=True, kw_only=True):
    place: Place | None = None
    sealed: tuple[Sealed, ...] = ()
    awaited: dict[str, Awaited] = {}
    followed: dict[str, str] = {}  # rooms that go on with the chat of another, oldest first


class Record:
    """Owns one file. What it says of the place may be old: whoever goes by it looks at some
    messages twice, and at none never. What is sealed is durable before anything passes it."""

    def __init__(self, path: Path, written: Written) -> None:
        self._path = path
        self._place = self._durable_place = written.place
        self._sealed = written.sealed  # replaced, never changed: a thread may be writing it down
        self._followed = written.followed  # the same
        self.awaited = written.awaited  # the same
        self._writing = Lock()  # of a thread, which goes on when nobody waits for it any more

    @classmethod
    async def load(cls, path: Path) -> "Record":
        written = await asyncio.to_thread(state_file.read, path, Written, lost=_LOST)
        return cls(path, written or Written())

    @property
    def place(self) -> Place | None:
        return self._place

    @property
    def number(self) -> int:
        return 0 if self._place is None else self._place.number

    @property
    def sealed(self) -> tuple[Sealed, ...]:
        return self._sealed

    def reach(self, place: Place) -> None:
        """So far was everything looked at; written down with the next `settle`."""
        self._place = place

    async def settle(self) -> None:
        """Where the mark cannot be written, the older one stands."""
        if self._place == self._durable_place:
            return
        try:
            await self._save()
        except StoreFailing as error:
            # An older mark does no harm, and the next one is not far.
            log.warning("%s", error, extra={"action": "record_unwritten"})

    async def seal(self, events: Iterable[Sealed]) -> None:
        """Durable when this returns. Raises `StoreFailing`."""
        every = list(({each.event_id: each for each in (*self._sealed, *events)}).values())
        for gone in every[:-MOST_SEALED]:
            log.warning(
                "Event %s was never readable and is given up.",
                gone.event_id,
                extra={"action": "sealed_given_up"},
            )
        self._sealed = tuple(every[-MOST_SEALED:])
        await self._save()

    async def unseal(self, event_id: str) -> None:
        """Durable when this returns. Raises `StoreFailing`."""
        self._sealed = tuple(each for each in self._sealed if each.event_id != event_id)
        await self._save()

    def knows(self, room_id: str) -> bool:
        """Whether that room is on its way to be, or is, the follower of another."""
        return room_id in self.awaited or room_id in self._followed

    def chat_of(self, room_id: str) -> str:
        """The chat that is had in that room: the first of those that it follows."""
        return self._followed.get(room_id, room_id)

    def room_of(self, chat_id: str) -> str:
        """Where that chat is had now."""
        rooms = [room for room, chat in self._followed.items() if chat == chat_id]
        return rooms[-1] if rooms else chat_id

    async def wait_for(self, room_id: str, awaited: Awaited) -> None:
        """Durable when this returns. Raises `StoreFailing`."""
        self.awaited = {**self.awaited, room_id: awaited}
        await self._save()

    async def arrive(self, room_id: str, *, follows: bool) -> None:
        """We are in it. Durable when this returns. Raises `StoreFailing`."""
        before = self.awaited[room_id].instead_of
        if follows:
            self._followed = {**self._followed, room_id: self.chat_of(before)}
        self.awaited = {name: each for name, each in self.awaited.items() if name != room_id}
        await self._save()

    async def _save(self) -> None:
        try:
            await asyncio.to_thread(self._write)
        except OSError as error:
            raise StoreFailing(f"{self._path} cannot be written: {error}") from error

    def _write(self) -> None:
        with self._writing:  # what is written last is what is known last
            written = Written(
                place=self._place,
                sealed=self.sealed,
                awaited=self.awaited,
                followed=self._followed,
            )
            state_file.replace(self._path, msgspec.json.encode(written))
            self._durable_place = written.place

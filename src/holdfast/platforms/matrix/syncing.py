"""Syncing: each piece of the stream is taken before the next one is asked for."""

import logging
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.errors import Refused
from holdfast.core.ports.protocols import Clock
from holdfast.platforms.matrix.beginning import Beginning
from holdfast.platforms.matrix.checkpoint import Place, Record
from holdfast.platforms.matrix.keys import Keys
from holdfast.platforms.matrix.rooms import Rooms
from holdfast.platforms.matrix.stream import Stream
from holdfast.platforms.matrix.taking import Taking
from holdfast.platforms.matrix.wire import Json, Sync

if TYPE_CHECKING:  # imports the library, which is imported when a line is opened
    from holdfast.platforms.matrix.machine import Machine

log = logging.getLogger(__name__)

_SELDOM = 60.0  # seconds between two marks of how far everything was looked at


class Syncing:
    """Owns when how far it came was last written down. Runs until it is cancelled, or until the
    line breaks: that is raised, for whoever mends lines."""

    def __init__(
        self,
        stream: Stream,
        machine: "Machine",
        rooms: Rooms,
        keys: Keys,
        taking: Taking,
        record: Record,
        *,
        beginning: Beginning,
        clock: Clock,
    ) -> None:
        self._stream = stream
        self._machine = machine
        self._rooms = rooms
        self._keys = keys
        self._taking = taking
        self._record = record
        self._beginning = beginning
        self._clock = clock
        self._marked_at = clock.monotonic()

    async def run(self, place: Place) -> None:
        """`place` is how far everything is durable here. An earlier life may have had the keys of
        a message, and no time to read it."""
        await self._keys.keep()
        await self._taking.open_unread()
        at_once = True  # whatever waits is told now
        while True:
            try:
                raw = await self._stream.since(place.since, at_once=at_once)
            except Refused as error:
                log.warning(
                    "The homeserver does not know any more where we were, and what was said "
                    "meanwhile is not looked for: %s",
                    error,
                    extra={"action": "place_unknown"},
                )
                place = await self._beginning.anew()
            else:
                place = await self._take(raw, place)
                at_once = False

    async def _take(self, raw: Json, before: Place) -> Place:
        sync = msgspec.convert(raw, Sync)
        if sync.next_batch == before.since:
            return before
        place = before.next(sync.next_batch)
        if await self._told(raw, sync):
            await self._taking.open_unread()
        await self._taking.take(sync, since=before.since, place=place)
        self._record.reach(place)
        await self._keys.keep()
        await self._mark()
        return place

    async def _told(self, raw: Json, sync: Sync) -> bool:
        """Whether keys have come."""
        for each in sync.account_data.events:
            if each.get("type") == "m.direct":
                self._rooms.call_direct(each.get("content", {}))
        return await self._machine.heard(raw)

    async def _mark(self) -> None:
        if self._clock.monotonic() - self._marked_at >= _SELDOM:
            self._marked_at = self._clock.monotonic()
            await self._record.settle()

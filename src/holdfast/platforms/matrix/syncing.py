"""Syncing: the stream of all that happens to the account, asked for piece by piece."""

import asyncio
import logging
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.errors import Refused, Throttled
from holdfast.core.ports import Clock
from holdfast.platforms.matrix.api import ClientApi
from holdfast.platforms.matrix.history import SAID
from holdfast.platforms.matrix.keys import Keys
from holdfast.platforms.matrix.patience import Sleep
from holdfast.platforms.matrix.record import Place, Record
from holdfast.platforms.matrix.rooms import Rooms
from holdfast.platforms.matrix.taking import Taking
from holdfast.platforms.matrix.wire import Json, Sync

if TYPE_CHECKING:  # imports the library, which is imported when a line is opened
    from holdfast.platforms.matrix.machine import Machine

log = logging.getLogger(__name__)

GRACE = 15.0  # seconds that an answer may take beyond the time for which a question is held
_SELDOM = 60.0  # seconds between two marks of how far everything was looked at
_STATES = ("m.room.member", "m.room.encryption")


def _filter(*, states: tuple[str, ...], said: tuple[str, ...]) -> str:
    """https://spec.matrix.org/latest/client-server-api/#filtering"""
    nothing: Json = {"types": []}
    room = {
        "ephemeral": nothing,
        "account_data": nothing,
        "state": {"types": states},
        "timeline": {"types": (*said, *states), "limit": 100},
    }
    wanted = {"presence": nothing, "account_data": {"types": ["m.direct"]}, "room": room}
    return msgspec.json.encode(wanted).decode()


_USUAL = _filter(states=_STATES, said=SAID)
# For an account that is new here: whatever was said before was said to somebody else.
_FIRST = _filter(states=(), said=())


class Syncing:
    """Owns how far the stream was asked for. Runs until it is cancelled, or until the line breaks:
    that is raised, for whoever mends lines."""

    def __init__(
        self,
        api: ClientApi,
        machine: "Machine",
        rooms: Rooms,
        keys: Keys,
        taking: Taking,
        record: Record,
        *,
        hold: int,
        clock: Clock,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._api = api
        self._machine = machine
        self._rooms = rooms
        self._keys = keys
        self._taking = taking
        self._record = record
        self._hold = hold  # seconds for which the server holds a question with nothing to tell
        self._clock = clock
        self._sleep = sleep
        self._marked_at = clock.monotonic()

    async def run(self, place: Place | None) -> None:
        """`place` is how far everything is durable here; None: the account was never here."""
        await self._keys.keep()
        hold = 0  # whatever waits is told at once
        while True:
            if place is None:
                place = await self._begin()
            try:
                raw = await self._ask(place.since, wanted=_USUAL, hold=hold)
            except Refused as error:
                self._complain(error)
                place = None
                continue
            place = await self._take(raw, place)
            hold = self._hold

    async def _begin(self) -> Place:
        raw = await self._ask(None, wanted=_FIRST, hold=0)
        sync = msgspec.convert(raw, Sync)
        await self._told(raw, sync)
        place = Place(number=self._record.number + 1, since=sync.next_batch)
        await self._taking.answer_invites(sync)
        self._record.reach(place)
        await self._record.settle()
        return place

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

    async def _ask(self, since: str | None, *, wanted: str, hold: int) -> Json:
        query = {"filter": wanted, "timeout": str(hold * 1000)}
        query |= {} if since is None else {"since": since}
        while True:
            try:
                limit = hold + GRACE if hold else None
                return await self._api.ask("GET", "/sync", dict, query=query, limit=limit)
            except Throttled as error:
                await self._sleep(error.retry_after)

    def _complain(self, error: Refused) -> None:
        log.warning(
            "The homeserver does not know any more where we were, and what was said meanwhile is "
            "not looked for: %s",
            error,
            extra={"action": "place_unknown"},
        )

"""Unread messages: those whose keys have not come. Told after a while, and read once they come."""

import asyncio
import logging
from collections.abc import Iterable

import msgspec

from holdfast.core.errors import Refused, SendError
from holdfast.platforms.matrix.checkpoint import Record, Sealed
from holdfast.platforms.matrix.handing import Handing, Said
from holdfast.platforms.matrix.listening import Listening
from holdfast.platforms.matrix.patience import Patience, Sleep

log = logging.getLogger(__name__)


class Unread:
    """Owns the tasks that wait with each. They are in the record before anything passes them."""

    def __init__(
        self,
        record: Record,
        listening: Listening,
        handing: Handing,
        patience: Patience,
        *,
        keys_within: float,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._record = record
        self._listening = listening
        self._handing = handing
        self._patience = patience
        self._tasks: asyncio.TaskGroup | None = None  # of the connection
        self._keys_within = keys_within
        self._sleep = sleep
        self._waiting: set[asyncio.Task[None]] = set()

    def begin(self, tasks: asyncio.TaskGroup) -> None:
        """With what an earlier life has left."""
        self._tasks = tasks
        self._wait_with(each for each in self._record.sealed if not each.told)

    def leave(self) -> None:
        """The connection ends: the next one finds them in the record."""
        self._tasks = None
        for task in self._waiting:
            task.cancel()

    async def keep(self, sealed: Iterable[Sealed]) -> None:
        """Durable when this returns. One that came before is not begun anew."""
        known = {each.event_id for each in self._record.sealed}
        fresh = [each for each in sealed if each.event_id not in known]
        if fresh:
            await self._record.seal(fresh)
            self._wait_with(fresh)

    async def retry(self) -> None:
        """Keys have come: those that they open are handed over, in their order."""
        for sealed in self._record.sealed:
            found = await self._opened(sealed)
            if isinstance(found, Sealed):
                continue
            if found is not None:
                await self._handing.over(found)
            await self._record.unseal(sealed.event_id)

    async def _opened(self, sealed: Sealed) -> Said | Sealed | None:
        try:
            return await self._listening.heard(sealed.room_id, sealed.event)
        except Refused:  # we are no longer there, and could not answer
            return None

    def _wait_with(self, sealed: Iterable[Sealed]) -> None:
        if self._tasks is None:
            return
        for each in sealed:
            task = self._tasks.create_task(self._tell_of(each))
            self._waiting.add(task)
            task.add_done_callback(self._waiting.discard)

    async def _tell_of(self, sealed: Sealed) -> None:
        await self._sleep(self._keys_within)
        if sealed not in self._record.sealed:
            return
        log.warning(
            "Event %s in %s cannot be read: its keys have not come.",
            sealed.event_id,
            sealed.room_id,
            extra={"action": "event_sealed"},
        )
        try:
            await self._patience.done(lambda: self._tell(sealed))
        except SendError as error:  # the line is gone: the next one tells
            log.info("%s", error, extra={"action": "sealed_untold"})

    async def _tell(self, sealed: Sealed) -> None:
        try:
            said: Said | None = await self._listening.unreadable(sealed)
        except Refused:  # we are no longer there
            said = None
        if said is not None:
            await self._handing.over(said)
        if sealed in self._record.sealed:  # else it was read meanwhile
            await self._record.seal([msgspec.structs.replace(sealed, told=True)])

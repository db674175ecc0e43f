"""Unread messages: those whose keys have not come. Told after a while, and read once they come."""

import asyncio
import logging
from collections.abc import Iterable

import msgspec

from holdfast.core.errors import SendError, SendRejected
from holdfast.platforms.matrix.checkpoint import MatrixCheckpoint, UndecryptedEvent
from holdfast.platforms.matrix.handing import MessageSubmitter, ReceivedMessage
from holdfast.platforms.matrix.listening import EventResolver
from holdfast.platforms.matrix.patience import RetryLoop, Sleep

log = logging.getLogger(__name__)


class UndecryptedMessages:
    """Owns the tasks that wait with each. They are in the record before anything passes them."""

    def __init__(
        self,
        checkpoint: MatrixCheckpoint,
        resolver: EventResolver,
        submitter: MessageSubmitter,
        retry_loop: RetryLoop,
        *,
        notice_delay: float,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._checkpoint = checkpoint
        self._resolver = resolver
        self._submitter = submitter
        self._retry_loop = retry_loop
        self._tasks: asyncio.TaskGroup | None = None  # of the connection
        self._notice_delay = notice_delay
        self._sleep = sleep
        self._notice_tasks: set[asyncio.Task[None]] = set()

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """With what an earlier life has left."""
        self._tasks = tasks
        self._schedule_notices(each for each in self._checkpoint.undecrypted if not each.notified)

    def stop(self) -> None:
        """The connection ends: the next one finds them in the record."""
        self._tasks = None
        for task in self._notice_tasks:
            task.cancel()

    async def add(self, events: Iterable[UndecryptedEvent]) -> None:
        """Durable when this returns. One that came before is not begun anew."""
        known = {each.event_id for each in self._checkpoint.undecrypted}
        fresh = [each for each in events if each.event_id not in known]
        if fresh:
            await self._checkpoint.add_undecrypted(fresh)
            self._schedule_notices(fresh)

    async def retry_all(self) -> None:
        """Keys have come: those that they open are handed over, in their order."""
        for sealed in self._checkpoint.undecrypted:
            found = await self._resolve(sealed)
            if isinstance(found, UndecryptedEvent):
                continue
            if found is not None:
                await self._submitter.submit(found)
            await self._checkpoint.remove_undecrypted(sealed.event_id)

    async def _resolve(self, event: UndecryptedEvent) -> ReceivedMessage | UndecryptedEvent | None:
        try:
            return await self._resolver.resolve(event.room_id, event.event)
        except SendRejected:  # we are no longer there, and could not answer
            return None

    def _schedule_notices(self, events: Iterable[UndecryptedEvent]) -> None:
        if self._tasks is None:
            return
        for each in events:
            task = self._tasks.create_task(self._notify_later(each))
            self._notice_tasks.add(task)
            task.add_done_callback(self._notice_tasks.discard)

    async def _notify_later(self, event: UndecryptedEvent) -> None:
        await self._sleep(self._notice_delay)
        if event not in self._checkpoint.undecrypted:
            return
        log.warning(
            "Event %s in %s cannot be read: its keys have not come.",
            event.event_id,
            event.room_id,
            extra={"action": "event_undecryptable"},
        )
        try:
            await self._retry_loop.run(lambda: self._notify(event))
        except SendError as error:  # the line is gone: the next one tells
            log.info("%s", error, extra={"action": "undecrypted_notice_delayed"})

    async def _notify(self, event: UndecryptedEvent) -> None:
        try:
            said: ReceivedMessage | None = await self._resolver.resolve_undecryptable(event)
        except SendRejected:  # we are no longer there
            said = None
        if said is not None:
            await self._submitter.submit(said)
        if event in self._checkpoint.undecrypted:  # else it was read meanwhile
            await self._checkpoint.add_undecrypted([msgspec.structs.replace(event, notified=True)])

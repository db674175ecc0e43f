"""Receipts: people see that what they said was taken."""

import asyncio
import logging
from collections.abc import Callable

from holdfast.core.errors import SendError
from holdfast.core.messages.inbox import Inbound
from holdfast.platforms.matrix.api import ClientApi
from holdfast.platforms.matrix.paths import in_room
from holdfast.platforms.matrix.wire import Nothing

log = logging.getLogger(__name__)


class Receipts:
    """Owns the tasks that bring them. Nobody is the worse where one fails."""

    def __init__(self, api: ClientApi, *, wanted: bool, room_of: Callable[[str], str]) -> None:
        self._api = api
        self._room_of = room_of
        self._wanted = wanted
        self._tasks: asyncio.TaskGroup | None = None  # of the connection
        self._bringing: set[asyncio.Task[None]] = set()

    def begin(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks

    def show(self, inbound: Inbound) -> None:
        if self._wanted and self._tasks is not None:
            task = self._tasks.create_task(self._bring(inbound))
            self._bringing.add(task)
            task.add_done_callback(self._bringing.discard)

    def leave(self) -> None:
        """The connection ends: nothing more is done on the side."""
        self._tasks = None
        for task in self._bringing:
            task.cancel()

    async def _bring(self, inbound: Inbound) -> None:
        event_id = inbound.event_id.removesuffix("/sealed")
        where = in_room(self._room_of(inbound.source.chat_id), "receipt", "m.read", event_id)
        try:
            await self._api.call("POST", where, Nothing, body={})
        except SendError as error:
            log.debug("A receipt was not shown: %s", error, extra={"action": "receipt_unshown"})

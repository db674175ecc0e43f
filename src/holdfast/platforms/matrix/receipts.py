"""Receipts: people see that what they said was taken."""

import asyncio
import logging
from collections.abc import Callable

from holdfast.core.errors import SendError
from holdfast.core.messages.inbox import Inbound
from holdfast.platforms.matrix.api import MatrixClient
from holdfast.platforms.matrix.paths import room_path
from holdfast.platforms.matrix.wire import MatrixEmptyResponse

log = logging.getLogger(__name__)


class ReadReceipts:
    """Owns the tasks that bring them. Nobody is the worse where one fails."""

    def __init__(
        self, client: MatrixClient, *, enabled: bool, room_of: Callable[[str], str]
    ) -> None:
        self._client = client
        self._room_of = room_of
        self._enabled = enabled
        self._tasks: asyncio.TaskGroup | None = None  # of the connection
        self._in_flight: set[asyncio.Task[None]] = set()

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks

    def send(self, inbound: Inbound) -> None:
        if self._enabled and self._tasks is not None:
            task = self._tasks.create_task(self._post(inbound))
            self._in_flight.add(task)
            task.add_done_callback(self._in_flight.discard)

    def stop(self) -> None:
        """The connection ends: nothing more is done on the side."""
        self._tasks = None
        for task in self._in_flight:
            task.cancel()

    async def _post(self, inbound: Inbound) -> None:
        event_id = inbound.event_id.removesuffix("/sealed")
        where = room_path(self._room_of(inbound.source.chat_id), "receipt", "m.read", event_id)
        try:
            await self._client.call("POST", where, MatrixEmptyResponse, body={})
        except SendError as error:
            log.debug("A receipt was not shown: %s", error, extra={"action": "read_receipt_failed"})

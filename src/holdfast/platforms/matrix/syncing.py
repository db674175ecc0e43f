"""Syncing: each piece of the stream is taken before the next one is asked for."""

import logging
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.errors import SendRejected
from holdfast.core.ports.protocols import Clock
from holdfast.platforms.matrix.beginning import SyncStart
from holdfast.platforms.matrix.checkpoint import MatrixCheckpoint, SyncPosition
from holdfast.platforms.matrix.keys import RoomKeys
from holdfast.platforms.matrix.rooms import RoomDirectory
from holdfast.platforms.matrix.stream import SyncStream
from holdfast.platforms.matrix.taking import MatrixReceiver
from holdfast.platforms.matrix.wire import Json, SyncResponse

if TYPE_CHECKING:  # imports the library, which is imported when a line is opened
    from holdfast.platforms.matrix.machine import EncryptionMachine

log = logging.getLogger(__name__)

_SAVE_INTERVAL_SECONDS = 60.0  # seconds between two marks of how far everything was looked at


class SyncLoop:
    """Owns when how far it came was last written down. Runs until it is cancelled, or until the
    line breaks: that is raised, for whoever mends lines."""

    def __init__(
        self,
        stream: SyncStream,
        encryption: "EncryptionMachine",
        rooms: RoomDirectory,
        room_keys: RoomKeys,
        receiver: MatrixReceiver,
        checkpoint: MatrixCheckpoint,
        *,
        start: SyncStart,
        clock: Clock,
    ) -> None:
        self._stream = stream
        self._encryption = encryption
        self._rooms = rooms
        self._room_keys = room_keys
        self._receiver = receiver
        self._checkpoint = checkpoint
        self._start = start
        self._clock = clock
        self._saved_at = clock.monotonic()

    async def run(self, position: SyncPosition) -> None:
        """`place` is how far everything is durable here. An earlier life may have had the keys of
        a message, and no time to read it."""
        await self._room_keys.exchange_keys()
        await self._receiver.retry_undecrypted()
        at_once = True  # whatever waits is told now
        while True:
            try:
                raw = await self._stream.since(position.since, immediately=at_once)
            except SendRejected as error:
                log.warning(
                    "The homeserver does not know any more where we were, and what was said "
                    "meanwhile is not looked for: %s",
                    error,
                    extra={"action": "sync_position_unknown"},
                )
                position = await self._start.start_from_now()
            else:
                position = await self._handle(raw, position)
                at_once = False

    async def _handle(self, raw: Json, previous: SyncPosition) -> SyncPosition:
        sync = msgspec.convert(raw, SyncResponse)
        if sync.next_batch == previous.since:
            return previous
        place = previous.next(sync.next_batch)
        if await self._receive_state(raw, sync):
            await self._receiver.retry_undecrypted()
        await self._receiver.handle(sync, since=previous.since, position=place)
        self._checkpoint.advance(place)
        await self._room_keys.exchange_keys()
        await self._save_position_if_due()
        return place

    async def _receive_state(self, raw: Json, sync: SyncResponse) -> bool:
        """Whether keys have come."""
        for each in sync.account_data.events:
            if each.get("type") == "m.direct":
                self._rooms.set_direct(each.get("content", {}))
        return await self._encryption.receive_sync(raw)

    async def _save_position_if_due(self) -> None:
        if self._clock.monotonic() - self._saved_at >= _SAVE_INTERVAL_SECONDS:
            self._saved_at = self._clock.monotonic()
            await self._checkpoint.save_position()

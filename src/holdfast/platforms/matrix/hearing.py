"""Hearing: all that one connection of an account listens with, put together."""

import asyncio
from typing import TYPE_CHECKING

from holdfast.core.ports.door import PluginContext
from holdfast.core.ports.protocols import Intake
from holdfast.platforms.matrix.api import MatrixClient
from holdfast.platforms.matrix.beginning import SyncStart
from holdfast.platforms.matrix.checkpoint import MatrixCheckpoint, SyncPosition
from holdfast.platforms.matrix.handing import MessageSubmitter
from holdfast.platforms.matrix.history import MatrixHistory
from holdfast.platforms.matrix.invites import InviteHandler
from holdfast.platforms.matrix.keys import RoomKeys
from holdfast.platforms.matrix.listening import EventResolver
from holdfast.platforms.matrix.paces import SyncTuning
from holdfast.platforms.matrix.patience import RetryLoop
from holdfast.platforms.matrix.plugin import MatrixSettings
from holdfast.platforms.matrix.reading import MatrixParser
from holdfast.platforms.matrix.receipts import ReadReceipts
from holdfast.platforms.matrix.rooms import RoomDirectory
from holdfast.platforms.matrix.stream import SyncStream
from holdfast.platforms.matrix.syncing import SyncLoop
from holdfast.platforms.matrix.taking import MatrixReceiver
from holdfast.platforms.matrix.unread import UndecryptedMessages
from holdfast.platforms.matrix.upgrades import RoomUpgrades

if TYPE_CHECKING:  # imports the library, which is imported when a line is opened
    from holdfast.platforms.matrix.machine import EncryptionMachine


class MatrixListener:
    """Owns the tasks that what is heard begins, among those of the connection."""

    def __init__(
        self,
        client: MatrixClient,
        encryption: "EncryptionMachine",
        rooms: RoomDirectory,
        room_keys: RoomKeys,
        checkpoint: MatrixCheckpoint,
        *,
        user_id: str,
        context: PluginContext[MatrixSettings],
        intake: Intake,
        tuning: SyncTuning,
    ) -> None:
        settings = context.settings
        self._rooms, self._checkpoint, self._intake = rooms, checkpoint, intake
        self._account = context.account
        self._parser = MatrixParser(user_id, account=context.account, chat_of=checkpoint.chat_of)
        self._read_receipts = ReadReceipts(
            client, enabled=settings.read_receipts, room_of=checkpoint.room_of
        )
        most = settings.max_file_mb * 2**20
        handing = MessageSubmitter(
            client, intake, max_file_bytes=most, on_accepted=self._read_receipts.send
        )
        history = MatrixHistory(client, encryption, page_size=tuning.page_size)
        listening = EventResolver(
            encryption, rooms, history, self._parser, user_id=user_id, chat_of=checkpoint.chat_of
        )
        patience = RetryLoop(client)
        self._undecrypted = UndecryptedMessages(
            checkpoint, listening, handing, patience, notice_delay=tuning.undecrypted_notice_delay
        )
        invites = InviteHandler(client, user_id, settings=settings, checkpoint=checkpoint)
        taking = MatrixReceiver(
            listening,
            handing,
            self._undecrypted,
            invites,
            RoomUpgrades(client, checkpoint),
            patience,
            cursor_name=self._parser.cursor_name,
        )
        stream = SyncStream(
            client, long_poll_seconds=settings.sync_seconds, page_size=tuning.page_size
        )
        self._start = SyncStart(stream, encryption, invites, checkpoint)
        self._loop = SyncLoop(
            stream,
            encryption,
            rooms,
            room_keys,
            taking,
            checkpoint,
            start=self._start,
            clock=context.clock,
        )

    async def prepare(self) -> SyncPosition:
        """Whatever is said once this has returned is heard. Raises a `SendError`."""
        await self._rooms.load_direct()
        return await self._start.resume(self._intake, self._account, self._parser.cursor_name)

    async def run(self, position: SyncPosition, tasks: asyncio.TaskGroup) -> None:
        """Until the line breaks: that is raised."""
        self._read_receipts.start(tasks)
        self._undecrypted.start(tasks)
        await self._loop.run(position)

    async def stop(self) -> None:
        """Nothing more is taken. How far everything was looked at is written down, so that the
        next connection need not look again."""
        self._read_receipts.stop()
        self._undecrypted.stop()
        await self._checkpoint.save_position()

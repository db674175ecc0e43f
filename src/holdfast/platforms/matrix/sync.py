"""The /sync loop of a Matrix account: where it starts, each request, and all parts that handle the
responses."""

import asyncio
import logging
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.errors import SendRejected, Throttled
from holdfast.core.ports.platform import Intake
from holdfast.core.ports.platform_plugin import PluginContext
from holdfast.core.ports.runtime import Clock
from holdfast.platforms.matrix.checkpoint import MatrixCheckpoint, SyncPosition
from holdfast.platforms.matrix.client import MatrixClient
from holdfast.platforms.matrix.events import PLATFORM, TOMBSTONE, Json, MatrixParser, SyncResponse
from holdfast.platforms.matrix.plugin import MatrixSettings
from holdfast.platforms.matrix.receiver import (
    MESSAGE_EVENT_TYPES,
    EventResolver,
    MatrixHistory,
    MatrixReceiver,
    MessageSubmitter,
    ReadReceipts,
    RetryLoop,
    Sleep,
    UndecryptedMessages,
)
from holdfast.platforms.matrix.rooms import InviteHandler, RoomDirectory, RoomKeys, RoomUpgrades

if TYPE_CHECKING:
    from holdfast.platforms.matrix.encryption import EncryptionMachine

log = logging.getLogger(__name__)

RESPONSE_GRACE = 15.0  # seconds that a response may take beyond the duration of a long poll
_STATE_EVENT_TYPES = ("m.room.member", "m.room.encryption", TOMBSTONE)
_SAVE_INTERVAL_SECONDS = 60.0  # between two saves of the position


class SyncTuning(msgspec.Struct, frozen=True, kw_only=True):
    page_size: int = 100  # events of a room in one response
    # Seconds to wait for the keys of a message before its sender is notified: often they are a
    # little late.
    undecrypted_notice_delay: float = 30.0


DEFAULT_TUNING = SyncTuning()


def _sync_filter(
    *, state_types: tuple[str, ...], message_types: tuple[str, ...], page_size: int
) -> str:
    """https://spec.matrix.org/latest/client-server-api/#filtering"""
    nothing: Json = {"types": []}
    room = {
        "ephemeral": nothing,
        "account_data": nothing,
        "state": {"types": state_types},
        "timeline": {"types": (*message_types, *state_types), "limit": page_size},
    }
    sync_filter = {"presence": nothing, "account_data": {"types": ["m.direct"]}, "room": room}
    return msgspec.json.encode(sync_filter).decode()


_NO_ROOMS_FILTER = _sync_filter(state_types=(), message_types=(), page_size=1)


class SyncStream:
    """Requests batches of /sync. Has no state. Raises `NotConnected` for every kind of lost
    connection, and `SendRejected` if the homeserver does not know the sync token."""

    def __init__(
        self,
        client: MatrixClient,
        *,
        long_poll_seconds: int,
        page_size: int,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._client = client
        self._default_filter = _sync_filter(
            state_types=_STATE_EVENT_TYPES, message_types=MESSAGE_EVENT_TYPES, page_size=page_size
        )
        self._long_poll_seconds = long_poll_seconds
        self._sleep = sleep

    async def newest(self) -> Json:
        """The current end of the stream, without any earlier messages."""
        return await self._request({"filter": _NO_ROOMS_FILTER, "timeout": "0"}, limit=None)

    async def since(self, token: str, *, immediately: bool) -> Json:
        """The batch after the token. `immediately`: do not wait for events if there are none."""
        wait = 0 if immediately else self._long_poll_seconds
        query = {"filter": self._default_filter, "since": token, "timeout": str(wait * 1000)}
        return await self._request(query, limit=self._long_poll_seconds + RESPONSE_GRACE)

    async def _request(self, query: dict[str, str], *, limit: float | None) -> Json:
        while True:
            try:
                return await self._client.call_idempotent(
                    "GET", "/sync", dict, query=query, limit=limit
                )
            except Throttled as error:
                await self._sleep(error.retry_after)


class SyncStart:
    """Finds the position from which an account syncs. Has no state."""

    def __init__(
        self,
        stream: SyncStream,
        encryption: "EncryptionMachine",
        invites: InviteHandler,
        checkpoint: MatrixCheckpoint,
    ) -> None:
        self._stream = stream
        self._encryption = encryption
        self._invites = invites
        self._checkpoint = checkpoint

    async def resume(self, intake: Intake, account: str, cursor_name: str) -> SyncPosition:
        """The later position of those in the store and in the checkpoint file. The file may be out
        of date, and most events leave no row in the store."""
        stored = SyncPosition.parse(await intake.cursor(PLATFORM, account, cursor_name))
        positions = [each for each in (stored, self._checkpoint.position) if each is not None]
        if not positions:
            return await self.start_from_now()
        position = max(positions, key=lambda each: each.number)
        self._checkpoint.advance(position)
        return position

    async def start_from_now(self) -> SyncPosition:
        """Starts at the end of the stream: earlier messages were not addressed to us. Only pending
        invitations are answered."""
        raw = await self._stream.newest()
        sync = msgspec.convert(raw, SyncResponse)
        await self._encryption.receive_sync(raw)
        for room_id, invited in sync.rooms.invite.items():
            await self._invites.answer(room_id, invited)
        position = SyncPosition(number=self._checkpoint.position_number + 1, since=sync.next_batch)
        self._checkpoint.advance(position)
        await self._checkpoint.save_position()
        return position


class SyncLoop:
    """Handles each batch before it requests the next one. Owns the time of the last saved position.
    Runs until it is cancelled, or raises when the connection is lost."""

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
        """`position`: everything before it is durable. Starts with a retry of undecrypted messages:
        an earlier process may have received their keys and stopped before it used them."""
        await self._room_keys.exchange_keys()
        await self._receiver.retry_undecrypted()
        immediately = True  # first what is pending, without a long poll
        while True:
            try:
                raw = await self._stream.since(position.since, immediately=immediately)
            except SendRejected as error:
                log.warning(
                    "The homeserver no longer knows our sync position; messages missed since then "
                    "are not fetched: %s",
                    error,
                    extra={"action": "sync_position_unknown"},
                )
                position = await self._start.start_from_now()
            else:
                position = await self._handle(raw, position)
                immediately = False

    async def _handle(self, raw: Json, previous: SyncPosition) -> SyncPosition:
        sync = msgspec.convert(raw, SyncResponse)
        if sync.next_batch == previous.since:
            return previous
        position = previous.next(sync.next_batch)
        if await self._receive_state(raw, sync):
            await self._receiver.retry_undecrypted()
        await self._receiver.handle(sync, since=previous.since, position=position)
        self._checkpoint.advance(position)
        await self._room_keys.exchange_keys()
        await self._save_position_if_due()
        return position

    async def _receive_state(self, raw: Json, sync: SyncResponse) -> bool:
        """Returns whether keys have arrived."""
        for event in sync.account_data.events:
            if event.get("type") == "m.direct":
                self._rooms.set_direct(event.get("content", {}))
        return await self._encryption.receive_sync(raw)

    async def _save_position_if_due(self) -> None:
        if self._clock.monotonic() - self._saved_at >= _SAVE_INTERVAL_SECONDS:
            self._saved_at = self._clock.monotonic()
            await self._checkpoint.save_position()


class MatrixListener:
    """Everything with which one connection of an account receives messages, put together. Starts
    and stops its background tasks, in the task group of the connection."""

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
        submitter = MessageSubmitter(
            client,
            intake,
            max_file_bytes=settings.max_file_mb * 2**20,
            on_accepted=self._read_receipts.send,
        )
        history = MatrixHistory(client, encryption, page_size=tuning.page_size)
        resolver = EventResolver(
            encryption, rooms, history, self._parser, user_id=user_id, chat_of=checkpoint.chat_of
        )
        retry_loop = RetryLoop(client)
        self._undecrypted = UndecryptedMessages(
            checkpoint,
            resolver,
            submitter,
            retry_loop,
            notice_delay=tuning.undecrypted_notice_delay,
        )
        invites = InviteHandler(client, user_id, settings=settings, checkpoint=checkpoint)
        receiver = MatrixReceiver(
            resolver,
            submitter,
            self._undecrypted,
            invites,
            RoomUpgrades(client, checkpoint),
            retry_loop,
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
            receiver,
            checkpoint,
            start=self._start,
            clock=context.clock,
        )

    async def prepare(self) -> SyncPosition:
        """Every message written after this has returned will be received. Raises a `SendError`."""
        await self._rooms.load_direct()
        return await self._start.resume(self._intake, self._account, self._parser.cursor_name)

    async def run(self, position: SyncPosition, tasks: asyncio.TaskGroup) -> None:
        """Raises a `SendError` when the connection is lost."""
        self._read_receipts.start(tasks)
        self._undecrypted.start(tasks)
        await self._loop.run(position)

    async def stop(self) -> None:
        """Stops the background tasks, and saves the position for the next connection."""
        self._read_receipts.stop()
        self._undecrypted.stop()
        await self._checkpoint.save_position()

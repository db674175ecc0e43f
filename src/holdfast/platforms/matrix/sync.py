"""The /sync loop of a Matrix account: where it starts, each request, and all parts that handle what it returns."""

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


# MERGED holdfast.platforms.matrix.paces: Paces: how much is asked for at once, and how long is waited for what may be late.
class SyncTuning(msgspec.Struct, frozen=True, kw_only=True):
    page_size: int = 100  # events of a room in one answer
    # Seconds for which the keys of a message may be late: often they are, and nobody need hear of
    # it. Then whoever wrote it is told.
    undecrypted_notice_delay: float = 30.0


DEFAULT_TUNING = SyncTuning()


# MERGED holdfast.platforms.matrix.stream: The stream of all that happens to an account: asked for piece by piece, from a token on.
RESPONSE_GRACE = (
    15.0  # seconds that an answer may take beyond the time for which a question is held
)
_STATE_EVENT_TYPES = ("m.room.member", "m.room.encryption", TOMBSTONE)


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
    wanted = {"presence": nothing, "account_data": {"types": ["m.direct"]}, "room": room}
    return msgspec.json.encode(wanted).decode()


_NO_ROOMS_FILTER = _sync_filter(state_types=(), message_types=(), page_size=1)


class SyncStream:
    """Keeps nothing. Raises `NotConnected` for every kind of broken line, and `Refused` where the
    homeserver does not know the token."""

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
        self._long_poll_seconds = (
            long_poll_seconds  # seconds for which a question with nothing to tell is held
        )
        self._sleep = sleep

    async def newest(self) -> Json:
        """Where it ends now, with no word of what was said before."""
        return await self._request({"filter": _NO_ROOMS_FILTER, "timeout": "0"}, limit=None)

    async def since(self, token: str, *, immediately: bool) -> Json:
        """What comes after that; `at_once`: also where that is nothing."""
        hold = 0 if immediately else self._long_poll_seconds
        query = {"filter": self._default_filter, "since": token, "timeout": str(hold * 1000)}
        return await self._request(query, limit=self._long_poll_seconds + RESPONSE_GRACE)

    async def _request(self, query: dict[str, str], *, limit: float | None) -> Json:
        while True:
            try:
                return await self._client.call_idempotent(
                    "GET", "/sync", dict, query=query, limit=limit
                )
            except Throttled as error:
                await self._sleep(error.retry_after)


# MERGED holdfast.platforms.matrix.beginning: The beginning: where an account starts to listen that was never here before.
class SyncStart:
    """Keeps nothing."""

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
        """How far everything was taken: the later one of what the store and the record say. The
        record may be old, and most of what is looked at leaves no row in the store."""
        told = SyncPosition.parse(await intake.cursor(PLATFORM, account, cursor_name))
        places = [each for each in (told, self._checkpoint.position) if each is not None]
        if not places:
            return await self.start_from_now()
        place = max(places, key=lambda each: each.number)
        self._checkpoint.advance(place)
        return place

    async def start_from_now(self) -> SyncPosition:
        """From now on: whatever was said before was said to somebody else. Only invitations that
        wait are answered."""
        raw = await self._stream.newest()
        sync = msgspec.convert(raw, SyncResponse)
        await self._encryption.receive_sync(raw)
        for room_id, invited in sync.rooms.invite.items():
            await self._invites.answer(room_id, invited)
        place = SyncPosition(number=self._checkpoint.position_number + 1, since=sync.next_batch)
        self._checkpoint.advance(place)
        await self._checkpoint.save_position()
        return place


# MERGED holdfast.platforms.matrix.syncing: Syncing: each piece of the stream is taken before the next one is asked for.
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


# MERGED holdfast.platforms.matrix.hearing: Hearing: all that one connection of an account listens with, put together.
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

"""The checkpoint file of a Matrix account: the sync position, events that cannot be decrypted yet, and room upgrades.

Most messages in rooms are not for the agent and leave no row in the inbox: without the position, all of them would be
fetched again at each start. An event whose keys have not arrived is in no inbox either.
"""

import asyncio
import logging
from collections.abc import Iterable
from pathlib import Path
from threading import Lock

import msgspec

from holdfast.core.errors import TransientStoreError
from holdfast.platforms.matrix.events import Json
from holdfast.system import state_file

log = logging.getLogger(__name__)

_LOSS_CONSEQUENCE = "what came since the last message that was kept is looked at again."

MAX_UNDECRYPTED = 500  # messages that wait for their keys


class SyncPosition(msgspec.Struct, frozen=True, kw_only=True):
    """How far the stream was taken. The server's token says nothing of which of two is the later
    one, so that each has a number of ours."""

    number: int
    since: str

    def __str__(self) -> str:
        return f"{self.number} {self.since}"

    @classmethod
    def parse(cls, value: str | None) -> "SyncPosition | None":
        number, space, since = (value or "").partition(" ")
        return cls(number=int(number), since=since) if space and number.isdigit() else None

    def next(self, since: str) -> "SyncPosition":
        return SyncPosition(number=self.number + 1, since=since)


class UndecryptedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event that cannot be read: its keys have not come."""

    room_id: str
    event: Json
    notified: bool = msgspec.field(name="told", default=False)  # the sender has been told

    @property
    def event_id(self) -> str:
        return str(self.event.get("event_id", ""))


class PendingUpgrade(msgspec.Struct, frozen=True, kw_only=True):
    """A room that is to take the place of another, and that we are not in yet."""

    instead_of: str
    by: str  # who says so


class MatrixCheckpointFile(msgspec.Struct, frozen=True, kw_only=True):
    """The names in the file are older than those of the fields."""

    position: SyncPosition | None = msgspec.field(name="place", default=None)
    undecrypted: tuple[UndecryptedEvent, ...] = msgspec.field(name="sealed", default=())
    pending_upgrades: dict[str, PendingUpgrade] = msgspec.field(
        name="awaited", default_factory=dict
    )
    # Rooms that continue the chat of another one, oldest first.
    chat_by_room: dict[str, str] = msgspec.field(name="followed", default_factory=dict)


class MatrixCheckpoint:
    """Owns one file. What it says of the place may be old: whoever goes by it looks at some
    messages twice, and at none never. What is sealed is durable before anything passes it."""

    def __init__(self, path: Path, saved: MatrixCheckpointFile) -> None:
        self._path = path
        self._position = self._saved_position = saved.position
        self._undecrypted = (
            saved.undecrypted
        )  # replaced, never changed: a thread may be writing it down
        self._chat_by_room = saved.chat_by_room  # the same
        self.pending_upgrades = saved.pending_upgrades  # the same
        self._write_lock = Lock()  # of a thread, which goes on when nobody waits for it any more

    @classmethod
    async def load(cls, path: Path) -> "MatrixCheckpoint":
        written = await asyncio.to_thread(
            state_file.load, path, MatrixCheckpointFile, consequence=_LOSS_CONSEQUENCE
        )
        return cls(path, written or MatrixCheckpointFile())

    @property
    def position(self) -> SyncPosition | None:
        return self._position

    @property
    def position_number(self) -> int:
        return 0 if self._position is None else self._position.number

    @property
    def undecrypted(self) -> tuple[UndecryptedEvent, ...]:
        return self._undecrypted

    def advance(self, position: SyncPosition) -> None:
        """So far was everything looked at; written down with the next `settle`."""
        self._position = position

    async def save_position(self) -> None:
        """Where the mark cannot be written, the older one stands."""
        if self._position == self._saved_position:
            return
        try:
            await self._save()
        except TransientStoreError as error:
            # An older mark does no harm, and the next one is not far.
            log.warning("%s", error, extra={"action": "checkpoint_not_saved"})

    async def add_undecrypted(self, events: Iterable[UndecryptedEvent]) -> None:
        """Durable when this returns. Raises `TransientStoreError`."""
        every = list(({each.event_id: each for each in (*self._undecrypted, *events)}).values())
        for gone in every[:-MAX_UNDECRYPTED]:
            log.warning(
                "Event %s was never readable and is given up.",
                gone.event_id,
                extra={"action": "undecrypted_event_dropped"},
            )
        self._undecrypted = tuple(every[-MAX_UNDECRYPTED:])
        await self._save()

    async def remove_undecrypted(self, event_id: str) -> None:
        """Durable when this returns. Raises `TransientStoreError`."""
        self._undecrypted = tuple(each for each in self._undecrypted if each.event_id != event_id)
        await self._save()

    def is_successor(self, room_id: str) -> bool:
        """Whether that room is on its way to be, or is, the follower of another."""
        return room_id in self.pending_upgrades or room_id in self._chat_by_room

    def chat_of(self, room_id: str) -> str:
        """The chat that is had in that room: the first of those that it follows."""
        return self._chat_by_room.get(room_id, room_id)

    def room_of(self, chat_id: str) -> str:
        """Where that chat is had now."""
        rooms = [room for room, chat in self._chat_by_room.items() if chat == chat_id]
        return rooms[-1] if rooms else chat_id

    async def add_pending_upgrade(self, room_id: str, upgrade: PendingUpgrade) -> None:
        """Durable when this returns. Raises `TransientStoreError`."""
        self.pending_upgrades = {**self.pending_upgrades, room_id: upgrade}
        await self._save()

    async def complete_upgrade(self, room_id: str, *, is_successor: bool) -> None:
        """We are in it. Durable when this returns. Raises `TransientStoreError`."""
        before = self.pending_upgrades[room_id].instead_of
        if is_successor:
            self._chat_by_room = {**self._chat_by_room, room_id: self.chat_of(before)}
        self.pending_upgrades = {
            name: each for name, each in self.pending_upgrades.items() if name != room_id
        }
        await self._save()

    async def _save(self) -> None:
        try:
            await asyncio.to_thread(self._write)
        except OSError as error:
            raise TransientStoreError(f"{self._path} cannot be written: {error}") from error

    def _write(self) -> None:
        with self._write_lock:  # what is written last is what is known last
            written = MatrixCheckpointFile(
                position=self._position,
                undecrypted=self.undecrypted,
                pending_upgrades=self.pending_upgrades,
                chat_by_room=self._chat_by_room,
            )
            state_file.write_atomically(self._path, msgspec.json.encode(written))
            self._saved_position = written.position

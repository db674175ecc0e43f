"""The checkpoint file of a Matrix account: the sync position, events that cannot be decrypted yet,
and room upgrades.

Most messages in rooms are not for the agent and leave no row in the inbox: without the position,
all of them would be fetched again at each start. An event whose keys have not arrived has no row
either.
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

_LOSS_CONSEQUENCE = "events since the last stored message are processed again."

MAX_UNDECRYPTED = 500  # events waiting for their keys


class SyncPosition(msgspec.Struct, frozen=True, kw_only=True):
    """How far the sync stream was processed. Two server tokens cannot be ordered, so each position
    has a number of ours."""

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
    """An event that cannot be decrypted: its keys have not arrived."""

    room_id: str
    event: Json
    notified: bool = msgspec.field(name="told", default=False)  # the sender was notified

    @property
    def event_id(self) -> str:
        return str(self.event.get("event_id", ""))


class PendingUpgrade(msgspec.Struct, frozen=True, kw_only=True):
    """For a room that replaces another one, and that we have not joined yet."""

    instead_of: str
    by: str  # the user who has upgraded the room


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
    """Owns one file. Its position may be out of date: then some messages are processed twice, but
    none is skipped. Undecrypted events are durable before the position passes them."""

    def __init__(self, path: Path, saved: MatrixCheckpointFile) -> None:
        self._path = path
        self._position = self._saved_position = saved.position
        # These are replaced, never modified: a thread may be writing them.
        self._undecrypted = saved.undecrypted
        self._chat_by_room = saved.chat_by_room
        self.pending_upgrades = saved.pending_upgrades
        self._write_lock = Lock()  # a writing thread continues after its task is cancelled

    @classmethod
    async def load(cls, path: Path) -> "MatrixCheckpoint":
        saved = await asyncio.to_thread(
            state_file.load, path, MatrixCheckpointFile, consequence=_LOSS_CONSEQUENCE
        )
        return cls(path, saved or MatrixCheckpointFile())

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
        """Everything before the position was processed. Saved with the next `save_position`."""
        self._position = position

    async def save_position(self) -> None:
        """A failure is only logged: an older position does no harm."""
        if self._position == self._saved_position:
            return
        try:
            await self._save()
        except TransientStoreError as error:
            log.warning(
                "Could not save the Matrix checkpoint, so some events may be processed again: %s",
                error,
                extra={"action": "checkpoint_not_saved"},
            )

    async def add_undecrypted(self, events: Iterable[UndecryptedEvent]) -> None:
        """Durable when this returns. Raises `TransientStoreError`."""
        merged = {event.event_id: event for event in (*self._undecrypted, *events)}
        newest_last = list(merged.values())
        for dropped in newest_last[:-MAX_UNDECRYPTED]:
            log.warning(
                "Dropping event %s, which could not be decrypted: too many events wait for "
                "their keys",
                dropped.event_id,
                extra={"action": "undecrypted_event_dropped"},
            )
        self._undecrypted = tuple(newest_last[-MAX_UNDECRYPTED:])
        await self._save()

    async def remove_undecrypted(self, event_id: str) -> None:
        """Durable when this returns. Raises `TransientStoreError`."""
        self._undecrypted = tuple(each for each in self._undecrypted if each.event_id != event_id)
        await self._save()

    def is_successor(self, room_id: str) -> bool:
        """Whether the room replaces another one, or is about to."""
        return room_id in self.pending_upgrades or room_id in self._chat_by_room

    def chat_of(self, room_id: str) -> str:
        """The chat id of a room: the id of its first predecessor, or its own."""
        return self._chat_by_room.get(room_id, room_id)

    def room_of(self, chat_id: str) -> str:
        """The current room of a chat."""
        rooms = [room for room, chat in self._chat_by_room.items() if chat == chat_id]
        return rooms[-1] if rooms else chat_id

    async def add_pending_upgrade(self, room_id: str, upgrade: PendingUpgrade) -> None:
        """Durable when this returns. Raises `TransientStoreError`."""
        self.pending_upgrades = {**self.pending_upgrades, room_id: upgrade}
        await self._save()

    async def complete_upgrade(self, room_id: str, *, is_successor: bool) -> None:
        """We have joined the room. Durable when this returns. Raises `TransientStoreError`."""
        predecessor = self.pending_upgrades[room_id].instead_of
        if is_successor:
            self._chat_by_room = {**self._chat_by_room, room_id: self.chat_of(predecessor)}
        self.pending_upgrades = {
            name: each for name, each in self.pending_upgrades.items() if name != room_id
        }
        await self._save()

    async def _save(self) -> None:
        try:
            await asyncio.to_thread(self._write)
        except OSError as error:
            raise TransientStoreError(
                "Could not write {path}: {error}; check its permissions and the free space",
                path=self._path,
                error=error,
            ) from error

    def _write(self) -> None:
        with self._write_lock:  # the last write has the latest state
            state = MatrixCheckpointFile(
                position=self._position,
                undecrypted=self.undecrypted,
                pending_upgrades=self.pending_upgrades,
                chat_by_room=self._chat_by_room,
            )
            state_file.write_atomically(self._path, msgspec.json.encode(state))
            self._saved_position = state.position

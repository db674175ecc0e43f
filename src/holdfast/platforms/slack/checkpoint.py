"""The checkpoint file of a Slack app: how far events were processed, and the chats and threads to
query after a gap.

Without further scopes, an app cannot list the chats it is in, and a thread's messages are only in
the thread's own history. Without this list, messages written while the gateway was down would not
be found.
"""

import asyncio
import logging
from pathlib import Path
from threading import Lock

import msgspec

from holdfast.core.errors import TransientStoreError
from holdfast.system import state_file

log = logging.getLogger(__name__)

_LOSS_CONSEQUENCE = (
    "messages written in Slack while the gateway was down are not fetched this time."
)
_MAX_REORDER_SECONDS = 60.0  # by which one event may overtake another
_SAVE_INTERVAL_SECONDS = 60.0  # in message time, between two saves
_MAX_THREADS = 50  # the most recently used; each costs a request after a gap

ThreadKey = tuple[str, str]
"""A chat, and the message that opened the thread there."""


class SlackCheckpointFile(msgspec.Struct, frozen=True, kw_only=True):
    until: float  # every earlier message was processed, in every chat
    chats: dict[str, str] = {}  # channel type by chat
    threads: tuple[ThreadKey, ...] = ()  # in which the agent was addressed; most recent last


class SlackCheckpoint:
    """Owns one file, which is replaced as a whole. It may be out of date: then some messages are
    processed twice, but none is skipped."""

    def __init__(self, path: Path, saved: SlackCheckpointFile, *, is_new: bool) -> None:
        self._path = path
        self._saved = saved  # as the file has it
        self._chats = dict(saved.chats)
        self._threads = dict.fromkeys(saved.threads)
        self._newest_seen = saved.until
        self._backlog_pending = not is_new
        self._write_lock = Lock()  # a writing thread continues after its task is cancelled

    @classmethod
    async def load(cls, path: Path, *, now: float) -> "SlackCheckpoint":
        """A new app has no missed messages."""
        saved = await asyncio.to_thread(
            state_file.load, path, SlackCheckpointFile, consequence=_LOSS_CONSEQUENCE
        )
        return cls(path, saved or SlackCheckpointFile(until=now), is_new=saved is None)

    @property
    def until(self) -> float:
        return self._saved.until

    @property
    def chats(self) -> dict[str, str]:
        return dict(self._chats)

    @property
    def threads(self) -> tuple[ThreadKey, ...]:
        return tuple(self._threads)

    async def add_chat(self, chat: str, channel_type: str) -> None:
        """Durable when this returns: only then may the first message of a chat be accepted. Raises
        `TransientStoreError`."""
        if chat not in self._saved.chats:
            self._chats[chat] = channel_type
            await self._save()

    async def add_thread(self, thread: ThreadKey) -> None:
        """Makes the thread the most recent one. Durable as in `add_chat`."""
        self._threads.pop(thread, None)
        self._threads[thread] = None
        while len(self._threads) > _MAX_THREADS:
            del self._threads[next(iter(self._threads))]
        if thread not in self._saved.threads:
            await self._save()

    def finish_backlog(self, newest_seen: float = 0.0) -> None:
        """All missed messages up to `newest_seen` were processed. From now on, live events advance
        the checkpoint."""
        self._newest_seen = max(self._newest_seen, newest_seen)
        self._backlog_pending = False

    async def advance(self, ts: str) -> None:
        """All messages up to `ts` were processed, except those that it has overtaken."""
        self._newest_seen = max(self._newest_seen, ts_seconds(ts))
        if self._processed_until - self.until >= _SAVE_INTERVAL_SECONDS:
            await self._try_to_save()

    async def save_progress(self) -> None:
        """The connection was closed, and all events received over it were processed."""
        if not self._backlog_pending:
            await self._try_to_save()

    async def _try_to_save(self) -> None:
        """A failure is only logged: an older checkpoint does no harm."""
        try:
            await self._save()
        except TransientStoreError as error:
            log.warning(
                "Could not save the Slack checkpoint, so some messages may be read again: %s",
                error,
                extra={"action": "checkpoint_not_saved"},
            )

    @property
    def _processed_until(self) -> float:
        return (
            self.until
            if self._backlog_pending
            else max(self.until, self._newest_seen - _MAX_REORDER_SECONDS)
        )

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
            state = SlackCheckpointFile(
                until=self._processed_until,
                chats=self.chats,
                threads=self.threads,
            )
            state_file.write_atomically(self._path, msgspec.json.encode(state))
            self._saved = state


def ts_seconds(ts: str) -> float:
    """The time of a message, from its `ts`; 0 if that is invalid."""
    try:
        return float(ts)
    except ValueError:
        return 0.0

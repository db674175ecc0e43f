"""The checkpoint file of a Slack app: how far events were processed, and the chats and threads to ask after a gap.

An app without further scopes is not told which chats it is in, and a thread's messages are only in the thread's own
history. Without this list, messages written while the gateway was down would not be found.
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
    "what was written in Slack while the gateway was down is not looked for this time."
)
_MAX_REORDER_SECONDS = 60.0  # seconds by which one event may overtake another
_BRIEF_GAP_SECONDS = 120.0  # seconds
_SAVE_INTERVAL_SECONDS = 60.0  # seconds of what was said between two writings of the mark
_MAX_THREADS = 50  # those that were spoken in last; each is a question of its own after a gap

ThreadKey = tuple[str, str]
"""A chat, and the message that opened the thread there."""


class SlackCheckpointFile(msgspec.Struct, frozen=True, kw_only=True):
    until: float  # everything that was said before was looked at, in every chat
    chats: dict[str, str] = {}  # with their kinds, as events tell them
    threads: tuple[ThreadKey, ...] = ()  # in which the agent was spoken to; the last one last
    # When the connection was last closed with every event taken; 0: never. Stored as `left`.
    disconnected_at: float = msgspec.field(name="left", default=0.0)


class SlackCheckpoint:
    """Owns one file, which is replaced as a whole. What it says may be old: whoever goes by it
    looks at some messages twice, and at none never."""

    def __init__(self, path: Path, saved: SlackCheckpointFile, *, is_new: bool) -> None:
        self._path = path
        self._saved = saved  # as the file has it
        self._chats = dict(saved.chats)
        self._threads = dict.fromkeys(saved.threads)
        self._newest_seen = saved.until
        self._disconnected_at = saved.disconnected_at
        self._backlog_pending = not is_new
        self._write_lock = Lock()  # of a thread, which goes on when nobody waits for it any more

    @classmethod
    async def load(cls, path: Path, *, now: float) -> "SlackCheckpoint":
        """An app that was never here before has missed nothing."""
        written = await asyncio.to_thread(
            state_file.load, path, SlackCheckpointFile, consequence=_LOSS_CONSEQUENCE
        )
        return cls(path, written or SlackCheckpointFile(until=now), is_new=written is None)

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
        """Durable when this returns: the first message of a chat is handed over after that.
        Raises `TransientStoreError`."""
        if chat not in self._saved.chats:
            self._chats[chat] = channel_type
            await self._save()

    async def add_thread(self, thread: ThreadKey) -> None:
        """The same of a thread, which is now the last that was spoken in."""
        self._threads.pop(thread, None)
        self._threads[thread] = None
        while len(self._threads) > _MAX_THREADS:
            del self._threads[next(iter(self._threads))]
        if thread not in self._saved.threads:
            await self._save()

    def was_disconnected_briefly(self, now: float) -> bool:
        """Whether the line was let go so lately that Slack itself still brings all that was said
        since: it tries again after one minute, and after five."""
        return 0 <= now - self._disconnected_at < _BRIEF_GAP_SECONDS

    def finish_backlog(self, newest_seen: float = 0.0) -> None:
        """What was missed was taken, up to then: from now on the mark goes with what is heard."""
        self._newest_seen = max(self._newest_seen, newest_seen)
        self._backlog_pending = False

    async def advance(self, ts: str) -> None:
        """All that was said up to then was taken, but for what is overtaken by it."""
        self._newest_seen = max(self._newest_seen, ts_seconds(ts))
        if self._processed_until - self.until >= _SAVE_INTERVAL_SECONDS:
            await self._try_to_save()

    async def save_disconnected(self, now: float) -> None:
        """The line is let go, and all that came over it was taken."""
        if not self._backlog_pending:
            self._disconnected_at = now
            await self._try_to_save()

    async def _try_to_save(self) -> None:
        """Where it cannot be written, an older mark does no harm."""
        try:
            await self._save()
        except TransientStoreError as error:
            log.warning("%s", error, extra={"action": "checkpoint_not_saved"})

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
            raise TransientStoreError(f"{self._path} cannot be written: {error}") from error

    def _write(self) -> None:
        with self._write_lock:  # what is written last is what is known last
            written = SlackCheckpointFile(
                until=self._processed_until,
                chats=self.chats,
                threads=self.threads,
                disconnected_at=self._disconnected_at,
            )
            state_file.write_atomically(self._path, msgspec.json.encode(written))
            self._saved = written


def ts_seconds(ts: str) -> float:
    """When a message was said, by its name; 0: that is none."""
    try:
        return float(ts)
    except ValueError:
        return 0.0

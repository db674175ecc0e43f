"""The record: what an app has to know after it was away, and Slack does not tell.

An app without further permissions is not told in which chats it is; and what is said in a thread
is in no history but the thread's own. Without the list, what is written there while nobody listens
would be found by nobody. Most of what is said in a channel is not for the agent, so no row of
the inbox says that it was looked at: the mark does.
"""

import asyncio
import logging
from pathlib import Path
from threading import Lock

import msgspec

from holdfast.core.errors import StoreFailing
from holdfast.system import state_file

log = logging.getLogger(__name__)

_LOST = "what was written in Slack while the gateway was down is not looked for this time."
_LATE = 60.0  # seconds by which one event may overtake another
_BRIEF = 120.0  # seconds
_SELDOM = 60.0  # seconds of what was said between two writings of the mark
_MOST_THREADS = 50  # those that were spoken in last; each is a question of its own after a gap

Thread = tuple[str, str]
"""A chat, and the message that opened the thread there."""


class Written(msgspec.Struct, frozen=True, kw_only=True):
    until: float  # everything that was said before was looked at, in every chat
    chats: dict[str, str] = {}  # with their kinds, as events tell them
    threads: tuple[Thread, ...] = ()  # in which the agent was spoken to; the last one last
    left: float = 0.0  # when the line was last let go with all taken; 0: it was not


class Record:
    """Owns one file, which is replaced as a whole. What it says may be old: whoever goes by it
    looks at some messages twice, and at none never."""

    def __init__(self, path: Path, written: Written, *, fresh: bool) -> None:
        self._path = path
        self._written = written  # as the file has it
        self._chats = dict(written.chats)
        self._threads = dict.fromkeys(written.threads)
        self._newest = written.until
        self._left = written.left
        self._held = not fresh
        self._writing = Lock()  # of a thread, which goes on when nobody waits for it any more

    @classmethod
    async def load(cls, path: Path, *, now: float) -> "Record":
        """An app that was never here before has missed nothing."""
        written = await asyncio.to_thread(state_file.read, path, Written, lost=_LOST)
        return cls(path, written or Written(until=now), fresh=written is None)

    @property
    def until(self) -> float:
        return self._written.until

    @property
    def chats(self) -> dict[str, str]:
        return dict(self._chats)

    @property
    def threads(self) -> tuple[Thread, ...]:
        return tuple(self._threads)

    async def know(self, chat: str, kind: str) -> None:
        """Durable when this returns: the first message of a chat is handed over after that.
        Raises `StoreFailing`."""
        if chat not in self._written.chats:
            self._chats[chat] = kind
            await self._save()

    async def know_thread(self, thread: Thread) -> None:
        """The same of a thread, which is now the last that was spoken in."""
        self._threads.pop(thread, None)
        self._threads[thread] = None
        while len(self._threads) > _MOST_THREADS:
            del self._threads[next(iter(self._threads))]
        if thread not in self._written.threads:
            await self._save()

    def left_just_now(self, now: float) -> bool:
        """Whether the line was let go so lately that Slack itself still brings all that was said
        since: it tries again after one minute, and after five."""
        return 0 <= now - self._left < _BRIEF

    def looked_through(self, newest: float = 0.0) -> None:
        """What was missed was taken, up to then: from now on the mark goes with what is heard."""
        self._newest = max(self._newest, newest)
        self._held = False

    async def heard(self, ts: str) -> None:
        """All that was said up to then was taken, but for what is overtaken by it."""
        self._newest = max(self._newest, seconds(ts))
        if self._mark - self.until >= _SELDOM:
            await self._try_to_save()

    async def leave(self, now: float) -> None:
        """The line is let go, and all that came over it was taken."""
        if not self._held:
            self._left = now
            await self._try_to_save()

    async def _try_to_save(self) -> None:
        """Where it cannot be written, an older mark does no harm."""
        try:
            await self._save()
        except StoreFailing as error:
            log.warning("%s", error, extra={"action": "record_unwritten"})

    @property
    def _mark(self) -> float:
        return self.until if self._held else max(self.until, self._newest - _LATE)

    async def _save(self) -> None:
        try:
            await asyncio.to_thread(self._write)
        except OSError as error:
            raise StoreFailing(f"{self._path} cannot be written: {error}") from error

    def _write(self) -> None:
        with self._writing:  # what is written last is what is known last
            written = Written(
                until=self._mark, chats=self.chats, threads=self.threads, left=self._left
            )
            state_file.replace(self._path, msgspec.json.encode(written))
            self._written = written


def seconds(ts: str) -> float:
    """When a message was said, by its name; 0: that is none."""
    try:
        return float(ts)
    except ValueError:
        return 0.0

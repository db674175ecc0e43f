"""The recent log: its newest lines in memory, for whoever looks at them as they come."""

import json
import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from threading import Lock

import msgspec

from holdfast.system.log_lines import JsonFormatter, record_session

MAX_LINES = 2_000
MAX_CHARS = 2_000_000  # of all of them: one line may carry a long traceback

LogCallback = Callable[[], None]


class RecentLogLine(msgspec.Struct, frozen=True):
    """`number` orders lines over restarts, too: it is the millisecond in which the line was made,
    or the next one that is free."""

    number: int
    level: int
    session: str
    text: str  # a JSON object, without the value of any secret


class RecentLogFilter(msgspec.Struct, frozen=True, kw_only=True):
    """`level`: this and what is worse. `session`: its id or how that begins. `words`: anywhere in
    the line, whatever their case."""

    level: int = logging.NOTSET
    session: str = ""
    text: str = ""

    def matches(self, line: RecentLogLine) -> bool:
        if line.level < self.level or not line.session.startswith(self.session):
            return False
        # As they are spelt in the line: a quote has a backslash before it there.
        spelt = json.dumps(self.text, ensure_ascii=False)[1:-1]
        return not spelt or spelt.casefold() in line.text.casefold()


class RecentLog(logging.Handler):
    """Owns the newest lines of this process. The log's own thread brings them; any other may read.

    Lines are dropped by their number and their length, never for a reader: one that is slow finds
    that it has missed some, and nobody waits for it.
    """

    def __init__(
        self, redact: Callable[[str], str], *, lines: int = MAX_LINES, chars: int = MAX_CHARS
    ) -> None:
        super().__init__()
        self.setFormatter(JsonFormatter(redact))
        self._max_lines, self._max_chars = lines, chars
        self._lines: deque[RecentLogLine] = deque()
        self._chars = 0
        self._newest = self._dropped = 0
        self._subscriptions: list[LogSubscription] = []
        self._lines_lock = Lock()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = self.format(record)
        except Exception:  # noqa: BLE001 - anybody's `extra`: it must not end the log's thread
            self.handleError(record)
            return
        with self._lines_lock:
            self._append(record, text)
            readers = [reader for reader in self._subscriptions if not reader.notified]
            for reader in readers:
                reader.notified = True
        for reader in readers:
            reader.on_lines()

    def _append(self, record: logging.LogRecord, text: str) -> None:
        first = self._newest == 0
        self._newest = max(self._newest + 1, int(record.created * 1000))
        if first:  # whoever read another process before this one has missed how that ended
            self._dropped = self._newest - 1
        self._lines.append(
            RecentLogLine(self._newest, record.levelno, record_session(record), text)
        )
        self._chars += len(text)
        while len(self._lines) > self._max_lines or self._chars > self._max_chars:
            gone = self._lines.popleft()
            self._chars -= len(gone.text)
            self._dropped = gone.number

    @property
    def newest(self) -> int:
        """The number of the last line; 0: there is none."""
        return self._newest

    def before(
        self, number: int | None, line_filter: RecentLogFilter, *, limit: int
    ) -> list[RecentLogLine]:
        """The last that are wanted, or the last before that line; the oldest of them first."""
        with self._lines_lock:
            lines = list(self._lines)
        earlier = (line for line in reversed(lines) if number is None or line.number < number)
        return list(islice(filter(line_filter.matches, earlier), limit))[::-1]

    @contextmanager
    def subscribe(
        self, line_filter: RecentLogFilter, *, after: int, on_lines: LogCallback
    ) -> Iterator["LogSubscription"]:
        """Read what comes after that line. `news` is called by the thread of the log, once for
        all there is until it is taken."""
        reader = LogSubscription(self, line_filter, after=after, on_lines=on_lines)
        with self._lines_lock:
            self._subscriptions.append(reader)
        try:
            yield reader
        finally:
            with self._lines_lock:
                self._subscriptions.remove(reader)

    def take(
        self, subscription: "LogSubscription", *, limit: int
    ) -> tuple[list[RecentLogLine], bool]:
        """See `LogSubscription.take`."""
        with self._lines_lock:
            missed = 0 < subscription.after < self._dropped
            fresh: list[RecentLogLine] = []
            for line in reversed(self._lines):
                if line.number <= subscription.after:
                    break
                fresh.append(line)
            fresh = fresh[::-1][:limit]
            subscription.after = fresh[-1].number if fresh else self._newest
            subscription.notified = subscription.after < self._newest
        return [line for line in fresh if subscription.line_filter.matches(line)], missed


class LogSubscription:
    """How far one reader has come; `told`: it knows that there is more."""

    __slots__ = ("_log", "after", "on_lines", "notified", "line_filter")

    def __init__(
        self, log: RecentLog, line_filter: RecentLogFilter, *, after: int, on_lines: LogCallback
    ) -> None:
        self._log = log
        self.line_filter = line_filter
        self.after = after
        self.on_lines = on_lines
        self.notified = False

    def take(self, *, limit: int) -> tuple[list[RecentLogLine], bool]:
        """The next lines that are wanted, of at most so many; and whether some before them are not
        kept any more. `told` says afterwards whether there is more to take."""
        return self._log.take(self, limit=limit)

"""The recent log: its newest lines in memory, for whoever looks at them as they come."""

import json
import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from threading import Lock

import msgspec

from holdfast.system.log_lines import JsonLines, session_of

MOST_LINES = 2_000
MOST_CHARS = 2_000_000  # of all of them: one line may carry a long traceback

News = Callable[[], None]


class KeptLine(msgspec.Struct, frozen=True):
    """`number` orders lines over restarts, too: it is the millisecond in which the line was made,
    or the next one that is free."""

    number: int
    level: int
    session: str
    text: str  # a JSON object, without the value of any secret


class WantedLines(msgspec.Struct, frozen=True, kw_only=True):
    """`level`: this and what is worse. `session`: its id or how that begins. `words`: anywhere in
    the line, whatever their case."""

    level: int = logging.NOTSET
    session: str = ""
    words: str = ""

    def holds(self, line: KeptLine) -> bool:
        if line.level < self.level or not line.session.startswith(self.session):
            return False
        # As they are spelt in the line: a quote has a backslash before it there.
        spelt = json.dumps(self.words, ensure_ascii=False)[1:-1]
        return not spelt or spelt.casefold() in line.text.casefold()


class RecentLog(logging.Handler):
    """Owns the newest lines of this process. The log's own thread brings them; any other may read.

    Lines are dropped by their number and their length, never for a reader: one that is slow finds
    that it has missed some, and nobody waits for it.
    """

    def __init__(
        self, redact: Callable[[str], str], *, lines: int = MOST_LINES, chars: int = MOST_CHARS
    ) -> None:
        super().__init__()
        self.setFormatter(JsonLines(redact))
        self._most_lines, self._most_chars = lines, chars
        self._kept: deque[KeptLine] = deque()
        self._chars = 0
        self._newest = self._dropped = 0
        self._readers: list[LogReader] = []
        self._held = Lock()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = self.format(record)
        except Exception:  # noqa: BLE001 - anybody's `extra`: it must not end the log's thread
            self.handleError(record)
            return
        with self._held:
            self._keep(record, text)
            readers = [reader for reader in self._readers if not reader.told]
            for reader in readers:
                reader.told = True
        for reader in readers:
            reader.news()

    def _keep(self, record: logging.LogRecord, text: str) -> None:
        first = self._newest == 0
        self._newest = max(self._newest + 1, int(record.created * 1000))
        if first:  # whoever read another process before this one has missed how that ended
            self._dropped = self._newest - 1
        self._kept.append(KeptLine(self._newest, record.levelno, session_of(record), text))
        self._chars += len(text)
        while len(self._kept) > self._most_lines or self._chars > self._most_chars:
            gone = self._kept.popleft()
            self._chars -= len(gone.text)
            self._dropped = gone.number

    @property
    def newest(self) -> int:
        """The number of the last line; 0: there is none."""
        return self._newest

    def before(self, number: int | None, wanted: WantedLines, *, limit: int) -> list[KeptLine]:
        """The last that are wanted, or the last before that line; the oldest of them first."""
        with self._held:
            lines = list(self._kept)
        earlier = (line for line in reversed(lines) if number is None or line.number < number)
        return list(islice(filter(wanted.holds, earlier), limit))[::-1]

    @contextmanager
    def read(self, wanted: WantedLines, *, after: int, news: News) -> Iterator["LogReader"]:
        """Read what comes after that line. `news` is called by the thread of the log, once for
        all there is until it is taken."""
        reader = LogReader(self, wanted, after=after, news=news)
        with self._held:
            self._readers.append(reader)
        try:
            yield reader
        finally:
            with self._held:
                self._readers.remove(reader)

    def take(self, reader: "LogReader", *, limit: int) -> tuple[list[KeptLine], bool]:
        """See `LogReader.take`."""
        with self._held:
            missed = 0 < reader.after < self._dropped
            fresh: list[KeptLine] = []
            for line in reversed(self._kept):
                if line.number <= reader.after:
                    break
                fresh.append(line)
            fresh = fresh[::-1][:limit]
            reader.after = fresh[-1].number if fresh else self._newest
            reader.told = reader.after < self._newest
        return [line for line in fresh if reader.wanted.holds(line)], missed


class LogReader:
    """How far one reader has come; `told`: it knows that there is more."""

    __slots__ = ("_log", "after", "news", "told", "wanted")

    def __init__(self, log: RecentLog, wanted: WantedLines, *, after: int, news: News) -> None:
        self._log = log
        self.wanted = wanted
        self.after = after
        self.news = news
        self.told = False

    def take(self, *, limit: int) -> tuple[list[KeptLine], bool]:
        """The next lines that are wanted, of at most so many; and whether some before them are not
        kept any more. `told` says afterwards whether there is more to take."""
        return self._log.take(self, limit=limit)

"""Logging: text lines on a terminal, JSON lines in a file, and the newest lines in memory.

A thread of its own writes the lines, so the event loop never waits for them.
"""

import copy
import json
import logging
import logging.handlers
import os
import queue
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any, TextIO

import msgspec

from holdfast.core.config.settings import LogSettings, Settings
from holdfast.system.paths import private_dir

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_COLOURS = {"DEBUG": "\033[2m", "WARNING": "\033[33m", "ERROR": "\033[31m", "CRITICAL": "\033[31m"}
_DIM, _PLAIN = "\033[2m", "\033[0m"
# A record may quote untrusted text: a terminal must not interpret its control characters.
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
del _CONTROLS[ord("\n")], _CONTROLS[ord("\t")]


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, then the fields of `extra`."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        super().__init__()
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields = {
            "time": time,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_extra_fields(record),
        }
        if trace := _traceback_text(self, record):
            fields["exception"] = trace
        # Before encoding: in JSON a secret with a quote or an umlaut is spelled differently.
        return json.dumps(_redact_values(fields, self._redact), ensure_ascii=False, default=str)


class TextFormatter(logging.Formatter):
    """The time, the message and its fields, in colours. Nested fields are left out: they would
    hide the message."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        super().__init__()
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        colour = _COLOURS.get(record.levelname, "")
        fields = _extra_fields(record).items()
        extra = " ".join(f"{name}={value}" for name, value in fields if not isinstance(value, dict))
        line = f"{_DIM}{time}{_PLAIN} {colour}{_escape_controls(record.getMessage())}{_PLAIN}"
        if extra:
            line += f"  {_DIM}{_escape_controls(extra)}{_PLAIN}"
        if trace := _traceback_text(self, record):
            line += "\n" + _escape_controls(trace)
        return self._redact(line)


def _escape_controls(text: str) -> str:
    return text.translate(_CONTROLS)


def record_session(record: logging.LogRecord) -> str:
    """The session of a record, from its extra fields; "": none."""
    fields = vars(record)
    return str(fields.get("session") or fields.get("session_id") or "")


def _extra_fields(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


def _traceback_text(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    if record.exc_info and not record.exc_text:
        return formatter.formatException(record.exc_info)
    return record.exc_text or ""


def _redact_values(value: Any, redact: Callable[[str], str]) -> Any:
    match value:
        case str():
            return redact(str(value))
        case dict():
            return {str(name): _redact_values(item, redact) for name, item in value.items()}
        case list() | tuple():
            return [_redact_values(item, redact) for item in value]
        case int() | float() | bool() | None:
            return value
    return redact(str(value))


QUEUE_LENGTH = 20_000
MAX_LINES = 2_000  # in memory
MAX_CHARS = 2_000_000  # of all of them: one line may have a long traceback
_MEGABYTE = 1_000_000
_LOGGER_NAME = "holdfast"

RecordQueue = queue.Queue[logging.LogRecord]
Flush = Callable[[float], bool]
LogCallback = Callable[[], None]


@contextmanager
def logging_to(
    file: Path,
    settings: LogSettings,
    *,
    redact: Callable[[str], str],
    stream: TextIO | None = None,
    unattended: bool = False,
    recent: logging.Handler | None = None,
) -> Iterator[Flush]:
    """Log to `stream` (standard error) and to `file` while the context is open; `unattended`: to
    the file only, if there is one, since the stream is not read and would only grow. `recent` also
    gets every record, from the thread that writes.

    Every text passes `redact` before it is written. A thread writes the lines; when it cannot keep
    up, lines are dropped and their number is logged. Leaving the context writes what is queued; the
    yielded function does that earlier.
    """
    handlers = _make_handlers(file, settings, redact=redact, stream=stream or sys.stderr)
    if unattended:
        handlers = handlers[-1:]
    if recent is not None:
        handlers.append(recent)
    records = RecordQueue(QUEUE_LENGTH)
    front = _NonBlockingHandler(records)
    listener = logging.handlers.QueueListener(records, *handlers)
    root, ours = logging.getLogger(), logging.getLogger(_LOGGER_NAME)
    before = root.level, ours.level
    root.setLevel(logging.WARNING)
    ours.setLevel(settings.level.upper())
    root.addHandler(front)
    listener.start()
    try:
        yield partial(_wait_until_written, records)
    finally:
        root.removeHandler(front)
        listener.stop()
        for handler in handlers:
            handler.close()
        root.setLevel(before[0])
        ours.setLevel(before[1])


def apply_log_level(settings: Settings) -> None:
    """Log from this level on from now on."""
    logging.getLogger(_LOGGER_NAME).setLevel(settings.log.level.upper())


def _wait_until_written(records: RecordQueue, timeout: float) -> bool:
    """True once everything logged is written; False after `timeout`."""
    with records.all_tasks_done:
        return records.all_tasks_done.wait_for(lambda: not records.unfinished_tasks, timeout)


def _make_handlers(
    file: Path, settings: LogSettings, *, redact: Callable[[str], str], stream: TextIO
) -> list[logging.Handler]:
    console = logging.StreamHandler(stream)
    console.setFormatter(TextFormatter(redact) if stream.isatty() else JsonFormatter(redact))
    if not settings.files:
        return [console]
    private_dir(file.parent)
    rotated = _PrivateLogFile(
        file, maxBytes=settings.file_mb * _MEGABYTE, backupCount=settings.files, encoding="utf-8"
    )
    rotated.setFormatter(JsonFormatter(redact))
    return [console, rotated]


class _NonBlockingHandler(logging.handlers.QueueHandler):
    """The handler of the root logger: it queues records and never blocks."""

    def __init__(self, records: RecordQueue) -> None:
        super().__init__(records)
        self._records = records
        self._dropped = 0

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        # Arguments may change after the call, and a traceback holds its frames: both become
        # text now. The base class would merge the traceback into the message.
        record = copy.copy(record)
        record.msg = record.getMessage()
        record.args = None
        if record.exc_info and not record.exc_text:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        record.exc_info = None
        return record

    def enqueue(self, record: logging.LogRecord) -> None:
        try:
            if self._dropped:
                self._records.put_nowait(_dropped_record(self._dropped))
                self._dropped = 0
            self._records.put_nowait(record)
        except queue.Full:
            self._dropped += 1


def _dropped_record(count: int) -> logging.LogRecord:
    text = f"{count} log lines were dropped: the log could not be written fast enough."
    fields = {"action": "log_dropped", "count": count}
    return logging.makeLogRecord(
        {"name": __name__, "levelno": logging.WARNING, "levelname": "WARNING", "msg": text} | fields
    )


class _PrivateLogFile(logging.handlers.RotatingFileHandler):
    """A rotated file with mode 0600; a failure to write is reported once, on stderr."""

    _error_reported = False

    def _open(self) -> TextIOWrapper:
        fd = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        return TextIOWrapper(os.fdopen(fd, "ab"), encoding=self.encoding)

    def handleError(self, record: logging.LogRecord) -> None:
        if not self._error_reported:
            self._error_reported = True
            print(f"{self.baseFilename} cannot be written: {sys.exc_info()[1]}", file=sys.stderr)


class RecentLogLine(msgspec.Struct, frozen=True):
    """`number` orders lines across restarts too: it is the time of the line in milliseconds, or the
    next free number."""

    number: int
    level: int
    session: str
    text: str  # a JSON object, without the value of any secret


class RecentLogFilter(msgspec.Struct, frozen=True, kw_only=True):
    """`level`: this and higher ones. `session`: an id or a prefix of one. `text`: anywhere in the
    line, ignoring case."""

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
    """Owns the newest lines of this process. The log thread adds them; any thread may read.

    Old lines are dropped by number and size, whether they were read or not: a slow reader finds
    that it has missed some.
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
        except Exception:  # noqa: BLE001 - `extra` may hold anything: it must not end the log thread
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
        if first:  # a reader of the previous process has missed the end of its log
            self._dropped = self._newest - 1
        self._lines.append(
            RecentLogLine(self._newest, record.levelno, record_session(record), text)
        )
        self._chars += len(text)
        while len(self._lines) > self._max_lines or self._chars > self._max_chars:
            dropped = self._lines.popleft()
            self._chars -= len(dropped.text)
            self._dropped = dropped.number

    @property
    def newest(self) -> int:
        """The number of the last line; 0: there is none."""
        return self._newest

    def before(
        self, number: int | None, line_filter: RecentLogFilter, *, limit: int
    ) -> list[RecentLogLine]:
        """The last matching lines, or the last before that line; the oldest first."""
        with self._lines_lock:
            lines = list(self._lines)
        earlier = (line for line in reversed(lines) if number is None or line.number < number)
        return list(islice(filter(line_filter.matches, earlier), limit))[::-1]

    @contextmanager
    def subscribe(
        self, line_filter: RecentLogFilter, *, after: int, on_lines: LogCallback
    ) -> Iterator["LogSubscription"]:
        """Read the lines after that one. The log thread calls `on_lines` once for all new lines,
        until they are taken."""
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
    """The position of one reader; `notified`: it knows that there are new lines."""

    __slots__ = ("_log", "after", "line_filter", "notified", "on_lines")

    def __init__(
        self, log: RecentLog, line_filter: RecentLogFilter, *, after: int, on_lines: LogCallback
    ) -> None:
        self._log = log
        self.line_filter = line_filter
        self.after = after
        self.on_lines = on_lines
        self.notified = False

    def take(self, *, limit: int) -> tuple[list[RecentLogLine], bool]:
        """The matching lines among the next `limit` ones, and whether some before them were
        dropped. `notified` says afterwards whether there are more."""
        return self._log.take(self, limit=limit)

"""Logs: sentences for people on a terminal, JSON lines for programs, never in the loop's way."""

import copy
import logging
import logging.handlers
import os
import queue
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

from holdfast.core.config.settings import LogSettings, Settings
from holdfast.system.log_lines import JsonFormatter, TextFormatter
from holdfast.system.paths import private_dir

QUEUE_LENGTH = 20_000
_MEGABYTE = 1_000_000
_LOGGER_NAME = "holdfast"

RecordQueue = queue.Queue[logging.LogRecord]
Flush = Callable[[float], bool]


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
    the file alone, where there is one, for nobody reads the stream and it would only grow.
    `recent` gets every record, too, from the thread that writes.

    Every text passes `redact` before it is written. Lines are written by a thread of their own;
    when it cannot keep up, lines are dropped and their number is logged. What was queued when
    the context closes is written first; the function that is given writes it before.
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
    """From now on so much is logged."""
    logging.getLogger(_LOGGER_NAME).setLevel(settings.log.level.upper())


def _wait_until_written(records: RecordQueue, timeout: float) -> bool:
    """True once all that was logged is written; False if that takes longer."""
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
    """The handler that the program meets: it hands records over and never waits."""

    def __init__(self, records: RecordQueue) -> None:
        super().__init__(records)
        self._records = records
        self._dropped = 0

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        # Arguments may change after the call, and a traceback holds its frames: both become
        # text now. The base class would melt the traceback into the message.
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
    """A rotated file for its owner alone; when it cannot be written it says so, once."""

    _error_reported = False

    def _open(self) -> TextIOWrapper:
        fd = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        return TextIOWrapper(os.fdopen(fd, "ab"), encoding=self.encoding)

    def handleError(self, record: logging.LogRecord) -> None:
        if not self._error_reported:
            self._error_reported = True
            print(f"{self.baseFilename} cannot be written: {sys.exc_info()[1]}", file=sys.stderr)

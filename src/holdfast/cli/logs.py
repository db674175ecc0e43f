"""`holdfast logs`: reads and follows the gateway's log file across rotation."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, count
from pathlib import Path
from typing import Any, BinaryIO

import click

from holdfast.cli.common.options import chosen_home, home_option
from holdfast.cli.common.output import sanitize
from holdfast.core.errors import HoldfastError
from holdfast.core.text.translation import _
from holdfast.system.paths import Paths

LEVELS = ("debug", "info", "warning", "error")


@click.command("logs")
@home_option
@click.option("-f", "--follow", is_flag=True, help="Keep printing new lines, until Ctrl-C.")
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(0),
    default=50,
    show_default=True,
    help="Print the last this many lines.",
)
@click.option(
    "--level",
    type=click.Choice(LEVELS),
    default="debug",
    show_default=True,
    help="Print this level and more severe ones.",
)
@click.option("--session", metavar="ID", help="Print only lines about this session.")
@click.option("--json", "as_json", is_flag=True, help="Print the lines as they are in the file.")
def command(follow: bool, lines: int, level: str, session: str | None, as_json: bool) -> None:
    """Read the gateway's log, also while no gateway is running.

    \b
    Examples:
      holdfast logs -n 100 --level warning
      holdfast logs -f --session s_0199a
    """
    path = Paths(chosen_home()).log_file
    log_filter = LogFileFilter(levels=LEVELS[LEVELS.index(level) :], session=session)
    log = LogFileReader(path)
    shown = log.last_lines(lines, log_filter)
    if not shown and not follow:
        click.echo(_explain_empty(path), err=True)
    with suppress(KeyboardInterrupt):  # the way to end it
        for line in chain(shown, log.follow(log_filter) if follow else ()):
            click.echo(line.text if as_json else format_log_line(line))


def _explain_empty(path: Path) -> str:
    if not path.exists():
        return _("There is no log in {folder} yet: no gateway has run in this home.").format(
            folder=path.parent
        )
    return _("No line of the log matches.")


_POLL_SECONDS = 0.25
_BLOCK_SIZE = 1 << 16


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of the file and its fields; a line that is not JSON has no fields."""

    text: str
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFileFilter:
    levels: tuple[str, ...]
    session: str | None = None

    def matches(self, line: LogLine) -> bool:
        level = line.fields.get("level", self.levels[-1])
        if level not in (*self.levels, "critical"):
            return False
        return self.session is None or self._is_about(line, self.session)

    def _is_about(self, line: LogLine, session: str) -> bool:
        named = (line.fields.get("session"), line.fields.get("session_id"))
        return any(str(name).startswith(session) for name in named if name)


class LogFileReader:
    """Owns the open log file. `last_lines` has what was written before the reader was created,
    `follow` what is written after: no line is missing or in both."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = _open(path)
        self._end = self._file.seek(0, os.SEEK_END) if self._file else 0

    def last_lines(self, number: int, log_filter: LogFileFilter) -> list[LogLine]:
        """The newest lines that match, the oldest of them first."""
        found: list[LogLine] = []
        for line in self._read_backwards() if number else ():
            if log_filter.matches(line):
                found.append(line)
            if len(found) == number:
                break
        return found[::-1]

    def follow(self, log_filter: LogFileFilter) -> Iterator[LogLine]:
        """Yields new lines; never ends.

        Polls four times a second: the standard library cannot watch a file, and polling by a
        command that a person watches costs less than one more dependency.
        """
        if self._file is not None:
            self._file.seek(self._end)
        rest = b""
        while True:
            # Checked before reading: a rotated file gets no more lines.
            rotated = self._file is None or _is_rotated(self._path, self._file)
            written = self._file.read() if self._file is not None else b""
            *lines, rest = (rest + written).split(b"\n")
            yield from filter(log_filter.matches, map(_parse_line, filter(None, lines)))
            if not written:
                if rotated:
                    self._file = _reopen(self._path, self._file)
                time.sleep(_POLL_SECONDS)

    def _read_backwards(self) -> Iterator[LogLine]:
        """Every line, newest first; after the log itself, the rotated files."""
        if self._file is not None:
            yield from map(_parse_line, filter(None, _lines_backwards(self._file, self._end)))
        for number in count(1):
            older = _open(self._path.with_name(f"{self._path.name}.{number}"))
            if older is None:
                return
            with older:
                end = older.seek(0, os.SEEK_END)
                yield from map(_parse_line, filter(None, _lines_backwards(older, end)))


def _is_rotated(path: Path, file: BinaryIO) -> bool:
    """Whether the open file is no longer the log: it was renamed or truncated."""
    here = os.fstat(file.fileno())
    try:
        there = path.stat()
    except FileNotFoundError:
        return False  # in the middle of a rotation: the next poll decides
    return here.st_ino != there.st_ino or there.st_size < file.tell()


def _reopen(path: Path, file: BinaryIO | None) -> BinaryIO | None:
    opened = _open(path)
    if file is not None and opened is not None:
        file.close()
    return opened or file


def _open(path: Path) -> BinaryIO | None:
    try:
        return path.open("rb")
    except FileNotFoundError:
        return None
    except PermissionError:
        raise HoldfastError(
            "No permission to read {file}. Run this as the user who runs the gateway.", file=path
        ) from None


def _lines_backwards(file: BinaryIO, position: int) -> Iterator[bytes]:
    rest = b""
    while position > 0:
        position, size = max(0, position - _BLOCK_SIZE), min(_BLOCK_SIZE, position)
        file.seek(position)
        rest, *lines = (file.read(size) + rest).split(b"\n")
        yield from reversed(lines)
    yield rest


def _parse_line(raw: bytes) -> LogLine:
    text = raw.decode("utf-8", "replace")
    try:
        fields = json.loads(text)
    except json.JSONDecodeError:
        fields = {}
    return LogLine(text, fields if isinstance(fields, dict) else {})


_COLOURS = {"warning": "yellow", "error": "red", "critical": "red"}
_PLACED_FIELDS = frozenset({"time", "level", "logger", "message", "exception", "action"})


def format_log_line(line: LogLine) -> str:
    fields = line.fields
    if "message" not in fields:
        return sanitize(line.text)
    level = str(fields.get("level", ""))
    sentence = click.style(
        sanitize(str(fields["message"])), fg=_COLOURS.get(level), dim=level == "debug"
    )
    about = " ".join(
        f"{name}={value}" for name, value in fields.items() if name not in _PLACED_FIELDS
    )
    parts = [click.style(_format_timestamp(str(fields.get("time", ""))), dim=True), sentence]
    if about:
        parts.append(click.style(sanitize(about), dim=True))
    shown = "  ".join(parts)
    return f"{shown}\n{sanitize(str(fields['exception']))}" if fields.get("exception") else shown


def _format_timestamp(time: str) -> str:
    try:
        return datetime.fromisoformat(time).astimezone().strftime("%m-%d %H:%M:%S")
    except ValueError:
        return time

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
from holdfast.system.paths import Paths

LEVELS = ("debug", "info", "warning", "error")


@click.command("logs")
@home_option
@click.option("-f", "--follow", is_flag=True, help="Go on with what is written from now on.")
@click.option(
    "-n", "--lines", type=click.IntRange(0), default=50, show_default=True, help="How many."
)
@click.option("--level", type=click.Choice(LEVELS), default="debug", help="This and what is worse.")
@click.option("--session", metavar="ID", help="Only what concerns this session.")
@click.option("--json", "as_json", is_flag=True, help="The lines as they are written.")
def command(follow: bool, lines: int, level: str, session: str | None, as_json: bool) -> None:
    """Read the gateway's log; no gateway has to run for that.

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
        return f"There is no log in {path.parent} yet: no gateway has run in this home."
    return "Nothing in the log is like that."


_POLL_SECONDS = 0.25
_BLOCK_SIZE = 1 << 16


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line as it is written, and what it says; one that is not JSON says only itself."""

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
    """Owns the open file of a log: `last` is what was written before this was made, `following`
    what is written after, without a line between them or in both."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = _open(path)
        self._end = self._file.seek(0, os.SEEK_END) if self._file else 0

    def last_lines(self, number: int, log_filter: LogFileFilter) -> list[LogLine]:
        """The newest lines that are wanted, oldest of them first."""
        found: list[LogLine] = []
        for line in self._read_backwards() if number else ():
            if log_filter.matches(line):
                found.append(line)
            if len(found) == number:
                break
        return found[::-1]

    def follow(self, log_filter: LogFileFilter) -> Iterator[LogLine]:
        """Without end.

        It looks four times a second: the standard library has no way to be told of a write, and
        a command that a person watches costs less by looking than by one more dependency.
        """
        if self._file is not None:
            self._file.seek(self._end)
        rest = b""
        while True:
            # Before it is read: a file that was moved aside gets no more lines.
            rotated = self._file is None or _is_rotated(self._path, self._file)
            written = self._file.read() if self._file is not None else b""
            *lines, rest = (rest + written).split(b"\n")
            yield from filter(log_filter.matches, map(_parse_line, filter(None, lines)))
            if not written:
                if rotated:
                    self._file = _reopen(self._path, self._file)
                time.sleep(_POLL_SECONDS)

    def _read_backwards(self) -> Iterator[LogLine]:
        """Every line, the newest first, then those of the files that were rotated away."""
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
    """Whether what is read is not the log any more: moved aside, or begun anew."""
    here = os.fstat(file.fileno())
    try:
        there = path.stat()
    except FileNotFoundError:
        return False  # between two names: the next look knows
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
            f"{path} may not be read by this user; ask as the user who runs the gateway."
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

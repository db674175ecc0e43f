"""Prints results: JSON for programs, tables and progress bars for people, text made safe for a terminal.

Imports click and the standard library only: `root` and `status` depend on it.
"""

import io
import os
import sys
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TextIO

import click

from holdfast.core.errors import HoldfastError


def display_width(text: str) -> int:
    """How many columns a terminal gives to a text."""
    if text.isascii():
        return len(text)
    return sum(_char_width(character) for character in text)


def truncate(text: str, columns: int) -> str:
    """The text, or its beginning and a mark that there was more."""
    if display_width(text) <= columns:
        return text
    kept, left = [], columns - 1
    for character in text:
        left -= _char_width(character)
        if left < 0:
            break
        kept.append(character)
    return "".join(kept) + "…" if columns > 0 else ""


def _char_width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("F", "W") else 1


def replace_unencodable() -> None:
    """From now on, what this terminal has no letter for is shown as `?`, and what comes in and is
    no text is taken as such a mark. Without it either is an exception wherever it happens to be."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        # Under the C locale bytes are passed in as they are, to fail in the first request.
        if isinstance(stream, io.TextIOWrapper) and (
            stream.errors == "strict" or stream is sys.stdin
        ):
            stream.reconfigure(errors="replace")


def find_undecodable(words: Sequence[str]) -> str | None:
    """The first word of a command line that is no text in the encoding of the shell, with its bytes
    written out; None: all of them are."""
    odd = (os.fsencode(word) for word in words if _has_surrogates(word))
    return next((word.decode("utf-8", "backslashreplace") for word in odd), None)


def can_encode_all(stream: object) -> bool:
    """Whether a stream has a letter for whatever is written to it."""
    return not isinstance(stream, io.TextIOWrapper) or "utf" in stream.encoding.lower()


def _has_surrogates(word: str) -> bool:
    # What could not be decoded stands there as a lone surrogate (PEP 383).
    return any("\udc80" <= letter <= "\udcff" for letter in word)


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")


def print_json(document: object) -> None:
    import json  # noqa: PLC0415 - not for who reads a table

    # A program is given `\u2713` where the stream has no letter for it, and never a `?`.
    escaped = not can_encode_all(sys.stdout)
    click.echo(json.dumps(document, indent=2, ensure_ascii=escaped))


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns as wide as they need to be; on a terminal, lines end where it does, with a mark."""
    widths = [max(display_width(row[i]) for row in [headers, *rows]) for i in range(len(headers))]
    limit = _terminal_width() if sys.stdout.isatty() else None
    for index, row in enumerate([headers, *rows]):
        cells = (
            cell + " " * (room - display_width(cell))
            for cell, room in zip(row, widths, strict=True)
        )
        line = "  ".join(cells).rstrip()
        line = line if limit is None else truncate(line, limit)
        click.echo(click.style(line, bold=True) if index == 0 else line)


def _terminal_width() -> int:
    from shutil import get_terminal_size  # noqa: PLC0415 - every way to pack files comes with it

    return get_terminal_size().columns


def wrap_text(text: str) -> str:
    """For a person to read: broken between words. An address stays whole, to be clicked on."""
    from textwrap import fill  # noqa: PLC0415 - for sentences alone

    room = _terminal_width()
    lines = text.splitlines()
    return "\n".join(
        fill(line, room, break_long_words=False, break_on_hyphens=False) for line in lines
    )


def print_fields(fields: Sequence[tuple[str, str]]) -> None:
    longest = max(len(name) for name, _ in fields)
    for name, value in fields:
        click.echo(f"  {click.style(name.ljust(longest), dim=True)}  {value}")


def format_time(seconds: float | None) -> str:
    """A time of day as people write it here."""
    if seconds is None:
        return ""
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S")


def format_duration(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.1f} s"


def format_size(bytes_: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if bytes_ < 1000 or unit == "GB":
            return f"{bytes_:.0f} {unit}" if unit == "B" else f"{bytes_:.1f} {unit}"
        bytes_ /= 1000
    raise AssertionError("the last unit takes all")


def format_count(number: float) -> str:
    """A count that need not be exact."""
    for unit in ("", " k", " M"):
        if number < 1000 or unit == " M":
            return f"{number:.0f}" if not unit else f"{number:.1f}{unit}"
        number /= 1000
    raise AssertionError("the last unit takes all")


def format_value(value: Any) -> str:
    """A value on one line. Of a table, what is nought is left out, and its name leads."""
    if isinstance(value, dict):
        return _format_dict(value)
    if isinstance(value, list):
        return ", ".join(format_value(item) for item in value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _format_dict(table: dict[str, Any]) -> str:
    told = {name: item for name, item in table.items() if item not in (0, None, "")}
    name = told.pop("name", None)
    rest = ", ".join(f"{key} {format_value(item)}" for key, item in told.items())
    if name is None:
        return rest or "none"
    return f"{name} ({rest})" if rest else str(name)


# It must not move the cursor, set a title or answer for the user.
_CONTROL_CHARACTERS = {code: "\N{REPLACEMENT CHARACTER}" for code in [*range(32), *range(127, 160)]}
del _CONTROL_CHARACTERS[ord("\n")], _CONTROL_CHARACTERS[ord("\t")]
_CONTROL_CHARACTERS[ord("\r")] = ""


def sanitize(text: str) -> str:
    return text.translate(_CONTROL_CHARACTERS)


def is_dumb(out: TextIO) -> bool:
    """Whether nothing but plain lines can be written there."""
    return not out.isatty() or os.environ.get("TERM", "dumb") == "dumb"


def is_coloured(out: TextIO) -> bool:
    """Whether colours are shown there, and wanted (https://no-color.org)."""
    return not is_dumb(out) and not os.environ.get("NO_COLOR")


Advance = Callable[[int], None]

_BAR_STEPS = 1000


@contextmanager
def progress_bar(label: str, length: int) -> Iterator[Advance]:
    """A function to call with what was done since; nothing is shown where nobody looks."""
    if not sys.stderr.isatty() or length <= 0:
        yield lambda done: None
        return
    with click.progressbar(
        length=length, label=label.ljust(20), file=sys.stderr, update_min_steps=length // 200
    ) as shown:
        yield shown.update


@contextmanager
def ratio_progress_bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """The same for what is told as so much of so much."""
    with progress_bar(label, _BAR_STEPS) as advance:
        shown = 0

        def reached(done: int, of: int) -> None:
            nonlocal shown
            now = _BAR_STEPS * done // max(1, of)
            advance(now - shown)
            shown = now

        yield reached


def confirm(question: str) -> None:
    """Returns only where somebody said yes. A script that forgot to say so hears what to say."""
    try:
        click.confirm(question, abort=True, err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        click.echo(err=True)  # the question stands there without its end
        raise HoldfastError("Nobody said yes, and nothing was done; --yes says so.") from None

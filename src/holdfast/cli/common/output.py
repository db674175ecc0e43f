"""What a command prints: JSON where a program looks, a table where a person does."""

import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click

from holdfast.cli.common.columns import clipped, width
from holdfast.cli.common.letters import shows_everything

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")


def print_json(document: object) -> None:
    import json  # noqa: PLC0415 - not for who reads a table

    # A program is given `\u2713` where the stream has no letter for it, and never a `?`.
    escaped = not shows_everything(sys.stdout)
    click.echo(json.dumps(document, indent=2, ensure_ascii=escaped))


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns as wide as they need to be; on a terminal, lines end where it does, with a mark."""
    widths = [max(width(row[i]) for row in [headers, *rows]) for i in range(len(headers))]
    limit = _columns() if sys.stdout.isatty() else None
    for index, row in enumerate([headers, *rows]):
        cells = (cell + " " * (room - width(cell)) for cell, room in zip(row, widths, strict=True))
        line = "  ".join(cells).rstrip()
        line = line if limit is None else clipped(line, limit)
        click.echo(click.style(line, bold=True) if index == 0 else line)


def _columns() -> int:
    from shutil import get_terminal_size  # noqa: PLC0415 - every way to pack files comes with it

    return get_terminal_size().columns


def wrapped(text: str) -> str:
    """For a person to read: broken between words. An address stays whole, to be clicked on."""
    from textwrap import fill  # noqa: PLC0415 - for sentences alone

    room = _columns()
    lines = text.splitlines()
    return "\n".join(
        fill(line, room, break_long_words=False, break_on_hyphens=False) for line in lines
    )


def print_facts(facts: Sequence[tuple[str, str]]) -> None:
    longest = max(len(name) for name, _ in facts)
    for name, value in facts:
        click.echo(f"  {click.style(name.ljust(longest), dim=True)}  {value}")


def moment(seconds: float | None) -> str:
    """A time of day as people write it here."""
    if seconds is None:
        return ""
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S")


def duration(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.1f} s"


def size(bytes_: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if bytes_ < 1000 or unit == "GB":
            return f"{bytes_:.0f} {unit}" if unit == "B" else f"{bytes_:.1f} {unit}"
        bytes_ /= 1000
    raise AssertionError("the last unit takes all")


def amount(number: float) -> str:
    """A count that need not be exact."""
    for unit in ("", " k", " M"):
        if number < 1000 or unit == " M":
            return f"{number:.0f}" if not unit else f"{number:.1f}{unit}"
        number /= 1000
    raise AssertionError("the last unit takes all")


def brief(value: Any) -> str:
    """A value on one line. Of a table, what is nought is left out, and its name leads."""
    if isinstance(value, dict):
        return _brief_table(value)
    if isinstance(value, list):
        return ", ".join(brief(item) for item in value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _brief_table(table: dict[str, Any]) -> str:
    told = {name: item for name, item in table.items() if item not in (0, None, "")}
    name = told.pop("name", None)
    rest = ", ".join(f"{key} {brief(item)}" for key, item in told.items())
    if name is None:
        return rest or "none"
    return f"{name} ({rest})" if rest else str(name)

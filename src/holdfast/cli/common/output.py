"""What a command prints: JSON where a program looks, a table where a person does."""

import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click

from holdfast.cli.common.columns import display_width, truncate
from holdfast.cli.common.letters import can_encode_all

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

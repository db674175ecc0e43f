"""A log line as a person reads it: when, how bad, what, and what it is about."""

from datetime import datetime

import click

from holdfast.cli.common.harmless import sanitize
from holdfast.cli.log_file import LogLine

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

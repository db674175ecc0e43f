"""A log line as a person reads it: when, how bad, what, and what it is about."""

from datetime import datetime

import click

from holdfast.cli.common.harmless import safe
from holdfast.cli.log_file import LogLine

_COLOURS = {"warning": "yellow", "error": "red", "critical": "red"}
_TOLD = frozenset({"time", "level", "logger", "message", "exception", "action"})


def human(line: LogLine) -> str:
    fields = line.fields
    if "message" not in fields:
        return safe(line.text)
    level = str(fields.get("level", ""))
    sentence = click.style(
        safe(str(fields["message"])), fg=_COLOURS.get(level), dim=level == "debug"
    )
    about = " ".join(f"{name}={value}" for name, value in fields.items() if name not in _TOLD)
    parts = [click.style(_moment(str(fields.get("time", ""))), dim=True), sentence]
    if about:
        parts.append(click.style(safe(about), dim=True))
    shown = "  ".join(parts)
    return f"{shown}\n{safe(str(fields['exception']))}" if fields.get("exception") else shown


def _moment(time: str) -> str:
    try:
        return datetime.fromisoformat(time).astimezone().strftime("%m-%d %H:%M:%S")
    except ValueError:
        return time

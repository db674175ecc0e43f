"""How a log record is written down: a line for a person, or a JSON object for a program."""

import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_COLOURS = {"DEBUG": "\033[2m", "WARNING": "\033[33m", "ERROR": "\033[31m", "CRITICAL": "\033[31m"}
_DIM, _PLAIN = "\033[2m", "\033[0m"
# A record may quote what a stranger wrote, or a server: no terminal is to obey that.
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
del _CONTROLS[ord("\n")], _CONTROLS[ord("\t")]


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, then whatever `extra` brought."""

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
        # Before encoding: in JSON a secret with a quote or an umlaut is spelt differently.
        return json.dumps(_redact_values(fields, self._redact), ensure_ascii=False, default=str)


class TextFormatter(logging.Formatter):
    """The time, the sentence and its fields, in colours. Tables are for programs: they would
    bury the sentence."""

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
    """The session that a record says it is about; "": none."""
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

"""A systemd unit as it is installed: what it gives a gateway, read as systemd reads it."""

import math
import re
import shlex
from pathlib import Path

NAME = "holdfast.service"

_LEAST_STOP = 90.0
_CLEAN_UP = 30.0  # seconds that a stop may take besides waiting for turns
_USUAL_STOP = 90.0  # what systemd gives where a unit does not say
_UNITS = {
    "us": 1e-6,
    "ms": 1e-3,
    "": 1,
    "s": 1,
    "sec": 1,
    "m": 60,
    "min": 60,
    "h": 3600,
    "hr": 3600,
}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")


def places(user_home: Path) -> tuple[Path, ...]:
    """Where a unit of a gateway may be installed: for its owner alone, or for the machine."""
    return (user_home / ".config/systemd/user" / NAME, Path("/etc/systemd/system") / NAME)


def stop_seconds_needed(*, drain: float, park: float) -> float:
    """So long that a supervisor can never kill a gateway while it cleans up."""
    return max(_LEAST_STOP, drain + park + _CLEAN_UP)


def stop_seconds(text: str) -> float | None:
    """What the unit gives a stop; None: it says something that is no time."""
    value = _last(text, "TimeoutStopSec")
    return _USUAL_STOP if value is None else _seconds(value)


def program(text: str) -> str | None:
    """What the unit starts; None: it does not say, or not so that it can be read."""
    try:
        words = shlex.split(_last(text, "ExecStart") or "")
    except ValueError:
        return None
    return words[0].lstrip("@-:+!") if words else None


def _last(text: str, key: str) -> str | None:
    """Of several lines the last counts, as systemd has it."""
    found = [line.partition("=") for line in text.splitlines()]
    values = [value.strip() for name, _, value in found if name.strip() == key]
    return values[-1] if values else None


def _seconds(value: str) -> float | None:
    """A span of time: "90", "1min 30s", "infinity"."""
    if value == "infinity":
        return math.inf
    parts = _PART.findall(value)
    if not parts or any(unit not in _UNITS for _, unit in parts):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in parts)

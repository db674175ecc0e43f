"""A systemd unit as it is installed: what it gives a gateway, read as systemd reads it."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from holdfast.service.supervisors import systemd_words
from holdfast.service.supervisors.systemd_unit import EXEC_SHELL

_DEFAULT_STOP_SECONDS = 90.0  # what systemd gives where a unit does not say
_TIME_UNITS = {
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
_TIME_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")
_NAMED_STATUSES = {"TEMPFAIL": 75, "CONFIG": 78}  # names that systemd has for ours


def read_unit_text(file: Path) -> str:
    """The unit with what `systemctl edit` put over it, in the order in which it counts."""
    parts = sorted(file.with_name(f"{file.name}.d").glob("*.conf"))
    return "\n".join(part.read_text(encoding="utf-8", errors="replace") for part in [file, *parts])


def get_value(text: str, key: str) -> str | None:
    """Of several lines the last counts; None: it does not say."""
    return next(iter(reversed(_get_values(text, key))), None)


def parse_stop_seconds(text: str) -> float | None:
    """What the unit gives a stop; None: it says something that is no time."""
    given = get_value(text, "TimeoutStopSec")
    return _DEFAULT_STOP_SECONDS if given is None else _parse_seconds(given)


def parse_command(text: str, *, specifiers: Mapping[str, str] | None = None) -> list[str]:
    """What the unit starts, program and arguments; []: nothing, or nothing that can be read."""
    try:
        words = systemd_words.split_words(get_value(text, "ExecStart") or "", specifiers=specifiers)
    except ValueError:
        return []
    if not words:
        return []
    program, *arguments = words
    found = [program.lstrip("@-:+!|"), *map(systemd_words.unescape_variables, arguments)]
    return found[len(EXEC_SHELL) :] if tuple(found[: len(EXEC_SHELL)]) == EXEC_SHELL else found


def parse_home(text: str) -> Path | None:
    """The home that the unit's gateway is told to have; None: it is not told any."""
    found = parse_environment(text).get("HOLDFAST_HOME")
    return home_from_command(parse_command(text)) or (Path(found) if found else None)


def home_from_command(words: Sequence[str]) -> Path | None:
    """The home that a command line names."""
    told = [after for word, after in pairwise(words) if word == "--home"]
    told += [word.removeprefix("--home=") for word in words if word.startswith("--home=")]
    return Path(told[-1]) if told else None


def parse_environment(text: str) -> dict[str, str]:
    try:
        words = [
            word
            for line in _get_values(text, "Environment")
            for word in systemd_words.split_words(line)
        ]
    except ValueError:
        return {}
    pairs = (word.partition("=") for word in words)
    return {name: told for name, _, told in pairs}


def parse_exit_statuses(text: str, key: str) -> set[int]:
    """Exit codes that a list of them names; names of signals are left out."""
    words = " ".join(_get_values(text, key)).split()
    named = {_NAMED_STATUSES[word] for word in words if word in _NAMED_STATUSES}
    return named | {int(word) for word in words if word.isdigit()}


def _get_values(text: str, key: str) -> list[str]:
    """All values of a key; an empty one takes back those before it, as systemd has it."""
    found: list[str] = []
    for line in _logical_lines(text):
        name, equals, told = line.partition("=")
        told = told.strip(" \t\r")
        if equals and name.strip() == key:
            found = [*found, told] if told else []
    return found


def _logical_lines(text: str) -> Iterator[str]:
    """Lines with what continues them; comments are none, also between continued ones."""
    kept = ""
    for line in text.split("\n"):
        if line.lstrip().startswith(("#", ";")):
            continue
        if line.endswith("\\"):
            kept += line[:-1] + " "
            continue
        yield kept + line
        kept = ""
    if kept:
        yield kept


def _parse_seconds(value: str) -> float | None:
    """A span of time: "90", "1min 30s", "infinity"."""
    if value == "infinity":
        return math.inf
    parts = _TIME_PART.findall(value)
    if not parts or any(unit not in _TIME_UNITS for _, unit in parts):
        return None
    return sum(float(number) * _TIME_UNITS[unit] for number, unit in parts)

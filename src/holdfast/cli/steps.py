"""A tool call on one line: what was called with what, and how it went."""

import json
from typing import Any

from holdfast.core.message import Outcome

_TELLING = ("command", "path", "url", "pattern", "query", "id", "text")
_COLOURS = {Outcome.OK: "green", Outcome.ERROR: "red"}


def folded(name: str, arguments: str) -> str:
    """`terminal: ls -la`: the tool and the argument that tells most."""
    told = _told(arguments)
    return f"▸ {name}: {told}" if told else f"▸ {name}"


def verdict(outcome: Outcome, seconds: float | None) -> tuple[str, str]:
    """The end of that line, and its colour."""
    took = "" if seconds is None else f" {_took(seconds)}"
    return f"… {outcome.replace('_', ' ')}{took}", _COLOURS.get(outcome, "yellow")


def last_line(output: str) -> str:
    lines = output.rstrip().splitlines()
    return lines[-1].strip() if lines else ""


def _told(arguments: str) -> str:
    try:
        given = json.loads(arguments or "{}")
    except json.JSONDecodeError:
        return _one_line(arguments)
    if not isinstance(given, dict):
        return _one_line(arguments)
    if isinstance(given.get("tasks"), list):
        return _one_line(" · ".join(_task(each) for each in given["tasks"]))
    telling = [str(given[name]) for name in _TELLING if given.get(name)]
    action = [str(given.pop("action"))] if given.get("action") else []
    return _one_line(" ".join([*action, *(telling[:1] or _scalars(given))]))


def _scalars(given: dict[str, Any]) -> list[str]:
    return [str(value) for value in given.values() if isinstance(value, str | int | float)][:2]


def _task(task: object) -> str:
    return str(task.get("task", "")) if isinstance(task, dict) else str(task)


def _one_line(text: str) -> str:
    lines = text.strip().splitlines()
    first = lines[0][:200] if lines else ""
    return f"{first} …" if len(lines) > 1 else first


def _took(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds / 60:.0f} min"

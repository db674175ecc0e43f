"""A tool call on one line: what was called, with the argument that tells most."""

from typing import Any

import msgspec

_TELLING = ("command", "path", "url", "pattern", "query", "id", "text")
_LONGEST = 200


def told_in_a_line(arguments: str) -> str:
    """What a call is about; "" where its arguments tell nothing."""
    try:
        given = msgspec.json.decode(arguments or "{}")
    except msgspec.DecodeError:
        return _one_line(arguments)
    if not isinstance(given, dict):
        return _one_line(arguments)
    if isinstance(given.get("tasks"), list):
        return _one_line(" · ".join(_task(each) for each in given["tasks"]))
    telling = [str(given[name]) for name in _TELLING if given.get(name)]
    action = [str(given.pop("action"))] if given.get("action") else []
    return _one_line(" ".join([*action, *(telling[:1] or _scalars(given))]))


def _one_line(text: str) -> str:
    lines = text.strip().splitlines()
    first = lines[0][:_LONGEST] if lines else ""
    return f"{first} …" if len(lines) > 1 else first


def _scalars(given: dict[str, Any]) -> list[str]:
    return [str(value) for value in given.values() if isinstance(value, str | int | float)][:2]


def _task(task: object) -> str:
    return str(task.get("task", "")) if isinstance(task, dict) else str(task)

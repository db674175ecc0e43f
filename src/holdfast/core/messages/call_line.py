"""A tool call on one line: what was called, with the argument that tells most."""

from typing import Any

import msgspec

_KEY_ARGUMENTS = ("command", "path", "url", "pattern", "query", "id", "text")
_MAX_LINE_LENGTH = 200


def summarise_arguments(arguments: str) -> str:
    """What a call is about; "" where its arguments tell nothing."""
    try:
        given = msgspec.json.decode(arguments or "{}")
    except msgspec.DecodeError:
        return _first_line(arguments)
    if not isinstance(given, dict):
        return _first_line(arguments)
    if isinstance(given.get("tasks"), list):
        return _first_line(" · ".join(_task_text(each) for each in given["tasks"]))
    telling = [str(given[name]) for name in _KEY_ARGUMENTS if given.get(name)]
    action = [str(given.pop("action"))] if given.get("action") else []
    return _first_line(" ".join([*action, *(telling[:1] or _scalar_values(given))]))


def _first_line(text: str) -> str:
    lines = text.strip().splitlines()
    first = lines[0][:_MAX_LINE_LENGTH] if lines else ""
    return f"{first} …" if len(lines) > 1 else first


def _scalar_values(given: dict[str, Any]) -> list[str]:
    return [str(value) for value in given.values() if isinstance(value, str | int | float)][:2]


def _task_text(task: object) -> str:
    return str(task.get("task", "")) if isinstance(task, dict) else str(task)

"""`holdfast config show`: every key, and beside it what a running gateway still has in force."""

import json
from pathlib import Path
from typing import Any

import msgspec

from holdfast.cli.output import print_json, print_table
from holdfast.config import Shown, load, show
from holdfast.control.client import ControlClient
from holdfast.control.configuration_views import ConfigView
from holdfast.core.effect import effect_of
from holdfast.core.errors import HoldfastError
from holdfast.service.lock import read_holder
from holdfast.service.paths import Paths

_ANSWERS = 3.0  # seconds; what is shown is right without it, too


def print_keys(home: Path, *, as_json: bool) -> None:
    keys = show(load(home))
    waiting = _waiting(home)
    if as_json:
        print_json({each.key: _facts(each, waiting) for each in keys})
        return
    rows = [(each.key, effect_of(each.key), each.origin, _value(each, waiting)) for each in keys]
    print_table(("KEY", "CHANGES BY", "SET BY", "VALUE"), rows)


def _facts(each: Shown, waiting: dict[str, Any]) -> dict[str, Any]:
    facts = {"value": each.value, "origin": each.origin, "effect": effect_of(each.key)}
    if each.key in waiting:
        facts["in_force"] = waiting[each.key]
    return facts


def _value(each: Shown, waiting: dict[str, Any]) -> str:
    value = _written(each.value)
    if each.key not in waiting:
        return value
    return f"{value}  (waits for a restart; in force: {_written(waiting[each.key])})"


def _waiting(home: Path) -> dict[str, Any]:
    """What is in force in the place of keys that wait for a restart, if a gateway tells any."""
    holder = read_holder(home)
    if holder is None or holder.purpose != "gateway":
        return {}
    try:
        told = ControlClient(Paths(home), timeout=_ANSWERS).get("/config")
    except HoldfastError:
        return {}
    view = msgspec.convert(told, ConfigView)
    return {each.key: each.in_force for each in view.keys if each.waits}


def _written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)

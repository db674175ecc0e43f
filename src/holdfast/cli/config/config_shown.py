"""`holdfast config show`: every key, and beside it what a running gateway still has in force."""

import json
from pathlib import Path
from typing import Any

import msgspec

from holdfast.cli.common.output import print_json, print_table
from holdfast.config import Shown, load, show
from holdfast.core.config.effect import effect_of
from holdfast.core.errors import HoldfastError
from holdfast.server.api.views.configuration_views import ConfigView, KeyView
from holdfast.server.local.client import ControlClient
from holdfast.system.lock import gateway_runs
from holdfast.system.paths import Paths

_ANSWERS = 3.0  # seconds; what is shown is right without it, too


def print_keys(home: Path, *, as_json: bool) -> None:
    keys = show(load(home))
    running = _running(home)
    if as_json:
        print_json({each.key: _facts(each, running.get(each.key)) for each in keys})
        return
    rows = [
        (each.key, effect_of(each.key), each.origin, _value(each, running.get(each.key)))
        for each in keys
    ]
    print_table(("KEY", "CHANGES BY", "SET BY", "VALUE"), rows)


def _facts(each: Shown, running: KeyView | None) -> dict[str, Any]:
    facts = {"value": each.value, "origin": each.origin, "effect": effect_of(each.key)}
    if running is not None and (running.waits or _differs(each, running)):
        facts["in_force"] = running.in_force
    return facts


def _value(each: Shown, running: KeyView | None) -> str:
    value = _written(each.value)
    if running is None:
        return value
    if running.waits:
        return f"{value}  (waits for a restart; in force: {_written(running.in_force)})"
    if _differs(each, running):
        return f"{value}  (the gateway that runs has {_written(running.value)}: {running.origin})"
    return value


def _differs(each: Shown, running: KeyView) -> bool:
    """Whether the gateway was started with variables or options that this shell has not, or the
    other way round: both have read the same file."""
    return _written(each.value) != _written(running.value)


def _running(home: Path) -> dict[str, KeyView]:
    """What the gateway that runs says of each key, if there is one and it answers."""
    try:
        if not gateway_runs(home):
            return {}
        told = ControlClient(Paths(home), timeout=_ANSWERS).get("/config")
    except HoldfastError:
        return {}
    return {each.key: each for each in msgspec.convert(told, ConfigView).keys}


def _written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)

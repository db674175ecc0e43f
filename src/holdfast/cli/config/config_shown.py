"""`holdfast config show`: every key, and beside it what a running gateway still has in force."""

import json
from pathlib import Path
from typing import Any

import msgspec

from holdfast.cli.common.output import print_json, print_table
from holdfast.config import EffectiveKey, list_keys, load
from holdfast.core.config.effect import change_effect
from holdfast.core.errors import HoldfastError
from holdfast.server.api.views.configuration_views import ConfigKeyView, ConfigView
from holdfast.server.local.client import ControlClient
from holdfast.system.lock import is_gateway_running
from holdfast.system.paths import Paths

_READ_TIMEOUT = 3.0  # seconds; what is shown is right without it, too


def print_keys(home: Path, *, as_json: bool) -> None:
    keys = list_keys(load(home))
    running = _running_keys(home)
    if as_json:
        print_json({each.key: _key_json(each, running.get(each.key)) for each in keys})
        return
    rows = [
        (each.key, change_effect(each.key), each.origin, _value_text(each, running.get(each.key)))
        for each in keys
    ]
    print_table(("KEY", "CHANGES BY", "SET BY", "VALUE"), rows)


def _key_json(key: EffectiveKey, running: ConfigKeyView | None) -> dict[str, Any]:
    facts = {"value": key.value, "origin": key.origin, "effect": change_effect(key.key)}
    if running is not None and (running.pending_restart or _differs(key, running)):
        facts["in_force"] = running.live_value
    return facts


def _value_text(key: EffectiveKey, running: ConfigKeyView | None) -> str:
    value = _to_json(key.value)
    if running is None:
        return value
    if running.pending_restart:
        return f"{value}  (waits for a restart; in force: {_to_json(running.live_value)})"
    if _differs(key, running):
        return f"{value}  (the gateway that runs has {_to_json(running.value)}: {running.origin})"
    return value


def _differs(key: EffectiveKey, running: ConfigKeyView) -> bool:
    """Whether the gateway was started with variables or options that this shell has not, or the
    other way round: both have read the same file."""
    return _to_json(key.value) != _to_json(running.value)


def _running_keys(home: Path) -> dict[str, ConfigKeyView]:
    """What the gateway that runs says of each key, if there is one and it answers."""
    try:
        if not is_gateway_running(home):
            return {}
        told = ControlClient(Paths(home), timeout=_READ_TIMEOUT).get("/config")
    except HoldfastError:
        return {}
    return {each.key: each for each in msgspec.convert(told, ConfigView).keys}


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)

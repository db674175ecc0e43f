"""Differences: which keys two settings have not in common, as people write them."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from holdfast.core.config.effect import IN_PROCESS_PLATFORMS, ChangeEffect, change_effect
from holdfast.core.config.settings import PlatformSettings, Settings

_PLATFORMS = "platforms"


def diff_settings(old: Settings, new: Settings) -> tuple[str, ...]:
    """A table that only one of them has is named itself, and not each of its keys; a list differs
    as a whole."""
    return tuple(_diff_trees(_settings_tree(old), _settings_tree(new), ""))


def with_restart_keys_from(new: Settings, running: Settings) -> Settings:
    """The new settings, with every key that needs a restart as it is in the running ones."""
    was = msgspec.structs.asdict(running)
    held = {
        name: _section_with_restart_keys(name, each, was[name]) for name, each in _field_items(new)
    }
    return msgspec.structs.replace(new, **held)


def _section_with_restart_keys(section: str, new: Any, running: Any) -> Any:
    if section == _PLATFORMS:
        return {
            name: _in_process_platform(name, each, running.get(name)) for name, each in new.items()
        }
    return _with_running_keys(section, new, running) if isinstance(new, msgspec.Struct) else new


def _in_process_platform(name: str, new: PlatformSettings, running: PlatformSettings | None) -> Any:
    """Of those that the process makes itself: what is not set holds as if it were."""
    if name not in IN_PROCESS_PLATFORMS:
        return new
    return _with_running_keys(
        f"{_PLATFORMS}.{name}", new, type(new)() if running is None else running
    )


def _with_running_keys(table: str, new: Any, running: Any) -> Any:
    was = msgspec.structs.asdict(running)
    keys = (
        key
        for key, _ in _field_items(new)
        if change_effect(f"{table}.{key}") is ChangeEffect.RESTART
    )
    return msgspec.structs.replace(new, **{key: was[key] for key in keys})


def _field_items(settings: Any) -> Iterator[tuple[str, Any]]:
    yield from msgspec.structs.asdict(settings).items()


def _settings_tree(settings: Settings) -> dict[str, Any]:
    tree: dict[str, Any] = msgspec.to_builtins(settings)
    # They are there whether anybody writes of them or not: an empty table changes nothing.
    usual = msgspec.to_builtins(PlatformSettings())
    for name in IN_PROCESS_PLATFORMS:
        written = tree[_PLATFORMS].get(name, {})
        tree[_PLATFORMS][name] = {
            key: value for key, value in written.items() if value != usual.get(key, "")
        }
    return tree


def _diff_trees(old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> Iterator[str]:
    for key in {**old, **new}:
        here = f"{path}.{key}" if path else key
        before, after = old.get(key), new.get(key)
        if isinstance(before, dict) and isinstance(after, dict):
            yield from _diff_trees(before, after, here)
        elif key not in old or key not in new or before != after:
            yield here

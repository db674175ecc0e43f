"""Differences: which keys two settings have not in common, as people write them."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from holdfast.core.config.effect import SERVED_HERE, Effect, effect_of
from holdfast.core.config.settings import PlatformSettings, Settings

_PLATFORMS = "platforms"


def differing(old: Settings, new: Settings) -> tuple[str, ...]:
    """A table that only one of them has is named itself, and not each of its keys; a list differs
    as a whole."""
    return tuple(_differing(_tree(old), _tree(new), ""))


def held_back(new: Settings, running: Settings) -> Settings:
    """The new settings, with every key that needs a restart as it is in the running ones."""
    was = msgspec.structs.asdict(running)
    held = {name: _held(name, each, was[name]) for name, each in _fields(new)}
    return msgspec.structs.replace(new, **held)


def _held(section: str, new: Any, running: Any) -> Any:
    if section == _PLATFORMS:
        return {name: _as_served(name, each, running.get(name)) for name, each in new.items()}
    return _kept(section, new, running) if isinstance(new, msgspec.Struct) else new


def _as_served(name: str, new: PlatformSettings, running: PlatformSettings | None) -> Any:
    """Of those that the process makes itself: what is not set holds as if it were."""
    if name not in SERVED_HERE:
        return new
    return _kept(f"{_PLATFORMS}.{name}", new, type(new)() if running is None else running)


def _kept(table: str, new: Any, running: Any) -> Any:
    was = msgspec.structs.asdict(running)
    keys = (key for key, _ in _fields(new) if effect_of(f"{table}.{key}") is Effect.RESTART)
    return msgspec.structs.replace(new, **{key: was[key] for key in keys})


def _fields(settings: Any) -> Iterator[tuple[str, Any]]:
    yield from msgspec.structs.asdict(settings).items()


def _tree(settings: Settings) -> dict[str, Any]:
    tree: dict[str, Any] = msgspec.to_builtins(settings)
    # They are there whether anybody writes of them or not: an empty table changes nothing.
    usual = msgspec.to_builtins(PlatformSettings())
    for name in SERVED_HERE:
        written = tree[_PLATFORMS].get(name, {})
        tree[_PLATFORMS][name] = {
            key: value for key, value in written.items() if value != usual.get(key, "")
        }
    return tree


def _differing(old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> Iterator[str]:
    for key in {**old, **new}:
        here = f"{path}.{key}" if path else key
        before, after = old.get(key), new.get(key)
        if isinstance(before, dict) and isinstance(after, dict):
            yield from _differing(before, after, here)
        elif key not in old or key not in new or before != after:
            yield here

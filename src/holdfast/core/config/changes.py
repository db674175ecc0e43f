"""Which keys differ between two settings, and what it takes for a changed key to take effect."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from holdfast.core.config.settings import PlatformSettings, Settings
from holdfast.core.text.translation import N_


class ChangeEffect(StrEnum):
    """What it takes for a changed key to take effect."""

    NEXT_TURN = N_("next turn")  # nothing: a running turn keeps the values that it began with
    ACCOUNT = N_("its account")  # its account, and no other, is reconnected automatically
    RESTART = N_("restart")  # until then the old value applies

    @property
    def description(self) -> str:
        return _DESCRIPTIONS[self]


_DESCRIPTIONS: Mapping[ChangeEffect, str] = {
    ChangeEffect.NEXT_TURN: N_("at the next turn"),
    ChangeEffect.ACCOUNT: N_("at once; its account is reconnected"),
    ChangeEffect.RESTART: N_("after a restart"),
}

# Whole sections first, then single keys. A process sets these up once: its sockets, sandboxes and
# files, and what its supervisor tells it. Everything else can be changed while it runs.
_RESTART_SECTIONS = frozenset({"runner", "backup", "browser", "otel", "audit"})
_RESTART_KEYS = frozenset(
    {
        "log.file_mb",
        "log.files",
        "gateway.host",
        "gateway.port",
        "gateway.supervisor",
        "gateway.crash_recovery",  # read at the start only
        "gateway.hold_port",  # passed to the process that holds it
        "memory.providers",
    }
)
# The two platforms that the process opens itself, with its own routes and its own token.
IN_PROCESS_PLATFORMS = frozenset({"api", "web"})
_PLATFORMS = "platforms"
_ACCOUNTS = "accounts"
# The gateway reads these whenever it needs them; all others are passed to the plugin's `open`.
_COMMON_ACCOUNT_KEYS = frozenset(PlatformSettings.__struct_fields__) - {"enabled", _ACCOUNTS}


def change_effect(key: str) -> ChangeEffect:
    """The effect of a key as people write it: `model.name`, `model.fallbacks[0].name`,
    `platforms.telegram.accounts.work.token`. A table has the strongest effect of its keys."""
    section, _, rest = key.partition(".")
    if section == "platforms":
        return _platform_key_effect(rest)
    restarts = section in _RESTART_SECTIONS or _without_index(key) in _RESTART_KEYS
    return ChangeEffect.RESTART if restarts else ChangeEffect.NEXT_TURN


def _platform_key_effect(rest: str) -> ChangeEffect:
    name, *parts = rest.split(".")
    if parts[:1] == [_ACCOUNTS]:  # account names contain no dot
        parts = parts[2:]
    if parts and _without_index(parts[0]) in _COMMON_ACCOUNT_KEYS:
        return ChangeEffect.NEXT_TURN
    return ChangeEffect.RESTART if name in IN_PROCESS_PLATFORMS else ChangeEffect.ACCOUNT


def _without_index(key: str) -> str:
    """Without the list index."""
    return key.partition("[")[0]


def diff_settings(old: Settings, new: Settings) -> tuple[str, ...]:
    """The keys that differ. A table that only one side has is named as a whole, and so is a
    list."""
    return tuple(_diff_trees(_settings_tree(old), _settings_tree(new), ""))


def with_restart_keys_from(new: Settings, running: Settings) -> Settings:
    """The new settings, with every key that needs a restart as it is in the running ones."""
    was = msgspec.structs.asdict(running)
    sections = {
        name: _section_with_restart_keys(name, each, was[name]) for name, each in _field_items(new)
    }
    return msgspec.structs.replace(new, **sections)


def _section_with_restart_keys(section: str, new: Any, running: Any) -> Any:
    if section == _PLATFORMS:
        return {
            name: _in_process_platform(name, each, running.get(name)) for name, each in new.items()
        }
    return _with_running_keys(section, new, running) if isinstance(new, msgspec.Struct) else new


def _in_process_platform(name: str, new: PlatformSettings, running: PlatformSettings | None) -> Any:
    """An in-process platform without a table of its own has the default values."""
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
    # They exist even if the file does not name them: an empty table changes nothing.
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

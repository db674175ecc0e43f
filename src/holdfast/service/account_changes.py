"""Account changes: which accounts another configuration sets up anew, adds, or lets go of."""

from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.config import Config
from holdfast.config.doors import PluginUnusable, find_plugin
from holdfast.core.config.effect import IN_PROCESS_PLATFORMS, ChangeEffect, change_effect
from holdfast.core.config.settings import PlatformSettings
from holdfast.service.doors import account_secrets, enabled_accounts

AccountKey = tuple[str, str]


class AccountChanges(msgspec.Struct, frozen=True, kw_only=True):
    """By platform and account. What is in neither list keeps its connection."""

    opened: tuple[AccountKey, ...] = ()
    removed: tuple[AccountKey, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{name}:{account}" for name, account in (*self.opened, *self.removed))


def compare_accounts(old: Config, new: Config) -> AccountChanges:
    """An account is set up anew where something changed that its door was opened with: a key of
    the door, one of every account that it reads itself, or what a reference stands for."""
    before, after = dict(_plugin_inputs(old)), dict(_plugin_inputs(new))
    return AccountChanges(
        opened=tuple(key for key, with_ in after.items() if before.get(key) != with_),
        removed=tuple(key for key in before if key not in after),
    )


def _plugin_inputs(config: Config) -> Iterator[tuple[AccountKey, dict[str, Any]]]:
    for name, account, settings in enabled_accounts(config):
        if name not in IN_PROCESS_PLATFORMS:
            secrets = account_secrets(config, name, account)
            values = {f"secret {key}": each.reveal() for key, each in secrets.items()}
            yield (name, account), {**_account_keys(name, settings), **values}


def _account_keys(name: str, settings: PlatformSettings) -> dict[str, Any]:
    reads = _keys_read_by_plugin(name)
    return {
        key: value
        for key, value in msgspec.structs.asdict(settings).items()
        if key in reads or change_effect(f"platforms.{name}.{key}") is not ChangeEffect.NEXT_TURN
    } | {"accounts": None}  # those beside it are no affair of this one


def _keys_read_by_plugin(name: str) -> tuple[str, ...]:
    try:
        door = find_plugin(name)
    except PluginUnusable:  # its account stands parked, whatever is written of it
        return ()
    return () if door is None else door.own_common_keys

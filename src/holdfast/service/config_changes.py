"""What differs between two configurations: keys, accounts, and what must wait for a restart.

Imported by the first reload: no start needs it.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.config import Config
from holdfast.config.platforms import PluginUnusable, find_plugin
from holdfast.core.config.changes import (
    IN_PROCESS_PLATFORMS,
    ChangeEffect,
    change_effect,
    diff_settings,
)
from holdfast.core.config.settings import PlatformSettings
from holdfast.service.platforms import account_secrets, enabled_accounts

AccountKey = tuple[str, str]


class AccountChanges(msgspec.Struct, frozen=True, kw_only=True):
    """Accounts to open (again) and to remove. Those in neither list keep their connection."""

    opened: tuple[AccountKey, ...] = ()
    removed: tuple[AccountKey, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{name}:{account}" for name, account in (*self.opened, *self.removed))


def compare_accounts(old: Config, new: Config) -> AccountChanges:
    """An account is opened again if something changed that its plugin was opened with: a key of the
    plugin, a common key that the plugin reads itself, or the value of a secret."""
    before, after = dict(_plugin_inputs(old)), dict(_plugin_inputs(new))
    return AccountChanges(
        opened=tuple(key for key, inputs in after.items() if before.get(key) != inputs),
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
    } | {"accounts": None}  # the other accounts do not concern this one


def _keys_read_by_plugin(name: str) -> tuple[str, ...]:
    try:
        plugin = find_plugin(name)
    except PluginUnusable:  # its account is parked in any case
        return ()
    return () if plugin is None else plugin.own_common_keys


class ConfigChanges(msgspec.Struct, frozen=True, kw_only=True):
    """Keys are spelled as in the file."""

    keys: tuple[str, ...]  # that differ from the last valid configuration
    # That differ from the configuration this process started with, and need a restart.
    pending_restart: tuple[str, ...]
    accounts: AccountChanges


def compare_configs(old: Config, new: Config, *, start_config: Config) -> ConfigChanges:
    since_start = _changed_keys(start_config, new)
    return ConfigChanges(
        keys=tuple(_changed_keys(old, new)),
        pending_restart=tuple(
            key for key in since_start if change_effect(key) is ChangeEffect.RESTART
        ),
        accounts=compare_accounts(old, new),
    )


def _changed_keys(old: Config, new: Config) -> Iterator[str]:
    """The changed keys, including those that refer to the same secret if its value has changed."""
    found = diff_settings(old.settings, new.settings)
    yield from found
    for key in {**old.secrets, **new.secrets}:
        if not _is_covered(key, found) and _secret_value(old, key) != _secret_value(new, key):
            yield key


def _is_covered(key: str, found: tuple[str, ...]) -> bool:
    return any(key == each or key.startswith((f"{each}.", f"{each}[")) for each in found)


def _secret_value(config: Config, key: str) -> str | None:
    secret = config.secret(key)
    return None if secret is None else secret.reveal()

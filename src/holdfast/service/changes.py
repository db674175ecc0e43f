"""Changes: what another configuration makes otherwise, and what of it has to wait for a restart."""

from collections.abc import Iterator

import msgspec

from holdfast.config import Config
from holdfast.core.config.differences import diff_settings
from holdfast.core.config.effect import ChangeEffect, change_effect
from holdfast.service.account_changes import AccountChanges, compare_accounts


class ConfigChanges(msgspec.Struct, frozen=True, kw_only=True):
    """Keys are as people write them."""

    keys: tuple[str, ...]  # that are not as they were in the last good one
    pending_restart: tuple[
        str, ...
    ]  # that are not as this process began with them, and cannot be swapped
    accounts: AccountChanges


def compare_configs(old: Config, new: Config, *, start_config: Config) -> ConfigChanges:
    since_the_start = _changed_keys(start_config, new)
    return ConfigChanges(
        keys=tuple(_changed_keys(old, new)),
        pending_restart=tuple(
            key for key in since_the_start if change_effect(key) is ChangeEffect.RESTART
        ),
        accounts=compare_accounts(old, new),
    )


def _changed_keys(old: Config, new: Config) -> Iterator[str]:
    """Also those that refer to the same secret as before, which is another by now."""
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

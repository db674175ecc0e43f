"""The doors of a configuration, opened: one platform for each account that is enabled."""

from collections.abc import Iterator, Mapping

import msgspec

from holdfast.config import Config
from holdfast.config.doors import find_door
from holdfast.core.door import Opening
from holdfast.core.ports import Clock, NewId, Platform
from holdfast.core.secret import Secret
from holdfast.core.settings import DEFAULT_ACCOUNT, PlatformSettings
from holdfast.service.claims import Identity
from holdfast.service.paths import Paths


def open_doors(config: Config, *, clock: Clock, new_id: NewId) -> Iterator[Platform]:
    """Nothing is connected by this, and no account that is not enabled costs anything."""
    for name, account, settings in enabled_accounts(config):
        door = find_door(name)
        assert door is not None, "the settings were checked by it"
        if door.open is None:
            continue
        yield door.open(
            Opening(
                account=account,
                settings=settings,
                secrets=secrets_of(config, name, account),
                folder=Paths(config.home).platforms / name / account,
                clock=clock,
                new_id=new_id,
            )
        )


def identities(config: Config) -> dict[tuple[str, str], Identity]:
    """What says of an account which of its vendor's it is; those that may be shared are not
    here."""
    found = {}
    for name, account, settings in enabled_accounts(config):
        door = find_door(name)
        keys = door.identity if door is not None and door.open is not None else ()
        values = {**msgspec.to_builtins(settings), **_revealed(config, name, account)}
        identity = [str(values.get(key, "")) for key in keys]
        if any(identity):
            found[name, account] = (name, *identity)
    return found


def _revealed(config: Config, name: str, account: str) -> dict[str, str]:
    secrets = secrets_of(config, name, account)
    return {key: secret.reveal() for key, secret in secrets.items()}


def enabled_accounts(config: Config) -> Iterator[tuple[str, str, PlatformSettings]]:
    for name, platform in config.settings.platforms.items():
        for account, settings in {DEFAULT_ACCOUNT: platform, **platform.accounts}.items():
            if settings.enabled:
                yield name, account, settings


def secrets_of(config: Config, name: str, account: str) -> Mapping[str, Secret]:
    """The secrets of one account, by the path of their key in its own table."""
    further = f"platforms.{name}.accounts."
    own = f"platforms.{name}." if account == DEFAULT_ACCOUNT else f"{further}{account}."
    return {
        key.removeprefix(own): secret
        for key, secret in config.secrets.items()
        if key.startswith(own) and (own != f"platforms.{name}." or not key.startswith(further))
    }

"""Account changes: which accounts another configuration sets up anew, adds, or lets go of."""

from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.config import Config
from holdfast.config.doors import DoorUnusable, find_door
from holdfast.core.config.effect import SERVED_HERE, Effect, effect_of
from holdfast.core.config.settings import PlatformSettings
from holdfast.service.doors import enabled_accounts, secrets_of

Account = tuple[str, str]


class AccountChanges(msgspec.Struct, frozen=True, kw_only=True):
    """By platform and account. What is in neither list keeps its connection."""

    put: tuple[Account, ...] = ()
    gone: tuple[Account, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{name}:{account}" for name, account in (*self.put, *self.gone))


def account_changes(old: Config, new: Config) -> AccountChanges:
    """An account is set up anew where something changed that its door was opened with: a key of
    the door, one of every account that it reads itself, or what a reference stands for."""
    before, after = dict(_opened_with(old)), dict(_opened_with(new))
    return AccountChanges(
        put=tuple(key for key, with_ in after.items() if before.get(key) != with_),
        gone=tuple(key for key in before if key not in after),
    )


def _opened_with(config: Config) -> Iterator[tuple[Account, dict[str, Any]]]:
    for name, account, settings in enabled_accounts(config):
        if name not in SERVED_HERE:
            secrets = secrets_of(config, name, account)
            values = {f"secret {key}": each.reveal() for key, each in secrets.items()}
            yield (name, account), {**_own_keys(name, settings), **values}


def _own_keys(name: str, settings: PlatformSettings) -> dict[str, Any]:
    reads = _read_by(name)
    return {
        key: value
        for key, value in msgspec.structs.asdict(settings).items()
        if key in reads or effect_of(f"platforms.{name}.{key}") is not Effect.NEXT_TURN
    } | {"accounts": None}  # those beside it are no affair of this one


def _read_by(name: str) -> tuple[str, ...]:
    try:
        door = find_door(name)
    except DoorUnusable:  # its account stands parked, whatever is written of it
        return ()
    return () if door is None else door.reads

"""The tables of the platforms: checked, and made into settings, by what their doors declare."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import inspect

from holdfast.config.doors import DoorUnusable, UnreadSettings, find_door, known_doors
from holdfast.config.draft import Draft
from holdfast.config.errors import ConfigError, KeyPath, nearest
from holdfast.config.schema import check_table, describe
from holdfast.core.config.settings import DEFAULT_ACCOUNT, PlatformSettings
from holdfast.core.ports.door import Door

PLATFORMS = "platforms"
ACCOUNTS = "accounts"
_ACCOUNT = re.compile(r"[A-Za-z0-9_-]{1,64}")  # it stands in ids, addresses and names of folders


def check_platforms(draft: Draft) -> list[str]:
    """Raise for the first table that its door would not take; what there is to say of doors that
    cannot be loaded, whose accounts are parked while whatever else is set up runs."""
    told = []
    for name, table in _tables(draft, (PLATFORMS,)):
        path: KeyPath = (PLATFORMS, name)
        door, why = _door(draft, name)
        shape = shape_of(door)
        check_table(draft, shape, path, _readable(door, _without_accounts(table)))
        for account, each in _tables(draft, (*path, ACCOUNTS)):
            _check_account_name(draft, (*path, ACCOUNTS, account), account)
            own = shape_of_account(shape)
            check_table(draft, own, (*path, ACCOUNTS, account), _readable(door, each))
        told += [f"platforms.{name} cannot be used: {why}"] if why else []
    return told


def convert_platforms(draft: Draft) -> dict[str, PlatformSettings]:
    """The settings of every platform that is named, as its door has them. To be called with what
    has been checked."""
    return {
        str(name): _convert(draft, door_of(draft, name), name, table)
        for name, table in draft.tree.get(PLATFORMS, {}).items()
    }


def door_of(draft: Draft, name: str) -> Door[Any]:
    """The door that a table is for; raises where there is none. One that cannot be loaded is stood
    in for by what every door has."""
    return _door(draft, name)[0]


def _door(draft: Draft, name: str) -> tuple[Door[Any], str]:
    """Also what is wrong with it."""
    try:
        door = find_door(name)
    except DoorUnusable as error:
        return Door(name=name, settings=UnreadSettings, open=None), str(error)
    if door is None:
        raise unknown_door(draft, (PLATFORMS, name), name)
    return door, ""


def unknown_door(draft: Draft, path: KeyPath, name: str) -> ConfigError:
    names = known_doors()
    return draft.refuse(
        path,
        "is a name Holdfast does not know",
        value=name,
        allowed=", ".join(names),
        nearest=nearest(name, names),
    )


def shape_of(door: Door[Any]) -> inspect.StructType:
    shape = inspect.type_info(door.settings)
    assert isinstance(shape, inspect.StructType), "a door's settings are a struct"
    return shape


def shape_of_account(shape: inspect.StructType) -> inspect.StructType:
    """An account has the keys of its platform, and no accounts of its own."""
    fields = tuple(field for field in shape.fields if field.name != ACCOUNTS)
    return msgspec.structs.replace(shape, fields=fields)


def _tables(draft: Draft, path: KeyPath) -> Iterator[tuple[str, Any]]:
    tables: Any = draft.tree
    for part in path:
        tables = tables.get(part, {})
    if not isinstance(tables, dict):
        allowed = describe(inspect.type_info(dict[str, PlatformSettings]))
        raise draft.refuse(path, "has a value that is not allowed", value=tables, allowed=allowed)
    yield from tables.items()


def _without_accounts(table: Any) -> Any:
    if not isinstance(table, dict):
        return table
    return {key: value for key, value in table.items() if key != ACCOUNTS}


def _readable(door: Door[Any], table: Any) -> Any:
    """What can be looked at of a table: nobody knows the keys of a door that cannot be loaded."""
    if not isinstance(table, dict) or door.settings is not UnreadSettings:
        return table
    return {key: value for key, value in table.items() if key in UnreadSettings.__struct_fields__}


def is_account_name(account: str) -> bool:
    return _ACCOUNT.fullmatch(account) is not None


def _check_account_name(draft: Draft, path: KeyPath, account: str) -> None:
    if is_account_name(account) and account != DEFAULT_ACCOUNT:
        return
    raise draft.refuse(
        path,
        "cannot be the name of an account",
        value=account,
        allowed=f'letters, digits, "_" and "-"; "{DEFAULT_ACCOUNT}" is the table above it',
    )


def _convert(
    draft: Draft, door: Door[Any], name: str, table: Mapping[str, Any]
) -> PlatformSettings:
    accounts = {
        account: _converted(draft, door, (PLATFORMS, name, ACCOUNTS, account), each)
        for account, each in table.get(ACCOUNTS, {}).items()
    }
    own = _without_accounts(table)
    if accounts and not own:  # nothing is said of the default account: there is none
        own = {"enabled": False}
    settings = _converted(draft, door, (PLATFORMS, name), own)
    return msgspec.structs.replace(settings, accounts=accounts)


def _converted(
    draft: Draft, door: Door[Any], path: KeyPath, table: Mapping[str, Any]
) -> PlatformSettings:
    try:
        settings: PlatformSettings = msgspec.convert(_readable(door, table), door.settings)
        return settings
    except msgspec.ValidationError as error:
        # Its types fit, so this is what the door itself says of the whole.
        raise draft.refuse(path, f"cannot be used: {error}") from None

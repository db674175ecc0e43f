"""The tables of the platforms: checked, and made into settings, by what their doors declare."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import inspect

from holdfast.config.doors import PluginUnusable, UnknownPluginSettings, find_plugin, plugin_names
from holdfast.config.draft import RawConfig
from holdfast.config.errors import ConfigError, KeyPath, closest_match
from holdfast.config.schema import check_table, describe
from holdfast.core.config.settings import DEFAULT_ACCOUNT, PlatformSettings
from holdfast.core.ports.door import PlatformPlugin

PLATFORMS = "platforms"
ACCOUNTS = "accounts"
_ACCOUNT_NAME = re.compile(
    r"[A-Za-z0-9_-]{1,64}"
)  # it stands in ids, addresses and names of folders


def check_platforms(raw: RawConfig) -> list[str]:
    """Raise for the first table that its door would not take; what there is to say of doors that
    cannot be loaded, whose accounts are parked while whatever else is set up runs."""
    told = []
    for name, table in _tables(raw, (PLATFORMS,)):
        path: KeyPath = (PLATFORMS, name)
        door, why = _find_plugin(raw, name)
        shape = plugin_schema(door)
        check_table(raw, shape, path, _known_keys(door, _without_accounts(table)))
        for account, each in _tables(raw, (*path, ACCOUNTS)):
            _check_account_name(raw, (*path, ACCOUNTS, account), account)
            own = account_schema(shape)
            check_table(raw, own, (*path, ACCOUNTS, account), _known_keys(door, each))
        told += [f"platforms.{name} cannot be used: {why}"] if why else []
    return told


def convert_platforms(raw: RawConfig) -> dict[str, PlatformSettings]:
    """The settings of every platform that is named, as its door has them. To be called with what
    has been checked."""
    return {
        str(name): _convert_platform(raw, plugin_for_table(raw, name), name, table)
        for name, table in raw.tree.get(PLATFORMS, {}).items()
    }


def plugin_for_table(raw: RawConfig, name: str) -> PlatformPlugin[Any]:
    """The door that a table is for; raises where there is none. One that cannot be loaded is stood
    in for by what every door has."""
    return _find_plugin(raw, name)[0]


def _find_plugin(raw: RawConfig, name: str) -> tuple[PlatformPlugin[Any], str]:
    """Also what is wrong with it."""
    try:
        door = find_plugin(name)
    except PluginUnusable as error:
        return PlatformPlugin(name=name, settings=UnknownPluginSettings, open=None), str(error)
    if door is None:
        raise unknown_platform(raw, (PLATFORMS, name), name)
    return door, ""


def unknown_platform(raw: RawConfig, path: KeyPath, name: str) -> ConfigError:
    names = plugin_names()
    return raw.error(
        path,
        "is a name Holdfast does not know",
        value=name,
        allowed=", ".join(names),
        nearest=closest_match(name, names),
    )


def plugin_schema(plugin: PlatformPlugin[Any]) -> inspect.StructType:
    shape = inspect.type_info(plugin.settings)
    assert isinstance(shape, inspect.StructType), "a door's settings are a struct"
    return shape


def account_schema(schema: inspect.StructType) -> inspect.StructType:
    """An account has the keys of its platform, and no accounts of its own."""
    fields = tuple(field for field in schema.fields if field.name != ACCOUNTS)
    return msgspec.structs.replace(schema, fields=fields)


def _tables(raw: RawConfig, path: KeyPath) -> Iterator[tuple[str, Any]]:
    tables: Any = raw.tree
    for part in path:
        tables = tables.get(part, {})
    if not isinstance(tables, dict):
        allowed = describe(inspect.type_info(dict[str, PlatformSettings]))
        raise raw.error(path, "has a value that is not allowed", value=tables, allowed=allowed)
    yield from tables.items()


def _without_accounts(table: Any) -> Any:
    if not isinstance(table, dict):
        return table
    return {key: value for key, value in table.items() if key != ACCOUNTS}


def _known_keys(plugin: PlatformPlugin[Any], table: Any) -> Any:
    """What can be looked at of a table: nobody knows the keys of a door that cannot be loaded."""
    if not isinstance(table, dict) or plugin.settings is not UnknownPluginSettings:
        return table
    return {
        key: value for key, value in table.items() if key in UnknownPluginSettings.__struct_fields__
    }


def is_account_name(account: str) -> bool:
    return _ACCOUNT_NAME.fullmatch(account) is not None


def _check_account_name(raw: RawConfig, path: KeyPath, account: str) -> None:
    if is_account_name(account) and account != DEFAULT_ACCOUNT:
        return
    raise raw.error(
        path,
        "cannot be the name of an account",
        value=account,
        allowed=f'letters, digits, "_" and "-"; "{DEFAULT_ACCOUNT}" is the table above it',
    )


def _convert_platform(
    raw: RawConfig, plugin: PlatformPlugin[Any], name: str, table: Mapping[str, Any]
) -> PlatformSettings:
    accounts = {
        account: _convert_account(raw, plugin, (PLATFORMS, name, ACCOUNTS, account), each)
        for account, each in table.get(ACCOUNTS, {}).items()
    }
    own = _without_accounts(table)
    if accounts and not own:  # nothing is said of the default account: there is none
        own = {"enabled": False}
    settings = _convert_account(raw, plugin, (PLATFORMS, name), own)
    return msgspec.structs.replace(settings, accounts=accounts)


def _convert_account(
    raw: RawConfig, plugin: PlatformPlugin[Any], path: KeyPath, table: Mapping[str, Any]
) -> PlatformSettings:
    try:
        settings: PlatformSettings = msgspec.convert(_known_keys(plugin, table), plugin.settings)
        return settings
    except msgspec.ValidationError as error:
        # Its types fit, so this is what the door itself says of the whole.
        raise raw.error(path, f"cannot be used: {error}") from None

"""Finds platform plugins, and checks and converts the `[platforms]` tables by what each plugin declares."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import inspect

from holdfast.config.document import RawConfig
from holdfast.config.errors import ConfigError, KeyPath, closest_match
from holdfast.config.schema import check_table, describe
from holdfast.core.config.settings import DEFAULT_ACCOUNT, PlatformSettings
from holdfast.core.errors import HoldfastError
from holdfast.core.ports.platform_plugin import (
    BUILT_IN_PLUGINS,
    PLUGIN_ENTRY_POINTS,
    PlatformPlugin,
)

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


# MERGED holdfast.config.doors: The doors that can be configured: those of this package, and those that are installed.
class PluginUnusable(HoldfastError):
    """There is a door of that name, and it cannot be loaded: what is wrong with it is an affair of
    the package that brings it."""


class UnknownPluginSettings(PlatformSettings, frozen=True, kw_only=True):
    """Of a door that cannot be loaded: the keys that every platform has, and no others are read."""


def plugin_names() -> tuple[str, ...]:
    """Every name that may stand under `platforms`."""
    return (
        *BUILT_IN_PLUGINS,
        *(name for name in _installed_entry_points() if name not in BUILT_IN_PLUGINS),
    )


def is_plugin(name: str) -> bool:
    return name in BUILT_IN_PLUGINS or name in _installed_entry_points()


def find_plugin(name: str) -> PlatformPlugin[Any] | None:
    """What a door declares of itself; None: there is none of that name. Raises `PluginUnusable`.

    A package cannot take the place of a door of ours: whoever writes `telegram` means that one.
    """
    if name in BUILT_IN_PLUGINS:
        module, _, constant = BUILT_IN_PLUGINS[name].partition(":")
        declared: object = vars(import_module(module))[constant]
    else:
        declared = _load_plugin(name)
    if declared is None:
        return None
    if not isinstance(declared, PlatformPlugin) or declared.name != name:
        raise PluginUnusable(
            f"its entry point leads to {declared!r}, which is no door of that name"
        )
    if not issubclass(declared.settings, PlatformSettings):
        raise PluginUnusable(f"its settings, {declared.settings!r}, extend no PlatformSettings")
    return declared


def usable_plugins() -> list[PlatformPlugin[Any]]:
    found = []
    for name in plugin_names():
        with suppress(PluginUnusable):
            found.append(find_plugin(name))
    return [door for door in found if door is not None]


def shadowed_plugins() -> dict[str, str]:
    """The doors that nobody can use, because Holdfast has one of that name: who brings each."""
    installed = _installed_entry_points()
    return {name: _package_names(installed[name]) for name in BUILT_IN_PLUGINS if name in installed}


def _load_plugin(name: str) -> object:
    entries = _installed_entry_points().get(name)
    if entries is None:
        return None
    if len(entries) > 1:
        raise PluginUnusable(
            f"several packages bring a door of that name: {_package_names(entries)}"
        )
    try:
        return entries[0].load()
    except Exception as error:  # the package of somebody else: its import may fail in any way
        raise PluginUnusable(
            f"the door that the package {_package_names(entries)} brings cannot be loaded: {error!r}"
        ) from error


def _package_names(entries: "Sequence[EntryPoint]") -> str:
    return " and ".join(each.dist.name if each.dist else each.value for each in entries)


def _installed_entry_points() -> "Mapping[str, Sequence[EntryPoint]]":
    # Reads what every installed package says of itself: for names that are none of ours only.
    from importlib.metadata import entry_points  # noqa: PLC0415 - 20 ms that few need

    found: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=PLUGIN_ENTRY_POINTS):
        found.setdefault(entry.name, []).append(entry)
    return found


# MERGED holdfast.config.platforms: The tables of the platforms: checked, and made into settings, by what their doors declare.
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

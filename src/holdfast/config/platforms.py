"""Finds platform plugins, and checks and converts the `[platforms]` tables by their schemas."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import inspect

from holdfast.config.document import RawConfig
from holdfast.config.errors import ConfigError, KeyPath, closest_match
from holdfast.config.validation import check_table, describe
from holdfast.core.config.settings import DEFAULT_ACCOUNT, PlatformSettings
from holdfast.core.errors import HoldfastError, InvalidSettings
from holdfast.core.ports.platform_plugin import PlatformPlugin
from holdfast.core.text.translation import N_

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

PLUGIN_ENTRY_POINTS = "holdfast.platforms"  # the entry point group of installed plugins

# Where the built-in plugins are declared. A module is imported only if the configuration names its
# platform: a plugin costs nothing until then.
BUILT_IN_PLUGINS: Mapping[str, str] = {
    "api": "holdfast.platforms.api.plugin:PLUGIN",
    "web": "holdfast.platforms.web.plugin:PLUGIN",
    "simulated": "holdfast.testing.simulated.plugin:PLUGIN",
    "telegram": "holdfast.platforms.telegram.plugin:PLUGIN",
    "discord": "holdfast.platforms.discord.plugin:PLUGIN",
    "slack": "holdfast.platforms.slack.plugin:PLUGIN",
    "matrix": "holdfast.platforms.matrix.plugin:PLUGIN",
    "email": "holdfast.platforms.email.plugin:PLUGIN",
    "xmpp": "holdfast.platforms.xmpp.plugin:PLUGIN",
    "irc": "holdfast.platforms.irc.plugin:PLUGIN",
    "webhook": "holdfast.platforms.webhook.plugin:PLUGIN",
}

PLATFORMS = "platforms"
ACCOUNTS = "accounts"
# It is part of ids, addresses and directory names.
_ACCOUNT_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class PluginUnusable(HoldfastError):
    """A plugin of that name exists but cannot be loaded: a fault of its package."""


class UnknownPluginSettings(PlatformSettings, frozen=True, kw_only=True):
    """For a plugin that cannot be loaded: only the keys common to all platforms are read."""


def plugin_names() -> tuple[str, ...]:
    """Every name that is allowed under `platforms`."""
    return (
        *BUILT_IN_PLUGINS,
        *(name for name in _installed_entry_points() if name not in BUILT_IN_PLUGINS),
    )


def is_plugin(name: str) -> bool:
    return name in BUILT_IN_PLUGINS or name in _installed_entry_points()


def find_plugin(name: str) -> PlatformPlugin[Any] | None:
    """The declaration of a plugin; None: there is none of that name. Raises `PluginUnusable`.

    A package cannot replace a built-in plugin: `telegram` always means the built-in one.
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
            "its entry point leads to {declared}, which is not a platform plugin of that name. "
            "Correct the package, or uninstall it",
            declared=repr(declared),
        )
    if not issubclass(declared.settings, PlatformSettings):
        raise PluginUnusable(
            "its settings, {settings}, extend no PlatformSettings. Correct the package",
            settings=repr(declared.settings),
        )
    return declared


def usable_plugins() -> list[PlatformPlugin[Any]]:
    found = []
    for name in plugin_names():
        with suppress(PluginUnusable):
            found.append(find_plugin(name))
    return [plugin for plugin in found if plugin is not None]


def shadowed_plugins() -> dict[str, str]:
    """Installed plugins hidden by a built-in one of the same name, with the package of each."""
    installed = _installed_entry_points()
    return {name: _package_names(installed[name]) for name in BUILT_IN_PLUGINS if name in installed}


def _load_plugin(name: str) -> object:
    entries = _installed_entry_points().get(name)
    if entries is None:
        return None
    if len(entries) > 1:
        raise PluginUnusable(
            "several packages provide a platform of that name: {packages}. Uninstall all but one",
            packages=_package_names(entries),
        )
    try:
        return entries[0].load()
    except Exception as error:  # third-party code: its import may fail in any way
        raise PluginUnusable(
            "the plugin of the package {package} cannot be loaded: {error}. Update the package, or "
            "uninstall it",
            package=_package_names(entries),
            error=repr(error),
        ) from error


def _package_names(entries: "Sequence[EntryPoint]") -> str:
    return ", ".join(each.dist.name if each.dist else each.value for each in entries)


def _installed_entry_points() -> "Mapping[str, Sequence[EntryPoint]]":
    # Reads the metadata of every installed package: only for names that are not built in.
    from importlib.metadata import entry_points  # noqa: PLC0415 - 20 ms that few need

    found: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=PLUGIN_ENTRY_POINTS):
        found.setdefault(entry.name, []).append(entry)
    return found


def check_platforms(raw: RawConfig) -> list[str]:
    """Raise for the first invalid table. Returns warnings about plugins that cannot be loaded:
    their accounts are blocked, and everything else runs."""
    warnings = []
    for name, table in _tables(raw, (PLATFORMS,)):
        path: KeyPath = (PLATFORMS, name)
        plugin, why = _find_plugin(raw, name)
        shape = plugin_schema(plugin)
        check_table(raw, shape, path, _known_keys(plugin, _without_accounts(table)))
        for account, each in _tables(raw, (*path, ACCOUNTS)):
            _check_account_name(raw, (*path, ACCOUNTS, account), account)
            own = account_schema(shape)
            check_table(raw, own, (*path, ACCOUNTS, account), _known_keys(plugin, each))
        warnings += [f"platforms.{name} cannot be used: {why}"] if why else []
    return warnings


def convert_platforms(raw: RawConfig) -> dict[str, PlatformSettings]:
    """The settings of every configured platform, in the type of its plugin. Call it after
    `check_platforms`."""
    return {
        str(name): _convert_platform(raw, plugin_for_table(raw, name), name, table)
        for name, table in raw.tree.get(PLATFORMS, {}).items()
    }


def plugin_for_table(raw: RawConfig, name: str) -> PlatformPlugin[Any]:
    """The plugin of a table; raises where there is none. One that cannot be loaded is replaced by a
    plugin with the common keys."""
    return _find_plugin(raw, name)[0]


def _find_plugin(raw: RawConfig, name: str) -> tuple[PlatformPlugin[Any], str]:
    """The plugin, and why it cannot be loaded ("": it can)."""
    try:
        plugin = find_plugin(name)
    except PluginUnusable as error:
        return PlatformPlugin(name=name, settings=UnknownPluginSettings, open=None), str(error)
    if plugin is None:
        raise unknown_platform(raw, (PLATFORMS, name), name)
    return plugin, ""


def unknown_platform(raw: RawConfig, path: KeyPath, name: str) -> ConfigError:
    names = plugin_names()
    return raw.error(
        path,
        N_("{key} is a name that Holdfast does not know"),
        value=name,
        allowed=", ".join(names),
        nearest=closest_match(name, names),
    )


def plugin_schema(plugin: PlatformPlugin[Any]) -> inspect.StructType:
    shape = inspect.type_info(plugin.settings)
    assert isinstance(shape, inspect.StructType), "the settings of a plugin are a struct"
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
        node = inspect.type_info(dict[str, PlatformSettings])
        raise raw.error(
            path,
            N_("{key} has a value that is not allowed"),
            value=tables,
            allowed=lambda: describe(node),
        )
    yield from tables.items()


def _without_accounts(table: Any) -> Any:
    if not isinstance(table, dict):
        return table
    return {key: value for key, value in table.items() if key != ACCOUNTS}


def _known_keys(plugin: PlatformPlugin[Any], table: Any) -> Any:
    """The keys that can be checked: of a plugin that cannot be loaded, only the common ones."""
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
        N_("{key} cannot be the name of an account"),
        value=account,
        allowed=N_('letters, digits, "_" and "-"; "{default}" is the table of the platform'),
        default=DEFAULT_ACCOUNT,
    )


def _convert_platform(
    raw: RawConfig, plugin: PlatformPlugin[Any], name: str, table: Mapping[str, Any]
) -> PlatformSettings:
    accounts = {
        account: _convert_account(raw, plugin, (PLATFORMS, name, ACCOUNTS, account), each)
        for account, each in table.get(ACCOUNTS, {}).items()
    }
    own = _without_accounts(table)
    if accounts and not own:  # only named accounts: there is no default one
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
        # The types are correct, so this error comes from the plugin's own `__post_init__`.
        cause = error.__cause__
        problem = cause if isinstance(cause, InvalidSettings) else error
        raise raw.error(path, N_("{key} cannot be used: {error}"), error=problem) from None

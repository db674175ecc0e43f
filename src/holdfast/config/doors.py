"""The doors that can be configured: those of this package, and those that are installed."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from holdfast.core.config.settings import PlatformSettings
from holdfast.core.errors import HoldfastError
from holdfast.core.ports.door import BUILT_IN_PLUGINS, PLUGIN_ENTRY_POINTS, PlatformPlugin

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


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

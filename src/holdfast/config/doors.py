"""The doors that can be configured: those of this package, and those that are installed."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from holdfast.core.config.settings import PlatformSettings
from holdfast.core.errors import HoldfastError
from holdfast.core.ports.door import BUILT_IN, DOORS, Door

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


class DoorUnusable(HoldfastError):
    """There is a door of that name, and it cannot be loaded: what is wrong with it is an affair of
    the package that brings it."""


class UnreadSettings(PlatformSettings, frozen=True, kw_only=True):
    """Of a door that cannot be loaded: the keys that every platform has, and no others are read."""


def known_doors() -> tuple[str, ...]:
    """Every name that may stand under `platforms`."""
    return (*BUILT_IN, *(name for name in _installed() if name not in BUILT_IN))


def is_door(name: str) -> bool:
    return name in BUILT_IN or name in _installed()


def find_door(name: str) -> Door[Any] | None:
    """What a door declares of itself; None: there is none of that name. Raises `DoorUnusable`.

    A package cannot take the place of a door of ours: whoever writes `telegram` means that one.
    """
    if name in BUILT_IN:
        module, _, constant = BUILT_IN[name].partition(":")
        declared: object = vars(import_module(module))[constant]
    else:
        declared = _load(name)
    if declared is None:
        return None
    if not isinstance(declared, Door) or declared.name != name:
        raise DoorUnusable(f"its entry point leads to {declared!r}, which is no door of that name")
    if not issubclass(declared.settings, PlatformSettings):
        raise DoorUnusable(f"its settings, {declared.settings!r}, extend no PlatformSettings")
    return declared


def usable_doors() -> list[Door[Any]]:
    found = []
    for name in known_doors():
        with suppress(DoorUnusable):
            found.append(find_door(name))
    return [door for door in found if door is not None]


def outdone() -> dict[str, str]:
    """The doors that nobody can use, because Holdfast has one of that name: who brings each."""
    installed = _installed()
    return {name: _packages(installed[name]) for name in BUILT_IN if name in installed}


def _load(name: str) -> object:
    entries = _installed().get(name)
    if entries is None:
        return None
    if len(entries) > 1:
        raise DoorUnusable(f"several packages bring a door of that name: {_packages(entries)}")
    try:
        return entries[0].load()
    except Exception as error:  # the package of somebody else: its import may fail in any way
        raise DoorUnusable(
            f"the door that the package {_packages(entries)} brings cannot be loaded: {error!r}"
        ) from error


def _packages(entries: "Sequence[EntryPoint]") -> str:
    return " and ".join(each.dist.name if each.dist else each.value for each in entries)


def _installed() -> "Mapping[str, Sequence[EntryPoint]]":
    # Reads what every installed package says of itself: for names that are none of ours only.
    from importlib.metadata import entry_points  # noqa: PLC0415 - 20 ms that few need

    found: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=DOORS):
        found.setdefault(entry.name, []).append(entry)
    return found

"""The doors that can be configured: those of this package, and those that are installed."""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from holdfast.core.door import BUILT_IN, DOORS, Door
from holdfast.core.errors import HoldfastError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


class DoorUnusable(HoldfastError):
    """There is a door of that name, and it cannot be loaded."""


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
    if declared is None or (isinstance(declared, Door) and declared.name == name):
        return declared
    raise DoorUnusable(f"its entry point leads to {declared!r}, which is no door of that name")


def _load(name: str) -> object:
    entry = _installed().get(name)
    if entry is None:
        return None
    try:
        return entry.load()
    except Exception as error:  # the package of somebody else: its import may fail in any way
        package = entry.dist.name if entry.dist else entry.value
        raise DoorUnusable(
            f"the door that the package {package} brings cannot be loaded: {error!r}"
        ) from error


def _installed() -> "Mapping[str, EntryPoint]":
    # Reads what every installed package says of itself: for names that are none of ours only.
    from importlib.metadata import entry_points  # noqa: PLC0415 - 20 ms that few need

    return {entry.name: entry for entry in entry_points(group=DOORS)}

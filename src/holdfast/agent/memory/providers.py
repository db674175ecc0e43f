"""The providers that the settings name: the built-in one, and those that other packages bring."""

import difflib
from collections.abc import Sequence
from pathlib import Path

from holdfast.agent.memory.builtin import NotesProvider
from holdfast.agent.memory.notes import Notes
from holdfast.core.errors import HoldfastError
from holdfast.core.people.memory import MemoryProvider, ProviderContext, ProviderFactory

GROUP = "holdfast.memory_providers"
BUILT_IN = NotesProvider.name


class BadProvider(HoldfastError):
    """A provider that the settings name and that cannot be had."""


def load_providers(names: Sequence[str], *, notes: Notes, home: Path) -> list[MemoryProvider]:
    """In the order of the names. Raises where one cannot be had: an operator who asked for a
    memory is not to find out later that there was none."""
    return [
        NotesProvider(notes) if name == BUILT_IN else _brought(name, home)
        for name in dict.fromkeys(names)
    ]


def check_providers(names: Sequence[str]) -> None:
    """Raises where one cannot be had; none is made, for the gateway that runs has made its own."""
    for name in dict.fromkeys(names):
        if name != BUILT_IN:
            _package(name)


def _brought(name: str, home: Path) -> MemoryProvider:
    make = _package(name)
    try:
        return make(ProviderContext(directory=str(home / "memory" / name)))
    except Exception as error:  # the edge of somebody else's package
        raise _unmade(name, error) from error


def _package(name: str) -> ProviderFactory:
    from importlib.metadata import entry_points  # noqa: PLC0415 - slow, and most need none

    found = {point.name: point for point in entry_points(group=GROUP)}
    if name not in found:
        raise BadProvider(_unknown(name, [BUILT_IN, *sorted(found)]))
    try:
        make: ProviderFactory = found[name].load()
    except Exception as error:  # the edge of somebody else's package
        raise _unmade(f"{name} ({found[name].value})", error) from error
    return make


def _unmade(name: str, error: Exception) -> BadProvider:
    return BadProvider(
        f"the memory provider {name} cannot be made: {type(error).__name__}: {error}. Mend it, or "
        "take it out of memory.providers"
    )


def _unknown(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return (
        f"memory.providers names {name!r}, which is not installed.{hint} There are: "
        f"{', '.join(known)}. A package brings one by an entry point of the group {GROUP}"
    )

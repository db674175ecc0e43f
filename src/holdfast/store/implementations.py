"""The implementations of the store, by name: the gateway and the offline commands open it here, and
commands that do not open it (`holdfast status`, `holdfast doctor`) get their `ClosedStore` here.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from holdfast.core.crash_points import CrashHook
from holdfast.core.errors import HoldfastError
from holdfast.core.ports.store import ClosedStore, HomeStore
from holdfast.store.sqlite.closed_store import ClosedSqliteStore
from holdfast.store.sqlite.store import SqliteStore


class OpenStore(Protocol):
    """Makes the store of the home whose database is at that path; entering it opens it. `crash` is
    called before and after each commit; `redact` takes secrets out of the texts of the audit."""

    def __call__(
        self, path: Path, *, crash: CrashHook = ..., redact: Callable[[str], str] = ...
    ) -> HomeStore: ...


# A further implementation is a line in both tables and one in `tests/support/stores.py`: the
# contract suite, the tests of the gateway and the fault tests then run for it, too.
STORES: Mapping[str, OpenStore] = {"sqlite": SqliteStore}
CLOSED_STORES: Mapping[str, Callable[[Path], ClosedStore]] = {"sqlite": ClosedSqliteStore}


def store_implementation(name: str) -> OpenStore:
    """The implementation of that name; "": the first one."""
    return STORES[_known_name(name)]


def closed_store(path: Path, name: str) -> ClosedStore:
    """The store of the home whose database is at that path, without opening it."""
    return CLOSED_STORES[_known_name(name)](path)


def _known_name(name: str) -> str:
    name = name or next(iter(STORES))
    if name not in STORES:
        raise HoldfastError(
            "HOLDFAST_STORE: {name!r} is not an implementation of the store; use {known}.",
            name=name,
            known=", ".join(STORES),
        )
    return name

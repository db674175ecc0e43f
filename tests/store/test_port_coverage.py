"""The contract suite is complete: it exercises every command and every query."""

import importlib
import inspect
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from tests.store.test_store_port import defined_in_core
from tests.support.recording_store import RecordingStore
from tests.support.store_chat import StoreChat
from tests.support.stores import IMPLEMENTATIONS, OpenStore, StoreImplementation
from tests.support.tracking_store import wrong_writes

import holdfast
from holdfast.core.ports.command import Command, Query
from holdfast.core.ports.store import Store
from holdfast.store.implementations import STORES

Scenario = Callable[..., Awaitable[None]]
_PROVIDED = {"store", "chat"}


def _scenarios() -> Iterator[Scenario]:
    """The tests of this folder that need an open store and nothing else."""
    for file in sorted(Path(__file__).parent.glob("test_*.py")):
        module = importlib.import_module(f"tests.store.{file.stem}")
        for name, test in inspect.getmembers(module, inspect.iscoroutinefunction):
            needs = inspect.signature(test).parameters.keys()
            if name.startswith("test_") and "store" in needs and needs <= _PROVIDED:
                yield test


def test_every_implementation_of_the_product_is_tested() -> None:
    """K2: one that is added to `STORES` needs an entry in `tests/support/stores.py`."""
    assert IMPLEMENTATIONS.keys() == STORES.keys()


def test_the_product_opens_its_store_through_the_registry_only() -> None:
    """K2: nothing but the registry and the implementation itself names the class."""
    source = Path(holdfast.__file__).parent
    naming = {
        file.relative_to(source).as_posix()
        for file in source.rglob("*.py")
        if "SqliteStore(" in (text := file.read_text()) or "import SqliteStore\n" in text
    }
    assert naming == {"store/implementations.py", "store/sqlite/store.py"}


async def _run(scenario: Scenario, store: Store) -> None:
    given: dict[str, Any] = {"store": store, "chat": StoreChat(store)}
    await scenario(**{name: given[name] for name in inspect.signature(scenario).parameters})


async def test_the_suite_exercises_every_command_and_query(
    open_store: OpenStore, tmp_path: Path
) -> None:
    """K2: a second implementation is tested by this suite alone, so nothing may be left out of it.

    If this fails: add a test to this folder that writes the command or reads the query, and checks
    what comes of it.
    """
    exercised: set[type[Any]] = set()
    for number, scenario in enumerate(_scenarios()):
        async with open_store(tmp_path / f"{number}.db") as store:
            await _run(scenario, recording := RecordingStore(store))
        exercised |= recording.exercised
    known = defined_in_core(Command) | defined_in_core(Query)
    missing = sorted(each.__name__ for each in known - exercised)
    assert not missing, f"no test of the contract suite exercises {', '.join(missing)}"


async def test_every_command_of_the_suite_names_the_owners_of_its_rows(
    implementation: StoreImplementation, tmp_path: Path
) -> None:
    """K2: sessions, accounts and persons, by what is written and not by what is declared."""
    for number, scenario in enumerate(_scenarios()):
        async with implementation.open_tracking(tmp_path / f"{number}.db") as store:
            await _run(scenario, store)
        assert wrong_writes(store.tracked) == {}, scenario.__name__

"""The check whether a successor would start, before the gateway stops for it."""

import os
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast.core.errors import RestartRefused
from holdfast.core.text.translation import use_catalogue
from holdfast.service import successor
from holdfast.store.sqlite.schema import load_migrations
from holdfast.store.sqlite.store import SqliteStore
from holdfast.system.languages import PseudoCatalogue

SOURCE = str(Path(holdfast.__file__).parents[1])
HANGS = (sys.executable, "-c", "import time; time.sleep(600)")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "home"
    made.mkdir(mode=0o700)
    return made


def environ(home: Path, *, before: str = "") -> dict[str, str]:
    path = os.pathsep.join(filter(None, (before, SOURCE)))
    return {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": path}


async def refusal(home: Path, *, schema: int = 0, before: str = "") -> str:
    with pytest.raises(RestartRefused) as refused:
        await successor.check_successor(home, environ=environ(home, before=before), schema=schema)
    assert "The running gateway continues." in str(refused.value)
    with use_catalogue(PseudoCatalogue()):
        assert refused.value.for_person().startswith("⟦the successor would not start: ")
    return str(refused.value)


async def test_a_valid_home_passes_the_check_unchanged(home: Path) -> None:
    async with SqliteStore(home / "state.db"):
        before = sorted(home.iterdir())
        await successor.check_successor(home, environ=environ(home), schema=len(load_migrations()))
        assert sorted(home.iterdir()) == before


async def test_a_store_newer_than_the_code_is_reported(home: Path) -> None:
    """K5: also where the newer version stands only in the log, as the running gateway knows."""
    newer = len(load_migrations()) + 1
    assert f"has schema version {newer}" in await refusal(home, schema=newer)


async def test_an_invalid_configuration_is_reported_with_its_location_and_its_remedy(
    home: Path,
) -> None:
    (home / "holdfast.toml").write_text('[memory]\nproviders = ["notse"]\n')
    reason = await refusal(home)
    assert "'notse'" in reason
    assert "not installed" in reason


async def test_code_that_does_not_import_is_reported(home: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "apsw.py").write_text("raise ImportError('half an upgrade')")
    reason = await refusal(home, before=str(broken))
    assert "half an upgrade" in reason
    assert "Install Holdfast again" in reason


async def test_the_output_of_a_crashed_successor_is_quoted(home: Path) -> None:
    with pytest.raises(RestartRefused, match="no such interpreter"):
        await successor.check_successor(
            home,
            environ=environ(home),
            command=(sys.executable, "-c", "raise SystemExit('no such interpreter')"),
        )


async def test_a_successor_that_does_not_answer_is_given_up_and_ended(
    home: Path, tmp_path: Path
) -> None:
    name = str(tmp_path / "the one that hangs")
    with pytest.raises(RestartRefused, match="did not finish within 1 s"):
        await successor.check_successor(
            home, environ=environ(home), command=HANGS, options=(name,), timeout=1
        )
    assert not running(name)


def running(argument: str) -> list[str]:
    """The processes that were started with it: known from their first instant on."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += [each.parent.name] if argument in each.read_text() else []
        except OSError:
            continue  # it has ended since
    return found


def test_a_successor_gets_the_environment_without_variables_of_this_process() -> None:
    ours = {"LISTEN_FDS": "1", "LISTEN_PID": "7", "NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "1"}
    inherited = {"PATH": "/bin", "OPENAI_API_KEY": "k", "HOLDFAST_HOME": "/h"}
    assert successor.successor_environ({**ours, **inherited}) == inherited

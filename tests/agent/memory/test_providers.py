"""Tests of memory providers loaded by entry point, from a package that is really installed."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.gateway_harness import GatewayHarness

from holdfast.agent.memory.providers import PROVIDER_ENTRY_POINTS, load_providers
from holdfast.core.errors import HoldfastError
from holdfast.core.people.memory import MemoryHook

MODULE = """
from holdfast.core.people.memory import MemoryHook

class Diary:
    name = "diary"
    wants = frozenset({MemoryHook.PROMPT_BLOCK, MemoryHook.SYNC_TURN})

    def __init__(self, context):
        self.file = context.directory + ".txt"
        self.lines = []

    async def initialise(self): pass
    async def prompt_block(self, subject): return "Dear diary"
    async def prefetch(self, subject, query): return ""
    async def sync_turn(self, subject, user, assistant): self.lines.append((user, assistant))
    async def on_session_end(self, subject): pass
    async def on_pre_compact(self, subject, messages): pass
    async def shutdown(self): pass

def broken(context):
    raise ValueError("no token in " + context.directory)
"""
ENTRY_POINTS = (
    f"[{PROVIDER_ENTRY_POINTS}]\ndiary = diary_memory:Diary\nbroken = diary_memory:broken\n"
)


@pytest.fixture
def package(tmp_path: Path) -> Iterator[Path]:
    """A package with its dist-info on the path, as an installer leaves it."""
    site = tmp_path / "site"
    info = site / "diary_memory-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "diary_memory.py").write_text(MODULE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: diary-memory\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    sys.path.insert(0, str(site))
    yield site
    sys.path.remove(str(site))
    sys.modules.pop("diary_memory", None)


def load(names: list[str], home: Path) -> list[Any]:
    notes: Any = None  # these providers do not use them
    return load_providers(names, notes=notes, home=home)


async def test_an_installed_provider_is_called(package: Path, tmp_path: Path) -> None:
    harness = GatewayHarness(tmp_path / "state.db")
    (diary,) = harness.memory = load(["diary"], tmp_path)
    await harness.start()
    harness.model.say("hi")
    await harness.end_of(await harness.accept("hello"))
    await harness.stop()
    assert harness.model.requests[0].system.endswith("Dear diary")
    assert diary.lines == [("hello", "hi")]
    assert diary.file == str(tmp_path / "memory" / "diary.txt")


def test_providers_are_loaded_once_in_the_configured_order(package: Path, tmp_path: Path) -> None:
    found = load(["diary", "notes", "diary"], tmp_path)
    assert [provider.name for provider in found] == ["diary", "notes"]
    assert found[1].wants == {MemoryHook.PROMPT_BLOCK}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("dairy", "'dairy', which is not installed. Did you mean 'diary'?"),
        ("broken", "ValueError: no token in"),
    ],
)
def test_a_provider_that_cannot_be_loaded_prevents_a_start(
    package: Path, tmp_path: Path, name: str, expected: str
) -> None:
    with pytest.raises(HoldfastError, match=r"memory\.providers") as refused:
        load([name], tmp_path)
    assert expected in str(refused.value)

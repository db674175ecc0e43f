"""Tests of a turn on a full disk: it waits for space and continues where it was (K2)."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.gateway_harness import Call, GatewayHarness

from holdfast.core.errors import TransientStoreError
from holdfast.core.messages.inbox import BusyMode, InboxState
from holdfast.core.messages.transcript import ToolMessage, ToolOutcome
from holdfast.core.turns.tool import ReplayClass
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.scripted_model import USAGE


class FullDiskStore(SqliteStore):
    """A store that refuses the next writes of a kind, as a full disk does."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.refusals: Counter[str] = Counter()
        self.refused = asyncio.Event()

    def record_reply(self, *arguments: Any, **more: Any) -> Any:
        write = super().record_reply
        return self._refuse("reply") or write(*arguments, **more)

    def record_started(self, *arguments: Any, **more: Any) -> Any:
        write = super().record_started
        return self._refuse("started") or write(*arguments, **more)

    def record_finished(self, *arguments: Any, **more: Any) -> Any:
        write = super().record_finished
        return self._refuse("finished") or write(*arguments, **more)

    def record_steer(self, *arguments: Any, **more: Any) -> Any:
        write = super().record_steer
        return self._refuse("steer") or write(*arguments, **more)

    def _refuse(self, kind: str) -> asyncio.Future[Any] | None:
        if not self.refusals[kind]:
            return None
        self.refusals[kind] -= 1
        self.refused.set()
        failed = asyncio.get_running_loop().create_future()
        failed.set_exception(TransientStoreError("the disk is full"))
        return failed


class FullDiskHarness(GatewayHarness):
    """A harness on a `FullDiskStore`."""

    store: FullDiskStore

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.open_store = FullDiskStore


@pytest.fixture
async def full_disk(tmp_path: Path) -> AsyncIterator[FullDiskHarness]:
    harness = FullDiskHarness(tmp_path / "state.db")
    await harness.start()
    yield harness
    await harness.stop()


@pytest.mark.parametrize("kind", ["reply", "started", "finished"])
async def test_a_turn_waits_for_disk_space_and_then_continues(
    full_disk: FullDiskHarness, call: Call, kind: str
) -> None:
    """K2, H1: the refused step is written later, and nothing is done twice."""
    full_disk.store.refusals[kind] = 1
    full_disk.model.say([call("never")], "done")
    end = await full_disk.end_of(await full_disk.accept("work"))
    assert (end.state, end.text) == (InboxState.ANSWERED, "done")
    assert len(full_disk.held_tools[ReplayClass.NEVER].started) == 1
    assert len(full_disk.model.requests) == 2
    transcript = await full_disk.transcript(await full_disk.only_session())
    assert [m.outcome for m in transcript if isinstance(m, ToolMessage)] == [ToolOutcome.OK]


async def test_a_reply_that_waited_for_disk_space_is_counted_once(
    full_disk: FullDiskHarness, call: Call
) -> None:
    """K2: the usage of the turn is the usage of the model."""
    full_disk.store.refusals["reply"] = 2
    full_disk.model.say([call("safe")], "done")
    ended = await full_disk.end_of(await full_disk.accept("work"))
    assert ended.usage == USAGE + USAGE


async def test_a_steer_that_waited_for_disk_space_reaches_the_model(
    full_disk: FullDiskHarness, call: Call
) -> None:
    """G4: it is stored once there is space, before the model is asked again."""
    tool = full_disk.held_tools[ReplayClass.SAFE]
    tool.go.clear()
    full_disk.model.say([call("safe")], "faster it is")
    first = await full_disk.accept("work")
    await tool.wait_until_started(1)
    await full_disk.accept("faster", busy_mode=BusyMode.STEER)
    full_disk.store.refusals["steer"] = 1
    tool.go.set()
    assert (await full_disk.end_of(first)).text == "faster it is"
    request = await full_disk.model.wait_for_request(2)
    assert request.messages[-1].text == "faster"


@pytest.mark.parametrize("kind", ["reply", "started", "finished"])
async def test_a_turn_that_waits_for_disk_space_can_be_stopped(
    full_disk: FullDiskHarness, call: Call, kind: str
) -> None:
    """F9, H7: it ends with the steps in the store, and the next request is valid."""
    full_disk.store.refusals[kind] = 1000
    full_disk.model.say([call("never")], "the next answer")
    first = await full_disk.accept("work")
    await full_disk.store.refused.wait()
    await full_disk.accept("/stop")
    assert (await full_disk.end_of(first)).state is InboxState.SUPERSEDED
    full_disk.store.refusals.clear()
    assert (await full_disk.end_of(await full_disk.accept("again"))).text == "the next answer"
    transcript = await full_disk.transcript(await full_disk.only_session())
    expected = {"reply": [], "started": ["not started"], "finished": ["may have had an effect"]}[
        kind
    ]
    results = [m.text for m in transcript if isinstance(m, ToolMessage)]
    assert len(results) == len(expected)
    assert all(words in text.lower() for words, text in zip(expected, results, strict=True))

"""Tests of a turn on a full disk: it waits for space and continues where it was (K2)."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.support.controlled_store import Commit, ControlledStore, Intercepted
from tests.support.gateway_harness import Call, GatewayHarness

from holdfast.core.errors import TransientStoreError
from holdfast.core.messages.inbox import BusyMode, InboxState
from holdfast.core.messages.transcript import ToolMessage, ToolOutcome
from holdfast.core.ports.command import Command
from holdfast.core.ports.store_commands import (
    RecordCallResult,
    RecordCallsStarted,
    RecordReply,
    RecordSteer,
)
from holdfast.core.turns.tool import ReplayClass
from holdfast.testing.scripted_model import USAGE


class FullDiskStore(ControlledStore):
    """A store that refuses the next commands of a type, as a full disk does."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.refusals: Counter[type[Command[Any]]] = Counter()
        self.refused = asyncio.Event()

    def intercept(self, command: Command[Any], commit: Commit) -> Intercepted:
        if not self.refusals[type(command)]:
            return None
        self.refusals[type(command)] -= 1
        self.refused.set()
        return TransientStoreError("the disk is full")


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


@pytest.mark.parametrize("kind", [RecordReply, RecordCallsStarted, RecordCallResult])
async def test_a_turn_waits_for_disk_space_and_then_continues(
    full_disk: FullDiskHarness, call: Call, kind: type[Command[Any]]
) -> None:
    """K2, H1: the refused step is written later, and nothing is done twice. The start of the first
    call is written with the reply, that of the second on its own."""
    full_disk.store.refusals[kind] = 1
    full_disk.model.say([call("safe"), call("never")], "done")
    end = await full_disk.end_of(await full_disk.accept("work"))
    assert (end.state, end.text) == (InboxState.ANSWERED, "done")
    for replay in (ReplayClass.SAFE, ReplayClass.NEVER):
        assert len(full_disk.held_tools[replay].started) == 1
    assert len(full_disk.model.requests) == 2
    transcript = await full_disk.transcript(await full_disk.only_session())
    assert [m.outcome for m in transcript if isinstance(m, ToolMessage)] == [ToolOutcome.OK] * 2


async def test_a_reply_that_waited_for_disk_space_is_counted_once(
    full_disk: FullDiskHarness, call: Call
) -> None:
    """K2: the usage of the turn is the usage of the model."""
    full_disk.store.refusals[RecordReply] = 2
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
    full_disk.store.refusals[RecordSteer] = 1
    tool.go.set()
    assert (await full_disk.end_of(first)).text == "faster it is"
    request = await full_disk.model.wait_for_request(2)
    assert request.messages[-1].text == "faster"


@pytest.mark.parametrize("kind", [RecordReply, RecordCallsStarted, RecordCallResult])
async def test_a_turn_that_waits_for_disk_space_can_be_stopped(
    full_disk: FullDiskHarness, call: Call, kind: type[Command[Any]]
) -> None:
    """F9, H7: it ends with the steps in the store, and the next request is valid."""
    full_disk.store.refusals[kind] = 1000
    full_disk.model.say([call("safe"), call("never")], "the next answer")
    first = await full_disk.accept("work")
    await full_disk.store.refused.wait()
    await full_disk.accept("/stop")
    assert (await full_disk.end_of(first)).state is InboxState.SUPERSEDED
    full_disk.store.refusals.clear()
    assert (await full_disk.end_of(await full_disk.accept("again"))).text == "the next answer"
    transcript = await full_disk.transcript(await full_disk.only_session())
    results = [m for m in transcript if isinstance(m, ToolMessage)]
    results_by_kind: Mapping[type[Command[Any]], list[tuple[ToolOutcome, str]]] = {
        RecordReply: [],
        RecordCallsStarted: [(ToolOutcome.OK, ""), (ToolOutcome.NOT_STARTED, "not started")],
        RecordCallResult: [
            (ToolOutcome.CANCELLED, "may have had an effect"),
            (ToolOutcome.NOT_STARTED, "not started"),
        ],
    }
    expected = results_by_kind[kind]
    assert [result.outcome for result in results] == [outcome for outcome, _ in expected]
    assert all(
        words in result.text.lower() for result, (_, words) in zip(results, expected, strict=True)
    )

"""Tests of the commits of a turn: what is durable before the next step, and what its end contains
(H1, H2, H7)."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.gateway.turns.turn_helpers import tool_results
from tests.support.controlled_store import Commit, ControlledStore, Intercepted
from tests.support.gateway_harness import Call, GatewayHarness, HeldTool, Until
from tests.support.stops import wait_for_open_turns
from tests.support.store_file import open_read_only
from tests.support.stores import open_store

from holdfast.core.crash_points import CrashPoint
from holdfast.core.messages.inbox import InboxState
from holdfast.core.messages.transcript import Message, ToolOutcome
from holdfast.core.ports.command import Command
from holdfast.core.ports.store_commands import (
    RecordCallResult,
    RecordCallsStarted,
    RecordReply,
    SetMeta,
)
from holdfast.core.ports.store_queries import ListOpenTurns
from holdfast.core.turns.tool import ReplayClass
from holdfast.core.turns.turn import EndTurn

# Model requests, tool runs and sent messages while one kind of write is unconfirmed.
EXPECTED_WORK: Mapping[type[Command[Any]], tuple[int, int, int]] = {
    RecordReply: (1, 0, 0),  # with the start of the first call
    RecordCallResult: (1, 1, 0),
    RecordCallsStarted: (1, 1, 0),  # of the second call
    EndTurn: (2, 2, 0),
}


class UnconfirmedStepStore(ControlledStore):
    """A store that commits one type of command and confirms it only once `go` is set."""

    def __init__(self, path: Path, *, kind: type[Command[Any]]) -> None:
        super().__init__(path)
        self._kind = kind
        self.committed, self.go = asyncio.Event(), asyncio.Event()

    def intercept(self, command: Command[Any], commit: Commit) -> Intercepted:
        if type(command) is not self._kind or self.go.is_set():
            return None
        return self._confirm_later(commit())

    async def _confirm_later(self, durable: asyncio.Future[Any]) -> None:
        await durable
        self.committed.set()
        await self.go.wait()

    async def let_others_run(self) -> None:
        """Wait for several commits: enough time for code that does not wait for its own."""
        for number in range(5):
            await self.write(SetMeta(key="waited", value=str(number)))


@pytest.fixture
async def unconfirmed(
    tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[GatewayHarness]:
    harness = GatewayHarness(tmp_path / "state.db")
    harness.open_store = partial(UnconfirmedStepStore, kind=request.param)
    await harness.start()
    yield harness
    await harness.stop()


def work_done(harness: GatewayHarness) -> tuple[int, int, int]:
    pulled = len(harness.held_tools[ReplayClass.NEVER].started)
    return len(harness.model.requests), pulled, len(harness.service.ledger().sent)


@pytest.mark.parametrize(
    ("unconfirmed", "expected"),
    [*EXPECTED_WORK.items()],
    indirect=["unconfirmed"],
    ids=[kind.__name__ for kind in EXPECTED_WORK],
)
async def test_no_step_begins_before_the_previous_one_is_durable(
    unconfirmed: GatewayHarness, call: Call, expected: tuple[int, int, int]
) -> None:
    """H1, I1: a reply, a call started, a call finished and the end, each waited for."""
    assert isinstance(unconfirmed.store, UnconfirmedStepStore)
    unconfirmed.model.say([call("never"), call("never")], "done")
    unconfirmed.say("work")
    await unconfirmed.store.committed.wait()
    await unconfirmed.store.let_others_run()
    assert work_done(unconfirmed) == expected
    unconfirmed.store.go.set()
    assert await unconfirmed.texts(1) == ["done"]
    assert work_done(unconfirmed) == (2, 2, 1)


async def test_a_reply_that_was_committed_is_not_asked_for_again(
    harness: GatewayHarness, call: Call
) -> None:
    """H1: its remaining calls run; the model is not asked twice."""
    tool = harness.held_tools[ReplayClass.NEVER]
    tool.go.clear()
    harness.model.say([call("safe"), call("never"), call("attach")])
    accepted = await harness.accept("go")
    await tool.wait_until_started(1)
    await harness.die()
    tool.go.set()
    harness.model.say("done")
    await harness.start()
    assert (await harness.end_of(accepted)).text == "done"
    assert len(harness.model.requests) == 2
    pulled = [
        len(harness.held_tools[each].started) for each in (ReplayClass.SAFE, ReplayClass.NEVER)
    ]
    assert (pulled, len(harness.held_tools[ReplayClass.ATTACH].started)) == ([1, 1], 1)
    assert harness.held_tools[ReplayClass.ATTACH].attached == []  # it had not begun


async def test_only_the_unfinished_of_concurrent_calls_are_settled(
    harness: GatewayHarness, call: Call, until: Until
) -> None:
    """H1, H2: each has its own step; a recorded one is not run again with the other."""
    await harness.stop()
    quick = HeldTool("quick", ReplayClass.SAFE)
    harness.extra_tools = [quick]
    await harness.start()
    slow = harness.held_tools[ReplayClass.SAFE]
    slow.go.clear()
    harness.model.say([call("quick"), call("safe")])
    accepted = await harness.accept("go")
    await slow.wait_until_started(1)

    async def one_is_recorded() -> bool:
        return len(tool_results(await harness.transcript(await harness.only_session()))) == 1

    await until(one_is_recorded)
    await harness.die()
    slow.go.set()
    harness.model.say("done")
    await harness.start()
    await harness.end_of(accepted)
    assert (len(quick.started), len(slow.started)) == (1, 2)


async def test_a_call_whose_tool_is_gone_has_an_unknown_outcome(
    harness: GatewayHarness, call: Call
) -> None:
    """H2: it may have run before the tool was removed."""
    await harness.stop()
    removed_tool = HeldTool("gone", ReplayClass.ATTACH)
    removed_tool.go.clear()
    harness.extra_tools = [removed_tool]
    await harness.start()
    harness.model.say([call("gone")])
    accepted = await harness.accept("go")
    await removed_tool.wait_until_started(1)
    await harness.die()
    harness.extra_tools = []
    harness.model.say("done")
    await harness.start()
    await harness.end_of(accepted)
    [result] = tool_results(harness.model.requests[-1].messages)
    assert result.outcome is ToolOutcome.UNKNOWN
    assert "check before you repeat it" in result.text


class HeldEndStore(ControlledStore):
    """A store that commits no end of a turn until `go` is set."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.ending, self.go = asyncio.Event(), asyncio.Event()

    def intercept(self, command: Command[Any], commit: Commit) -> Intercepted:
        return self._end_when_released(commit) if isinstance(command, EndTurn) else None

    async def _end_when_released(self, commit: Commit) -> Any:
        self.ending.set()
        await self.go.wait()
        return await commit()


async def test_a_turn_that_new_has_ended_is_not_resumed(harness: GatewayHarness) -> None:
    """H3, G4: killed between the commit of /new and that of the end of the turn it stopped."""
    await harness.stop()
    harness.open_store = HeldEndStore
    await harness.start()
    accepted = await harness.accept("work")
    await harness.model.wait_for_request(1)
    await wait_for_open_turns(harness)
    new = await harness.accept("/new")
    assert (await harness.end_of(new)).state is InboxState.ANSWERED
    assert isinstance(harness.store, HeldEndStore)
    await harness.store.ending.wait()
    store, harness.open_store = harness.store, open_store
    store.go.set()  # for the dying process; `die` copies the file first
    await harness.die()
    await harness.start()
    assert (await harness.end_of(accepted)).state is InboxState.SUPERSEDED
    assert await harness.store.read(ListOpenTurns()) == []
    assert len(harness.model.requests) == 1


class TurnCommitObserver:
    """Records what another process would find after each commit: the state of the turn and the
    outcomes of its calls."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.found: list[tuple[str, list[ToolOutcome]]] = []

    def __call__(self, point: CrashPoint) -> None:
        if point is not CrashPoint.AFTER_COMMIT:
            return
        with open_read_only(self._path) as db:
            state = db.execute("SELECT state FROM turns ORDER BY started_at").fetchone()
            bodies = db.execute("SELECT body FROM messages ORDER BY seq").fetchall()
        messages = [msgspec.json.decode(str(body), type=Message) for (body,) in bodies]
        outcomes = [result.outcome for result in tool_results(messages)]
        self.found.append((str(state[0]) if state else "", outcomes))


@pytest.mark.parametrize(("text", "end"), [("rather this", "interrupted"), ("/stop", "superseded")])
async def test_the_commit_that_ends_a_turn_has_the_result_of_every_open_call(
    harness: GatewayHarness, call: Call, until: Until, text: str, end: str
) -> None:
    """H7: no other process ever finds the end without the results, or a result without the end."""
    await harness.stop()
    observer = TurnCommitObserver(harness.path)
    harness.open_store = partial(open_store, crash=observer)
    await harness.start()
    tool = harness.held_tools[ReplayClass.NEVER]
    tool.go.clear()
    harness.model.say([call("never"), call("attach")])
    harness.say("go")
    await tool.wait_until_started(1)
    harness.say(text)
    await until(lambda: (end, [ToolOutcome.CANCELLED, ToolOutcome.NOT_STARTED]) in observer.found)
    before = [found for state, found in observer.found if state == "open"]
    assert all(found == [] for found in before)
    assert {state for state, _ in observer.found} == {"", "open", end}
    assert all(len(found) == 2 for state, found in observer.found if state == end)

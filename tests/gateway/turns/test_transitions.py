"""Each legal change of a turn's state is made by the gateway: none is in the table for nothing
(H3, H6, F5)."""

from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import pairwise
from pathlib import Path

import pytest
from tests.support.gateway_harness import Call, Until
from tests.support.race_harness import GatedStore, RaceHarness
from tests.support.stops import mark_running_turns

from holdfast.core.messages.source import Source, build_session_key
from holdfast.core.turns.stop import TurnExitReason
from holdfast.core.turns.tool import ReplayClass
from holdfast.core.turns.turn_state import TURN_TRANSITIONS, TurnLifecycle, TurnState
from holdfast.testing.scripted_model import ManualReply

KEY = build_session_key(Source(platform="api", chat_id="one", user_id="owner"))
RESTART = TurnExitReason.RESTART_TIMEOUT


class TurnDriver:
    """Owns a gateway whose turns are brought to a state, and the states that they pass."""

    def __init__(self, harness: RaceHarness, call: Call, until: Until) -> None:
        self.harness = harness
        self.until = until
        self._call = call
        self._passed: dict[TurnLifecycle, list[TurnState]] = {}

    def record(self, turn: TurnLifecycle, before: TurnState) -> None:
        self._passed.setdefault(turn, [before]).append(turn.state)

    @property
    def paths(self) -> list[str]:
        return [" ".join(path) for path in self._passed.values()]

    def park(self) -> None:
        self.harness.gateway.lanes.park()

    def leave(self) -> None:
        mark_running_turns(self.harness, RESTART)

    def cut(self) -> None:
        self.harness.gateway.lanes.cut("a restart", detached=False)

    async def start_call(self) -> None:
        """Until a turn waits for the result of a tool."""
        tool = self.harness.held_tools[ReplayClass.NEVER]
        tool.go.clear()
        self.harness.model.say([self._call("never")])
        await self.harness.accept("work")
        await tool.wait_until_started(1)

    def end_call(self) -> None:
        self.harness.held_tools[ReplayClass.NEVER].go.set()

    async def start_reply(self) -> ManualReply:
        """Until a turn waits for the model."""
        reply = ManualReply()
        self.harness.model.say(reply)
        await self.harness.accept("work")
        await self.harness.model.wait_for_request(1)
        return reply

    async def ask(self) -> None:
        """Until a turn waits for a person."""
        await self.harness.start_waiting_turn(self._call)

    async def start_asking(self) -> None:
        """Until the question of a turn is about to be stored."""
        gate = self.harness.store.ask_gate
        gate.close()
        self.harness.model.say([self._call("shell", '{"command": "rm -rf build"}')])
        await self.harness.accept("clean up")
        await self.until(lambda: gate.is_reached)

    async def start_resuming(self) -> None:
        """Until a turn that waited was answered, and its agent is being built."""
        await self.ask()
        gate = self.harness.store.read_gate
        self.harness.gateway.cache.drop(await self.harness.only_session())
        gate.close()
        await self.harness.accept("/approve")
        await self.until(lambda: gate.is_reached)


async def answer(driver: TurnDriver) -> None:
    driver.harness.model.say("hi")
    await driver.harness.accept("hello")


async def approve(driver: TurnDriver) -> None:
    await driver.ask()
    driver.harness.model.say("done")
    await driver.harness.accept("/approve")


async def stop_while_it_waits(driver: TurnDriver) -> None:
    await driver.ask()
    await driver.harness.accept("/stop")


async def stop_while_it_resumes(driver: TurnDriver) -> None:
    await driver.start_resuming()
    stopped = await driver.harness.accept("/stop")
    driver.harness.store.read_gate.go.set()
    await driver.harness.end_of(stopped)


async def no_agent(driver: TurnDriver) -> None:
    driver.harness.model.unavailable = True
    await driver.harness.accept("hello")


async def refused_beginning(driver: TurnDriver) -> None:
    driver.harness.store.refusals = 1
    driver.harness.model.say("one", "two")
    await driver.harness.accept("hello")


async def suspended_while_it_waits(driver: TurnDriver) -> None:
    await driver.ask()
    assert await driver.harness.gateway.sessions.suspend_session(KEY)
    await driver.harness.die()
    await driver.harness.start()


async def end_while_parking(driver: TurnDriver) -> None:
    reply = await driver.start_reply()
    driver.park()
    reply.say("hi")
    reply.end()


async def end_while_marked(driver: TurnDriver) -> None:
    reply = await driver.start_reply()
    driver.leave()
    reply.say("hi")
    reply.end()


async def park(driver: TurnDriver) -> None:
    await driver.start_call()
    driver.park()
    driver.end_call()


async def leave_while_it_waits(driver: TurnDriver) -> None:
    await driver.ask()
    driver.leave()


async def leave_while_it_resumes(driver: TurnDriver) -> None:
    await driver.start_resuming()
    driver.leave()
    driver.harness.store.read_gate.go.set()


def open_gated_at_reads(path: Path) -> GatedStore:
    store = GatedStore(path)
    store.read_gate.close()
    return store


async def leave_before_it_is_resumed(driver: TurnDriver) -> None:
    await driver.start_call()
    await driver.harness.die()
    driver.harness.open_store = open_gated_at_reads
    await driver.harness.start()
    await driver.until(lambda: driver.harness.store.read_gate.is_reached)
    driver.leave()
    driver.harness.store.read_gate.go.set()


async def ask_while_parking(driver: TurnDriver) -> None:
    await driver.start_asking()
    driver.park()
    driver.harness.store.ask_gate.go.set()


async def ask_while_marked(driver: TurnDriver) -> None:
    await driver.start_asking()
    driver.leave()
    driver.harness.store.ask_gate.go.set()


async def cut(driver: TurnDriver) -> None:
    await driver.start_call()
    driver.cut()


async def cut_while_parking(driver: TurnDriver) -> None:
    await driver.start_call()
    driver.park()
    driver.cut()


async def cut_while_marked(driver: TurnDriver) -> None:
    await driver.start_call()
    driver.park()
    driver.leave()
    driver.cut()


async def mark_and_cut(driver: TurnDriver) -> None:
    await driver.start_call()
    driver.leave()
    driver.cut()


PATHS: dict[Callable[[TurnDriver], Awaitable[None]], str] = {
    answer: "starting running closing ended",
    approve: "starting running waiting starting running closing ended",
    stop_while_it_waits: "starting running waiting stopping closing ended",
    stop_while_it_resumes: "starting running waiting starting stopping closing ended",
    no_agent: "starting closing ended",
    refused_beginning: "starting running closing discarded",
    suspended_while_it_waits: "waiting closing ended",
    end_while_parking: "starting running parking closing ended",
    end_while_marked: "starting running marked closing ended",
    park: "starting running parking parked",
    leave_while_it_waits: "starting running waiting parked",
    leave_while_it_resumes: "starting running waiting starting parked",
    leave_before_it_is_resumed: "starting unresumed",
    ask_while_parking: "starting running parking waiting",
    ask_while_marked: "starting running marked waiting",
    cut: "starting running cut",
    cut_while_parking: "starting running parking cut",
    cut_while_marked: "starting running parking marked cut",
    mark_and_cut: "starting running marked cut",
}


@pytest.fixture
async def driver(
    tmp_path: Path, call: Call, until: Until, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[TurnDriver]:
    harness = RaceHarness(tmp_path / "state.db")
    driver, move = TurnDriver(harness, call, until), TurnLifecycle.move

    def recorded(turn: TurnLifecycle, to: TurnState) -> None:
        before = turn.state
        move(turn, to)
        driver.record(turn, before)

    monkeypatch.setattr(TurnLifecycle, "move", recorded)
    await harness.start()
    yield driver
    driver.end_call()
    await harness.stop()


@pytest.mark.parametrize(("drive", "path"), PATHS.items(), ids=[drive.__name__ for drive in PATHS])
async def test_a_turn_passes_these_states(
    driver: TurnDriver, drive: Callable[[TurnDriver], Awaitable[None]], path: str
) -> None:
    await drive(driver)
    await driver.until(lambda: path in driver.paths)


def test_each_legal_change_is_on_one_of_these_paths() -> None:
    """A change that nothing makes would hide that something makes it by mistake."""
    taken = {
        (TurnState(one), TurnState(two))
        for path in PATHS.values()
        for one, two in pairwise(path.split())
    }
    assert taken == {(state, to) for state, others in TURN_TRANSITIONS.items() for to in others}

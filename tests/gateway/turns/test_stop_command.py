"""Chapter F, /stop: it ends the turn for good, and where that is not enough, the conversation."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.gateway_harness import Call, GatewayHarness, HeldTool, ManualClock

from holdfast.core.messages.source import Source, build_session_key
from holdfast.core.sessions.session import SessionRow
from holdfast.core.turns.tool import Arguments, ReplayClass, ToolContext, ToolOutput
from holdfast.gateway.sessions.teardown import ForceStop
from holdfast.gateway.turns.lane import Lane

KEY = build_session_key(Source(platform="simulated", chat_id="home", user_id="ann"))


@pytest.fixture
async def held(tmp_path: Path) -> AsyncIterator[GatewayHarness]:
    """A harness whose clock is moved by hand."""
    harness = GatewayHarness(tmp_path / "state.db")
    harness.clock = ManualClock()
    await harness.start()
    yield harness
    await harness.stop()


def later(harness: GatewayHarness, seconds: float) -> None:
    assert isinstance(harness.clock, ManualClock)
    harness.clock.at += seconds


async def here(harness: GatewayHarness) -> SessionRow:
    pointed = await harness.store.route_target(KEY)
    assert pointed is not None
    found = await harness.store.session(pointed.session_id)
    assert found is not None
    return found


async def stopped(harness: GatewayHarness, request: int, *, sent: int) -> None:
    """A turn, and a /stop in the middle of it."""
    harness.say("work")
    await harness.model.wait_for_request(request)
    harness.say("/stop")
    await harness.sent(sent)


async def test_one_stop_keeps_the_conversation(held: GatewayHarness) -> None:
    """F9: and so does another, a minute later."""
    await stopped(held, 1, sent=1)
    before = await here(held)
    later(held, 61)
    await stopped(held, 2, sent=2)
    assert not (await here(held)).suspended
    assert (await here(held)).id == before.id


async def test_a_second_stop_within_a_minute_suspends_the_session(
    held: GatewayHarness,
) -> None:
    """F9: that session alone; its history stays under /resume."""
    held.model.say("hello")
    held.say("hi", chat="elsewhere")
    await held.sent(1)
    await stopped(held, 2, sent=2)
    before = await here(held)
    later(held, 30)
    await stopped(held, 3, sent=4)
    texts = await held.texts(4)
    assert texts[1:3] == ["Stopped.", "Stopped."]
    assert "set aside" in texts[3]
    assert "/resume" in texts[3]
    rows = {row.id: row.suspended for row in await held.store.sessions(limit=5)}
    assert [one for one, suspended in rows.items() if suspended] == [before.id]
    held.model.say("afresh")
    held.say("hi")
    await held.sent(6)
    assert (await here(held)).id != before.id
    held.say("/resume")
    await held.sent(7)
    assert (await here(held)).id == before.id


async def test_a_second_stop_suspends_the_session_even_if_nothing_runs(
    held: GatewayHarness,
) -> None:
    """F9: whoever says it twice sees something that we do not."""
    await stopped(held, 1, sent=1)
    later(held, 5)
    held.say("/stop")
    texts = await held.texts(3)
    assert texts[1] == "Nothing is running."
    assert (await here(held)).suspended


async def test_a_stop_when_nothing_ran_does_not_count(held: GatewayHarness) -> None:
    """F9."""
    held.model.say("hello")
    held.say("hi")
    await held.sent(1)
    for number in (2, 3):
        held.say("/stop")
        await held.sent(number)
    assert not (await here(held)).suspended


class Deaf(HeldTool):
    """A tool that does not let itself be cancelled, until the test lets it go."""

    def __init__(self) -> None:
        super().__init__("deaf", ReplayClass.NEVER)
        self.go.clear()

    async def run(self, context: ToolContext, arguments: Arguments) -> ToolOutput:
        async with self._pulled:
            self.started.append(context.call_id)
            self._pulled.notify_all()
        while not self.go.is_set():
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                self.cancelled.append(context.call_id)
        return ToolOutput(text="at last")


async def test_a_turn_that_does_not_unwind_suspends_its_session(
    harness: GatewayHarness, call: Call
) -> None:
    """F9: by the page's button too; what is said next is answered in a fresh session at once."""
    await harness.stop()
    deaf = Deaf()
    harness.extra_tools = [deaf]
    await harness.start()
    harness.model.say([call("deaf")])
    harness.say("work")
    await deaf.wait_until_started(1)
    before = await here(harness)
    gateway = harness.gateway
    insisting = ForceStop(
        gateway.services, gateway.lanes, suspend=gateway.sessions.suspend, unwind_timeout=0.05
    )
    assert await insisting.stop(before.id)
    assert deaf.cancelled
    assert (await here(harness)).suspended
    harness.model.say("afresh")
    harness.say("are you there?")
    assert "afresh" in (await harness.texts(2))[-1]
    assert (await here(harness)).id != before.id
    deaf.go.set()


async def test_the_stop_button_pressed_twice_within_a_minute_suspends_the_session(
    held: GatewayHarness,
) -> None:
    """F9: the page's stop button is /stop without a message."""
    for number in (1, 2):
        held.say("work")
        await held.model.wait_for_request(number)
        assert await held.gateway.force_stop.stop((await here_live(held)).session_id)
        later(held, 10)
    assert (await here(held)).suspended


async def here_live(held: GatewayHarness) -> Lane:
    async with asyncio.timeout(30):
        while not any(lane.running_turn for lane in held.gateway.lanes):
            await asyncio.sleep(0.005)
    return next(lane for lane in held.gateway.lanes if lane.running_turn)

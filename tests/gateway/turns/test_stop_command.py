"""Tests of /stop: it ends the turn and, if that is not enough, suspends the session (F9)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.gateway_harness import Call, GatewayHarness, HeldTool, ManualClock, Until

from holdfast.core.messages.source import Source, build_session_key
from holdfast.core.messages.transcript import AssistantMessage, StopReason
from holdfast.core.ports.store_queries import (
    GetRouteTarget,
    GetSession,
    GetTranscript,
    ListSessions,
)
from holdfast.core.sessions.session import SessionRow
from holdfast.core.turns.tool import Arguments, ReplayClass, ToolContext, ToolOutput
from holdfast.gateway.sessions.teardown import ForceStop
from holdfast.gateway.turns.lane import Lane
from holdfast.testing.scripted_model import ManualReply

KEY = build_session_key(Source(platform="simulated", chat_id="home", user_id="ann"))


@pytest.fixture
async def manual_harness(tmp_path: Path) -> AsyncIterator[GatewayHarness]:
    """A harness with a manual clock."""
    harness = GatewayHarness(tmp_path / "state.db")
    harness.clock = ManualClock()
    await harness.start()
    yield harness
    await harness.stop()


def advance(harness: GatewayHarness, seconds: float) -> None:
    assert isinstance(harness.clock, ManualClock)
    harness.clock.at += seconds


async def current_session(harness: GatewayHarness) -> SessionRow:
    pointed = await harness.store.read(GetRouteTarget(key=KEY))
    assert pointed is not None
    found = await harness.store.read(GetSession(session_id=pointed.session_id))
    assert found is not None
    return found


async def start_and_stop_turn(harness: GatewayHarness, request: int, *, sent: int) -> None:
    """Start a turn and send /stop while it runs."""
    harness.say("work")
    await harness.model.wait_for_request(request)
    harness.say("/stop")
    await harness.sent(sent)


async def test_one_stop_keeps_the_conversation(manual_harness: GatewayHarness) -> None:
    """F9: and so does another, a minute later."""
    await start_and_stop_turn(manual_harness, 1, sent=1)
    before = await current_session(manual_harness)
    advance(manual_harness, 61)
    await start_and_stop_turn(manual_harness, 2, sent=2)
    assert not (await current_session(manual_harness)).suspended
    assert (await current_session(manual_harness)).id == before.id


async def test_a_stop_keeps_what_was_streamed_of_the_reply_marked_as_stopped(
    manual_harness: GatewayHarness, until: Until
) -> None:
    """F9: the user has read it, so the model sees it, too, and that it was stopped."""
    reply = ManualReply()
    manual_harness.model.say(reply, "as you wish")
    manual_harness.say("work")
    await manual_harness.model.wait_for_request(1)
    reply.say("The first words")
    await until(lambda: streamed_text(manual_harness) == "The first words")
    manual_harness.say("/stop")
    await manual_harness.sent(1)
    session = await current_session(manual_harness)
    records = await manual_harness.store.read(GetTranscript(session_id=session.id))
    stopped = AssistantMessage(text="The first words", stop=StopReason.STOPPED)
    assert records[-1].message == stopped
    manual_harness.say("shorter")
    request = await manual_harness.model.wait_for_request(2)
    texts = [each.text for each in request.messages if isinstance(each, AssistantMessage)]
    assert texts == ["The first words\n\n[The user stopped this reply here.]"]


def streamed_text(harness: GatewayHarness) -> str:
    """The live text of the only turn."""
    (lane,) = harness.gateway.lanes
    assert lane.turn is not None
    return lane.turn.context.output.live.text


async def test_a_second_stop_within_a_minute_suspends_the_session(
    manual_harness: GatewayHarness,
) -> None:
    """F9: that session alone; its history stays under /resume."""
    manual_harness.model.say("hello")
    manual_harness.say("hi", chat="elsewhere")
    await manual_harness.sent(1)
    await start_and_stop_turn(manual_harness, 2, sent=2)
    before = await current_session(manual_harness)
    advance(manual_harness, 30)
    await start_and_stop_turn(manual_harness, 3, sent=4)
    texts = await manual_harness.texts(4)
    assert texts[1:3] == ["Stopped.", "Stopped."]
    assert "suspended" in texts[3]
    assert "/resume" in texts[3]
    rows = {row.id: row.suspended for row in await manual_harness.store.read(ListSessions(limit=5))}
    assert [one for one, suspended in rows.items() if suspended] == [before.id]
    manual_harness.model.say("afresh")
    manual_harness.say("hi")
    await manual_harness.sent(6)
    assert (await current_session(manual_harness)).id != before.id
    manual_harness.say("/resume")
    await manual_harness.sent(7)
    assert (await current_session(manual_harness)).id == before.id


async def test_a_second_stop_suspends_the_session_even_if_nothing_runs(
    manual_harness: GatewayHarness,
) -> None:
    """F9: the user repeats it because something still looks wrong."""
    await start_and_stop_turn(manual_harness, 1, sent=1)
    advance(manual_harness, 5)
    manual_harness.say("/stop")
    texts = await manual_harness.texts(3)
    assert texts[1] == "Nothing is running."
    assert (await current_session(manual_harness)).suspended


async def test_a_stop_when_nothing_ran_does_not_count(manual_harness: GatewayHarness) -> None:
    """F9."""
    manual_harness.model.say("hello")
    manual_harness.say("hi")
    await manual_harness.sent(1)
    for number in (2, 3):
        manual_harness.say("/stop")
        await manual_harness.sent(number)
    assert not (await current_session(manual_harness)).suspended


class UncancellableTool(HeldTool):
    """A tool that ignores cancellation until the test sets `go`."""

    def __init__(self) -> None:
        super().__init__("uncancellable", ReplayClass.NEVER)
        self.go.clear()

    async def run(self, context: ToolContext, arguments: Arguments) -> ToolOutput:
        async with self._changed:
            self.started.append(context.call_id)
            self._changed.notify_all()
        while not self.go.is_set():
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                self.cancelled.append(context.call_id)
        return ToolOutput(text="at last")


async def test_a_turn_that_does_not_unwind_suspends_its_session(
    harness: GatewayHarness, call: Call
) -> None:
    """F9: also by the page's button; the next message is answered in a fresh session at once."""
    await harness.stop()
    tool = UncancellableTool()
    harness.extra_tools = [tool]
    await harness.start()
    harness.model.say([call("uncancellable")])
    harness.say("work")
    await tool.wait_until_started(1)
    before = await current_session(harness)
    gateway = harness.gateway
    force_stop = ForceStop(
        harness.store,
        gateway.lanes,
        stopper=gateway.stopper,
        clock=harness.clock,
        suspend=gateway.sessions.suspend,
        unwind_timeout=0.05,
    )
    assert await force_stop.stop(before.id)
    assert tool.cancelled
    assert (await current_session(harness)).suspended
    harness.model.say("afresh")
    harness.say("are you there?")
    assert "afresh" in (await harness.texts(2))[-1]
    assert (await current_session(harness)).id != before.id
    tool.go.set()


async def test_the_stop_button_pressed_twice_within_a_minute_suspends_the_session(
    manual_harness: GatewayHarness,
) -> None:
    """F9: the page's stop button is /stop without a message."""
    for number in (1, 2):
        manual_harness.say("work")
        await manual_harness.model.wait_for_request(number)
        assert await manual_harness.gateway.force_stop.stop(
            (await wait_for_running_lane(manual_harness)).session_id
        )
        advance(manual_harness, 10)
    assert (await current_session(manual_harness)).suspended


async def wait_for_running_lane(manual_harness: GatewayHarness) -> Lane:
    async with asyncio.timeout(30):
        while not any(lane.running_turn for lane in manual_harness.gateway.lanes):
            await asyncio.sleep(0.005)
    return next(lane for lane in manual_harness.gateway.lanes if lane.running_turn)

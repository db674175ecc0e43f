"""Session feeds: which events a reader gets and when, and the memory bound of a slow reader."""

import asyncio
from typing import Any

import msgspec
import pytest
from tests.support.gateway_harness import Call, GatewayHarness, ManualClock, NoRunners, Until

from holdfast.core.config.settings import SessionSettings
from holdfast.core.errors import InvalidTransition
from holdfast.core.ids import CallId, InboxId, SessionId, SessionKey, TurnId
from holdfast.core.messages.events import (
    ReasoningStreamed,
    RetryScheduled,
    StreamVoided,
    TextStreamed,
    ToolProgressed,
    ToolStarted,
    TurnEvent,
)
from holdfast.core.messages.inbox import BusyMode
from holdfast.core.messages.transcript import AssistantMessage
from holdfast.core.people.audit import AuditEntry, AuditKind
from holdfast.core.ports.command import Command, Committed
from holdfast.core.ports.store_commands import (
    ExpireSession,
    OpenNewSession,
    OpenSession,
    RecordReply,
    RenameSession,
    ReplaceSessionTitle,
    SuspendSession,
)
from holdfast.core.sessions.reset import ResetMode
from holdfast.core.turns.model import ModelFault
from holdfast.core.turns.tool import ReplayClass
from holdfast.core.turns.turn import Usage
from holdfast.gateway.live.feeds import News, PieceState, SessionFeed, SessionFeeds
from holdfast.gateway.live.live_step import LiveStep

SESSION, OTHER_SESSION = SessionId("here"), SessionId("elsewhere")
ROUTE = SessionKey("route")


def _reply_of(session_id: SessionId) -> Committed:
    reply = RecordReply(
        session_id=session_id,
        turn_id=TurnId("t"),
        message=AssistantMessage(text="yes", model="m"),
        usage=Usage(),
        at=1.0,
    )
    return Committed(reply, None)


async def test_a_reader_gets_only_events_of_its_own_session() -> None:
    feeds = SessionFeeds()
    with feeds.read_session(SESSION) as feed:
        feeds.publish(OTHER_SESSION, TextStreamed("no"))
        feeds.on_committed(_reply_of(OTHER_SESSION))
        feeds.session_changed(OTHER_SESSION)
        assert not feed.wake.is_set()
        feeds.publish(SESSION, TextStreamed("yes"))
        assert feed.wake.is_set() and feed.pieces == [TextStreamed("yes")]
    feeds.publish(SESSION, TextStreamed("gone"))
    assert feed.pieces == [TextStreamed("yes")]


async def test_the_first_piece_wakes_a_reader_at_once_and_the_next_are_batched() -> None:
    feeds = SessionFeeds()
    with feeds.read_session(SESSION) as feed:
        feeds.publish(SESSION, TextStreamed("a"))
        assert feed.wake.is_set()
        feed.wake.clear()
        assert feed.take_pieces() == [TextStreamed("a")]
        feeds.publish(SESSION, TextStreamed("b"))
        feeds.publish(SESSION, TextStreamed("c"))
        assert not feed.wake.is_set()
        async with asyncio.timeout(30):
            await feed.wake.wait()
        assert feed.take_pieces() == [TextStreamed("b"), TextStreamed("c")]


async def test_a_commit_wakes_a_reader_without_waiting_for_pieces() -> None:
    feeds = SessionFeeds()
    with feeds.read_session(SESSION) as feed:
        feed.take_pieces()
        feeds.publish(SESSION, TextStreamed("a"))
        assert not feed.wake.is_set()
        feeds.on_committed(_reply_of(SESSION))
        assert feed.wake.is_set() and feed.take(News.RECORDS)


async def test_a_reader_is_told_each_news_once_and_stays_closed() -> None:
    feeds = SessionFeeds()
    with feeds.read_session(SESSION) as feed, feeds.read_changes() as changes:
        feeds.session_changed(SESSION)
        feeds.audit_changed()
        feeds.close()
        assert feed.take(News.SESSION) and not feed.take(News.SESSION | News.RECORDS)
        assert changes.take(News.AUDIT) and not changes.take(News.GATEWAY)
        assert feed.closed and changes.closed


async def test_a_stale_reader_gets_the_whole_step_and_then_pieces_again() -> None:
    feeds = SessionFeeds()
    with feeds.read_session(SESSION) as feed:
        feeds.publish(SESSION, TextStreamed("a"))
        feeds.live_step_replaced(SESSION)
        feeds.publish(SESSION, TextStreamed("b"))
        assert feed.state is PieceState.STALE and feed.take_pieces() == []
        feeds.publish(SESSION, TextStreamed("c"))
        assert feed.state is PieceState.PENDING and feed.take_pieces() == [TextStreamed("c")]
        assert feed.state is PieceState.SENT


async def test_a_reader_that_takes_nothing_uses_bounded_memory() -> None:
    feeds = SessionFeeds()
    with feeds.read_session(SESSION) as feed:
        for number in range(100_000):
            feeds.publish(SESSION, TextStreamed(str(number)))
        assert feed.state is PieceState.STALE and len(feed.pieces) == 0
        feed.take_pieces()
        assert feed.state is PieceState.SENT
        feeds.publish(SESSION, TextStreamed("on it goes"))
        assert feed.pieces == [TextStreamed("on it goes")]


async def test_closing_ends_every_reader_and_accepts_no_new_one() -> None:
    feeds = SessionFeeds()
    with feeds.read_session(SESSION) as feed, feeds.read_changes() as changes:
        feeds.close()
        assert feed.closed and changes.closed and feed.wake.is_set() and changes.wake.is_set()
    with feeds.read_session(SESSION) as late:
        assert late.closed


async def test_a_deleted_session_is_announced_and_ends_its_readers() -> None:
    feeds = SessionFeeds()
    with feeds.read_session(SESSION) as feed, feeds.read_changes() as changes:
        feeds.session_changed(SESSION)
        feeds.session_deleted(SESSION)
        assert feed.closed and changes.deleted == [SESSION] and not changes.sessions


@pytest.mark.parametrize(
    ("command", "changed", "unchanged"),
    [
        (OpenSession(session_id=SESSION, route=ROUTE, at=1.0), SESSION, OTHER_SESSION),
        (
            OpenNewSession(session_id=SESSION, route=ROUTE, principal=None, reset=None, at=1.0),
            SESSION,
            OTHER_SESSION,
        ),
        (ReplaceSessionTitle(session_id=SESSION, title="a", expected="b"), True, False),
        (SuspendSession(session_id=SESSION), True, False),
        (ExpireSession(session_id=SESSION, active_at=1.0, at=2.0), True, False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Command) else "",
)
async def test_a_command_is_announced_if_its_result_says_that_it_changed_the_session(
    command: Command[Any], changed: object, unchanged: object
) -> None:
    feeds = SessionFeeds()
    with feeds.read_changes() as changes:
        feeds.on_committed(Committed(command, unchanged))
        assert not changes.wake.is_set() and not changes.sessions
        feeds.on_committed(Committed(command, changed))
        assert changes.wake.is_set() and changes.sessions == {SESSION}


async def test_a_commit_that_adds_to_the_audit_is_announced_by_its_event(
    harness: GatewayHarness,
) -> None:
    """Whatever command it is of, and only if it changed something."""
    harness.model.say("yes")
    await harness.end_of(await harness.accept("hello"))
    session = await harness.only_session()
    with harness.gateway.feeds.read_changes() as changes:
        for _ in range(2):
            await harness.store.write(SuspendSession(session_id=session))
        assert not changes.take(News.AUDIT)
        assert not await harness.gateway.sessions.suspend(session)
        assert not changes.take(News.AUDIT)
        entry = AuditEntry(kind=AuditKind.SESSION_RENAMED, actor="ann", at=1.0)
        await harness.store.write(RenameSession(session_id=session, title="new"), audit=entry)
        assert changes.take(News.AUDIT)


async def test_a_deletion_is_announced_once(harness: GatewayHarness) -> None:
    harness.model.say("yes")
    await harness.end_of(await harness.accept("hello"))
    session = await harness.only_session()
    with harness.gateway.feeds.read_changes() as changes:
        await harness.gateway.delete_session(session)
        assert changes.deleted == [session]


class SlowRunners(NoRunners):
    """Runners whose end of a session is held."""

    def __init__(self) -> None:
        super().__init__()
        self.ending = asyncio.Event()
        self.go = asyncio.Event()

    async def end_session(self, session_id: SessionId) -> None:
        self.ending.set()
        await self.go.wait()


async def test_an_expiry_is_announced_once_and_before_the_resources_are_released(
    harness: GatewayHarness, until: Until
) -> None:
    """It is stored by then, and a holder of resources may need seconds to release them."""
    await harness.stop()
    harness.runners = runners = SlowRunners()
    harness.clock = clock = ManualClock()
    sessions = SessionSettings(reset=ResetMode.IDLE, idle_minutes=60)
    harness.settings = msgspec.structs.replace(harness.settings, sessions=sessions)
    await harness.start()
    harness.model.say("yes")
    await harness.end_of(await harness.accept("hello"))
    await until(lambda: not len(harness.gateway.lanes))
    session = await harness.only_session()
    clock.at += 3600
    with harness.gateway.feeds.read_changes() as changes:
        expiry = asyncio.create_task(harness.gateway.expiry.run_once())
        await runners.ending.wait()
        assert changes.sessions == {session}
        changes.sessions.clear()
        runners.go.set()
        await expiry
        assert not changes.sessions


async def test_readers_see_that_a_waiting_message_has_moved_to_another_session(
    harness: GatewayHarness, call: Call, until: Until
) -> None:
    """The turn that it waited for runs on, in the session that was suspended."""
    tool = harness.held_tools[ReplayClass.SAFE]
    tool.go.clear()
    harness.model.say([call("safe")], "first", "second")
    first = await harness.accept("work")
    await tool.wait_until_started(1)
    second = await harness.accept("and then", busy_mode=BusyMode.QUEUE)
    session = await harness.only_session()
    lane = harness.gateway.lanes.get(session)
    assert lane is not None
    seen: list[list[InboxId]] = []

    async def read(feed: SessionFeed) -> None:
        while True:
            seen.append([row.id for row in lane.waiting_messages])
            await feed.wake.wait()
            feed.wake.clear()

    with harness.gateway.feeds.read_session(session) as feed:
        reading = asyncio.create_task(read(feed))
        await until(lambda: seen[-1:] == [[second.row.id]])
        assert await harness.gateway.sessions.suspend(session)
        await until(lambda: seen[-1:] == [[]])
        reading.cancel()
    tool.go.set()
    await harness.end_of(first)
    await harness.end_of(second)


async def test_shutdown_listeners_end_when_the_gateway_stops() -> None:
    feeds = SessionFeeds()
    with feeds.listen_for_shutdown() as listener:
        feeds.session_changed(SESSION)
        feeds.gateway_changed()
        assert not listener.wake.is_set(), "a shutdown listener gets no other event"
        feeds.close()
        assert listener.closed and listener.wake.is_set()
    with feeds.listen_for_shutdown() as late:
        assert late.closed


def test_committed_output_is_removed_from_the_live_step() -> None:
    step, call = LiveStep(now=lambda: 1.0), CallId("c1")
    assert step.add(TextStreamed("hello "))
    assert step.add(TextStreamed("there"))
    assert step.text == "hello there"
    step.clear_reply()
    assert step.text == ""
    assert not step.add(ToolStarted(call, "terminal", "{}"))
    assert step.add(ToolProgressed(call, "out"))
    assert [running.output for running in step.calls] == ["out"]
    step.remove_call(call)
    assert list(step.calls) == []
    assert not step.add(ToolProgressed(call, "too late"))


@pytest.mark.parametrize("answer", [TextStreamed("h"), ReasoningStreamed("h"), StreamVoided("x")])
def test_a_retry_is_live_until_the_model_sends_something(answer: TurnEvent) -> None:
    step, retry = LiveStep(now=lambda: 1.0), RetryScheduled(ModelFault.TIMEOUT, 2, 5, 0.2)
    assert step.add(retry) and step.retry is retry
    assert retry.describe() == (
        "The model did not answer in time; retrying in 1 s (attempt 2 of 5)"
    )
    step.add(answer)
    assert step.retry is None
    step.add(retry)
    step.clear_reply()  # its reply, of tool calls only, is being stored
    assert step.retry is None


def test_only_the_end_of_a_long_output_is_kept() -> None:
    step, call = LiveStep(now=lambda: 1.0), CallId("c1")
    step.add(ToolStarted(call, "terminal", "{}"))
    for number in range(20_000):
        step.add(ToolProgressed(call, f"line {number}\n"))
    (running,) = step.calls
    assert running.output.endswith("line 19999\n") and len(running.output) <= 16 * 1024


async def test_a_reader_without_the_whole_step_collects_no_pieces() -> None:
    """They would follow on something that it does not have."""
    feed = SessionFeed()
    feed.mark_stale()
    with pytest.raises(InvalidTransition):
        feed._set_state(PieceState.PENDING)
    assert feed.state is PieceState.STALE

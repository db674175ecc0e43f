"""Session feeds: which events a reader gets and when, and the memory bound of a slow reader."""

import asyncio

from holdfast.core.ids import CallId, SessionId, TurnId
from holdfast.core.messages.events import TextStreamed, ToolProgressed, ToolStarted
from holdfast.core.messages.transcript import AssistantMessage
from holdfast.core.ports.command import Committed
from holdfast.core.ports.store_commands import RecordReply
from holdfast.core.turns.turn import Usage
from holdfast.gateway.live.feeds import News, PieceState, SessionFeeds
from holdfast.gateway.live.live_step import LiveStep

SESSION, OTHER_SESSION = SessionId("here"), SessionId("elsewhere")


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


def test_only_the_end_of_a_long_output_is_kept() -> None:
    step, call = LiveStep(now=lambda: 1.0), CallId("c1")
    step.add(ToolStarted(call, "terminal", "{}"))
    for number in range(20_000):
        step.add(ToolProgressed(call, f"line {number}\n"))
    (running,) = step.calls
    assert running.output.endswith("line 19999\n") and len(running.output) <= 16 * 1024

"""The timeline of a turn, from the rows that its course has left in a real store."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.ids import CallId, InboxId, PrincipalId, SessionId, SessionKey, TurnId
from holdfast.core.messages.inbox import Inbound, InboxEnd, InboxState
from holdfast.core.messages.source import Source
from holdfast.core.messages.transcript import (
    AssistantMessage,
    CallRecovery,
    NoteMessage,
    ToolCall,
    ToolMessage,
    ToolOutcome,
    UserMessage,
)
from holdfast.core.turns.pricing import Price
from holdfast.core.turns.stop import (
    LeftTurn,
    StopKind,
    StopOrder,
    StopRequester,
    StopRow,
    TurnExitReason,
)
from holdfast.core.turns.timeline import TurnQuery
from holdfast.core.turns.turn import BeginTurn, EndTurn, TurnState, Usage
from holdfast.server.api.v1.turns import TimelineSpan, TimelineSpanKind, TurnExitState, build_spans
from holdfast.store.sqlite.store import SqliteStore

SESSION, TURN, ROUTE = SessionId("s"), TurnId("t"), SessionKey("sim:default:dm:c:")
USED = Usage(input_tokens=1_000_000, output_tokens=1_000_000)
PRICES = {"m-*": Price(input=1.0, output=2.0)}
CALL = ToolCall(id=CallId("c1"), name="terminal", arguments='{"command": "make"}')


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    async with SqliteStore(tmp_path / "state.db") as opened:
        yield opened


async def said(store: SqliteStore, name: str, *, at: float) -> InboxId:
    source = Source(platform="sim", chat_id="c", user_id="u")
    inbound = Inbound(source=source, event_id=name, message_id=name, text=name)
    accepted = await store.accept(inbound, route=ROUTE, principal=PrincipalId("p"), at=at)
    return accepted.row.id


async def begun(store: SqliteStore, *, at: float) -> InboxId:
    message = await said(store, "first", at=at - 5)
    await store.begin_turn(
        BeginTurn(
            turn_id=TURN,
            session_id=SESSION,
            route=ROUTE,
            inbox_ids=(message,),
            messages=(UserMessage(text="first"),),
            prompt="",
            at=at,
        )
    )
    return message


async def replied(store: SqliteStore, *calls: ToolCall, at: float) -> None:
    reply = AssistantMessage(calls=calls, model="m-1")
    await store.record_reply(TURN, session_id=SESSION, message=reply, usage=USED, at=at)


async def ended(store: SqliteStore, message: InboxId, *, at: float) -> None:
    await store.end_turn(
        EndTurn(
            turn_id=TURN,
            session_id=SESSION,
            state=TurnState.ANSWERED,
            messages=(AssistantMessage(text="done", model="m-1"),),
            usage=USED + USED,
            inbox_ends=(InboxEnd(inbox_id=message, state=InboxState.ANSWERED),),
            at=at,
        )
    )


async def shown(store: SqliteStore, *, asks: bool = False) -> list[TimelineSpan]:
    course = await store.turn_details(TURN, after=0, limit=100)
    assert course is not None
    return build_spans(course, prices=PRICES, running=asks)


def times(spans: list[TimelineSpan]) -> list[tuple[TimelineSpanKind, float, float | None]]:
    return [(span.kind, span.started_at, span.ended_at) for span in spans]


async def test_a_reply_took_from_the_end_of_what_was_before_it(store: SqliteStore) -> None:
    message = await begun(store, at=10)
    await replied(store, CALL, at=12)
    await store.record_started(TURN, session_id=SESSION, call_ids=[CALL.id], at=13)
    result = ToolMessage(call_id=CALL.id, name="terminal", text="ok")
    await store.record_finished(TURN, session_id=SESSION, message=result, at=17)
    steer = await said(store, "more", at=14)
    word = UserMessage(text="more")
    await store.record_steer(TURN, session_id=SESSION, inbox_id=steer, message=word, at=18)
    running = times(await shown(store, asks=True))
    assert running[-1] == (TimelineSpanKind.MODEL, 18, None)
    await ended(store, message, at=20)
    spans = await shown(store)
    assert times(spans) == [
        (TimelineSpanKind.MODEL, 10, 12),
        (TimelineSpanKind.TOOL, 13, 17),
        (TimelineSpanKind.STEER, 18, 18),
        (TimelineSpanKind.MODEL, 18, 20),
    ]
    assert (spans[0].name, spans[0].cost) == ("m-1", 3.0)
    assert (spans[1].name, spans[1].outcome) == ("terminal", ToolOutcome.OK)
    course = await store.turn_details(TURN, after=0, limit=100)
    assert course is not None
    assert [(each.id, each.accepted_at) for each in course.inputs] == [(message, 5), (steer, 14)]
    assert await store.turn_usage_by_model(TURN) == {"m-1": USED + USED}


async def test_a_crash_is_seen_with_the_call_that_ran_on_through_it(store: SqliteStore) -> None:
    """It is found out at 50; the turn had last been heard of at 13, and went on at 51."""
    message = await begun(store, at=10)
    await replied(store, CALL, at=12)
    await store.record_started(TURN, session_id=SESSION, call_ids=[CALL.id], at=13)
    order = StopOrder(kind=StopKind.CRASH, by=StopRequester.NOBODY, at=50)
    await store.record_stop(StopRow(id="x", order=order, version="1", interrupted=1))
    open_still = await shown(store)
    assert (open_still[-1].kind, open_still[-1].exit_state) == (
        TimelineSpanKind.DOWNTIME,
        TurnExitState.INTERRUPTED,
    )
    assert open_still[-1].ended_at is None
    running = open_still[-2]
    assert (running.name, running.outcome, running.ended_at) == ("terminal", None, None)
    assert running.summary == "make"
    await store.resume_turn(TURN, session_id=SESSION, note=NoteMessage(text="cut"), at=51)
    await store.record_ready((), at=52)
    assert [span.kind for span in await shown(store)].count(TimelineSpanKind.MODEL) == 1
    result = ToolMessage(
        call_id=CALL.id, name="terminal", text="ok", recovery=CallRecovery.ATTACHED
    )
    await store.record_finished(TURN, session_id=SESSION, message=result, at=53)
    await ended(store, message, at=60)
    spans = await shown(store)
    assert times(spans) == [
        (TimelineSpanKind.MODEL, 10, 12),
        (TimelineSpanKind.TOOL, 13, 53),
        (TimelineSpanKind.DOWNTIME, 13, 51),
        (TimelineSpanKind.NOTE, 51, 51),
        (TimelineSpanKind.MODEL, 53, 60),
    ]
    assert spans[1].recovery is CallRecovery.ATTACHED
    assert (spans[2].name, spans[2].exit_state) == ("crash", TurnExitState.INTERRUPTED)
    (outline,) = await store.turns(SESSION, limit=10)
    assert (outline.resumed, outline.steps) == (1, 4)


async def test_a_turn_that_was_parked_was_not_cut(store: SqliteStore) -> None:
    message = await begun(store, at=10)
    await replied(store, CALL, at=12)
    result = ToolMessage(call_id=CALL.id, name="terminal", text="ok")
    await store.record_finished(TURN, session_id=SESSION, message=result, at=13)
    left = LeftTurn(session_id=SESSION, turn_id=TURN, exit_reason=TurnExitReason.PARKED)
    await store.leave_turn(left, at=14)
    order = StopOrder(kind=StopKind.RESTART, by=StopRequester.PAGE, at=11)
    await store.record_stop(StopRow(id="x", order=order, version="1", parked=1, stopped_at=15))
    (outline,) = await store.turns(SESSION, limit=10)
    assert (outline.exit_reason, outline.resumed) == (TurnExitReason.PARKED, 0)
    standing, away = (await shown(store))[-2:]
    assert (standing.kind, away.exit_state) == (TimelineSpanKind.DRAIN, TurnExitState.PARKED)
    await store.continue_turn(TURN, session_id=SESSION, at=18)
    await store.record_ready((), at=20)
    await ended(store, message, at=30)
    drained, away, last = (await shown(store))[-3:]
    assert (drained.kind, drained.started_at, drained.ended_at) == (TimelineSpanKind.DRAIN, 13, 15)
    assert (away.started_at, away.ended_at, away.exit_state) == (15, 20, TurnExitState.PARKED)
    assert (last.started_at, last.ended_at) == (20, 30)


async def test_a_request_that_was_cut_is_shown_although_it_left_nothing(
    store: SqliteStore,
) -> None:
    message = await begun(store, at=10)
    left = LeftTurn(session_id=SESSION, turn_id=TURN, exit_reason=TurnExitReason.RESTART_TIMEOUT)
    await store.leave_turn(left, at=40)
    order = StopOrder(kind=StopKind.RESTART, by=StopRequester.CHAT, at=11)
    await store.record_stop(StopRow(id="x", order=order, version="1", interrupted=1, stopped_at=41))
    await store.resume_turn(TURN, session_id=SESSION, note=NoteMessage(text="cut"), at=45)
    await store.record_ready((), at=46)
    await ended(store, message, at=50)
    spans = await shown(store)
    assert times(spans) == [
        (TimelineSpanKind.MODEL, 10, 41),
        (TimelineSpanKind.DOWNTIME, 41, 45),
        (TimelineSpanKind.NOTE, 45, 45),
        (TimelineSpanKind.MODEL, 45, 50),
    ]
    assert spans[0].outcome is ToolOutcome.CANCELLED


async def stopped(
    store: SqliteStore, state: TurnState, *messages: ToolMessage
) -> list[TimelineSpan]:
    """A turn that began at 10, called at 13, and was ended at 20."""
    end = EndTurn(turn_id=TURN, session_id=SESSION, state=state, messages=messages, at=20)
    await store.end_turn(end)
    return await shown(store)


async def called(store: SqliteStore) -> None:
    await begun(store, at=10)
    await replied(store, CALL, at=12)
    await store.record_started(TURN, session_id=SESSION, call_ids=[CALL.id], at=13)


async def test_the_request_that_a_turn_failed_by_is_shown(store: SqliteStore) -> None:
    await called(store)
    result = ToolMessage(call_id=CALL.id, name="terminal", text="ok")
    await store.record_finished(TURN, session_id=SESSION, message=result, at=17)
    last = (await stopped(store, TurnState.FAILED))[-1]
    assert (last.kind, last.started_at, last.ended_at) == (TimelineSpanKind.MODEL, 17, 20)
    assert last.outcome is ToolOutcome.ERROR


async def test_behind_a_call_that_a_turn_was_ended_in_is_nothing(store: SqliteStore) -> None:
    """H7: its result came with the end."""
    await called(store)
    cut = ToolMessage(call_id=CALL.id, name="terminal", text="", outcome=ToolOutcome.CANCELLED)
    last = (await stopped(store, TurnState.SUPERSEDED, cut))[-1]
    assert (last.kind, last.started_at, last.ended_at) == (TimelineSpanKind.TOOL, 13, 20)
    assert last.outcome is ToolOutcome.CANCELLED


async def test_a_long_turn_comes_in_pages_and_its_cost_in_pieces(store: SqliteStore) -> None:
    """The pages together are the whole, with nothing twice."""
    message = await begun(store, at=10)
    for number in range(1100):
        await replied(store, at=11 + number)
    await ended(store, message, at=2000)
    first = await store.turn_details(TURN, after=0, limit=600)
    assert first is not None and first.more
    second = await store.turn_details(TURN, after=first.steps[-1].seq, limit=600)
    assert second is not None and not second.more
    assert [step.seq for step in (*first.steps, *second.steps)] == list(range(1, 1102))
    begins = [span.started_at for span in build_spans(second, prices={}, running=False)]
    assert begins[0] == first.steps[-1].finished_at
    assert (await store.turn_usage_by_model(TURN))["m-1"].input_tokens == 1100 * USED.input_tokens


async def test_turns_are_listed_from_the_newest_on(store: SqliteStore) -> None:
    for number in range(3):
        turn_id = TurnId(f"t{number}")
        begin = BeginTurn(
            turn_id=turn_id,
            session_id=SESSION,
            route=ROUTE,
            inbox_ids=(),
            messages=(),
            prompt="",
            at=10 + number,
        )
        await store.begin_turn(begin)
        end = EndTurn(turn_id=turn_id, session_id=SESSION, state=TurnState.FAILED, at=20)
        await store.end_turn(end)
    found = await store.turns(SESSION, limit=2)
    assert [each.turn.id for each in found] == ["t2", "t1"]
    rest = await store.turns(SESSION, limit=2, before=TurnId("t1"))
    assert [each.turn.id for each in rest] == ["t0"]
    middle = await store.turn_details(TurnId("t1"), after=0, limit=1)
    assert middle is not None and (middle.previous, middle.next) == ("t0", "t2")


async def test_turns_of_all_sessions_are_chosen_by_their_state_and_by_how_long_they_took(
    store: SqliteStore,
) -> None:
    """Asking for what is open looks at nothing else; what has not ended is not slow yet."""
    for number, took in enumerate((5, 50, 20, None)):
        turn_id, session_id = TurnId(f"t{number}"), SessionId(f"s{number}")
        await store.begin_turn(
            BeginTurn(
                turn_id=turn_id,
                session_id=session_id,
                route=SessionKey(f"sim:default:dm:{number}:"),
                inbox_ids=(),
                messages=(),
                prompt="",
                at=10 + number,
            )
        )
        if took is not None:
            state = TurnState.FAILED if number == 2 else TurnState.ANSWERED
            end = EndTurn(turn_id=turn_id, session_id=session_id, state=state, at=10 + took)
            await store.end_turn(end)

    async def chosen(**asked: Any) -> list[str]:
        found = await store.recent_turns(TurnQuery(**{"limit": 10, **asked}))
        return [each.turn.id for each in found]

    assert await chosen() == ["t3", "t2", "t1", "t0"]
    assert await chosen(limit=2, before="t2") == ["t1", "t0"]
    assert await chosen(state=TurnState.FAILED) == ["t2"]
    assert await chosen(state=TurnState.OPEN) == ["t3"]
    assert await chosen(state=TurnState.OPEN, before="t3") == []
    assert await chosen(slowest=True) == ["t1", "t2", "t0", "t3"]

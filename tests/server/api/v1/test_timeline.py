"""The timeline of a turn, built from its rows in a real store."""

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
from holdfast.core.ports.store_commands import (
    AcceptMessage,
    ContinueTurn,
    MarkResumePending,
    ParkTurn,
    RecordCallResult,
    RecordCallsStarted,
    RecordReady,
    RecordReply,
    RecordSteer,
    RecordStop,
    ResumeTurn,
)
from holdfast.core.ports.store_queries import GetTurnDetails, GetTurnUsageByModel, ListTurns
from holdfast.core.turns.pricing import Price
from holdfast.core.turns.stop import (
    StopKind,
    StopOrder,
    StopRequester,
    StopRow,
    TurnExitReason,
)
from holdfast.core.turns.timeline import TurnQuery
from holdfast.core.turns.turn import BeginTurn, EndTurn, TurnRowState, Usage
from holdfast.server.api.v1.turns import TimelineSpan, TimelineSpanKind, TurnExitState, build_spans
from holdfast.store.sqlite.store import SqliteStore

SESSION, TURN, ROUTE = SessionId("s"), TurnId("t"), SessionKey("sim:default:dm:c:")
USAGE = Usage(input_tokens=1_000_000, output_tokens=1_000_000)
PRICES = {"m-*": Price(input=1.0, output=2.0)}
CALL = ToolCall(id=CallId("c1"), name="terminal", arguments='{"command": "make"}')


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    async with SqliteStore(tmp_path / "state.db") as opened:
        yield opened


async def accept_message(store: SqliteStore, name: str, *, at: float) -> InboxId:
    source = Source(platform="sim", chat_id="c", user_id="u")
    inbound = Inbound(source=source, event_id=name, message_id=name, text=name)
    accepted = await store.write(
        AcceptMessage(inbound=inbound, route=ROUTE, principal=PrincipalId("p"), at=at)
    )
    return accepted.row.id


async def begin_turn(store: SqliteStore, *, at: float) -> InboxId:
    message = await accept_message(store, "first", at=at - 5)
    await store.write(
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


async def record_reply(store: SqliteStore, *calls: ToolCall, at: float) -> None:
    reply = AssistantMessage(calls=calls, model="m-1")
    await store.write(
        RecordReply(turn_id=TURN, session_id=SESSION, message=reply, usage=USAGE, at=at)
    )


async def end_turn(store: SqliteStore, message: InboxId, *, at: float) -> None:
    await store.write(
        EndTurn(
            turn_id=TURN,
            session_id=SESSION,
            state=TurnRowState.ANSWERED,
            messages=(AssistantMessage(text="done", model="m-1"),),
            usage=USAGE + USAGE,
            inbox_ends=(InboxEnd(inbox_id=message, state=InboxState.ANSWERED),),
            at=at,
        )
    )


async def read_spans(store: SqliteStore, *, running: bool = False) -> list[TimelineSpan]:
    details = await store.read(GetTurnDetails(turn_id=TURN, after=0, limit=100))
    assert details is not None
    return build_spans(details, prices=PRICES, running=running)


def times(spans: list[TimelineSpan]) -> list[tuple[TimelineSpanKind, float, float | None]]:
    return [(span.kind, span.started_at, span.ended_at) for span in spans]


async def test_a_reply_span_starts_at_the_end_of_the_previous_span(store: SqliteStore) -> None:
    message = await begin_turn(store, at=10)
    await record_reply(store, CALL, at=12)
    await store.write(
        RecordCallsStarted(turn_id=TURN, session_id=SESSION, call_ids=[CALL.id], at=13)
    )
    result = ToolMessage(call_id=CALL.id, name="terminal", text="ok")
    await store.write(RecordCallResult(turn_id=TURN, session_id=SESSION, message=result, at=17))
    steer = await accept_message(store, "more", at=14)
    steer_message = UserMessage(text="more")
    await store.write(
        RecordSteer(
            turn_id=TURN,
            session_id=SESSION,
            inbox_id=steer,
            into=message,
            message=steer_message,
            at=18,
        )
    )
    running = times(await read_spans(store, running=True))
    assert running[-1] == (TimelineSpanKind.MODEL, 18, None)
    await end_turn(store, message, at=20)
    spans = await read_spans(store)
    assert times(spans) == [
        (TimelineSpanKind.MODEL, 10, 12),
        (TimelineSpanKind.TOOL, 13, 17),
        (TimelineSpanKind.STEER, 18, 18),
        (TimelineSpanKind.MODEL, 18, 20),
    ]
    assert (spans[0].name, spans[0].cost) == ("m-1", 3.0)
    assert (spans[1].name, spans[1].outcome) == ("terminal", ToolOutcome.OK)
    details = await store.read(GetTurnDetails(turn_id=TURN, after=0, limit=100))
    assert details is not None
    assert [(each.id, each.accepted_at) for each in details.inputs] == [(message, 5), (steer, 14)]
    assert await store.read(GetTurnUsageByModel(turn_id=TURN)) == {"m-1": USAGE + USAGE}


async def test_a_crash_is_shown_with_the_call_that_kept_running(store: SqliteStore) -> None:
    """It is detected at 50; the last row of the turn is of 13, and it resumes at 51."""
    message = await begin_turn(store, at=10)
    await record_reply(store, CALL, at=12)
    await store.write(
        RecordCallsStarted(turn_id=TURN, session_id=SESSION, call_ids=[CALL.id], at=13)
    )
    order = StopOrder(kind=StopKind.CRASH, by=StopRequester.NONE, at=50)
    await store.write(RecordStop(row=StopRow(id="x", order=order, version="1", interrupted=1)))
    open_still = await read_spans(store)
    assert (open_still[-1].kind, open_still[-1].exit_state) == (
        TimelineSpanKind.DOWNTIME,
        TurnExitState.INTERRUPTED,
    )
    assert open_still[-1].ended_at is None
    running = open_still[-2]
    assert (running.name, running.outcome, running.ended_at) == ("terminal", None, None)
    assert running.summary == "make"
    await store.write(
        ResumeTurn(turn_id=TURN, session_id=SESSION, note=NoteMessage(text="cut"), at=51)
    )
    await store.write(RecordReady(deliveries=(), at=52))
    assert [span.kind for span in await read_spans(store)].count(TimelineSpanKind.MODEL) == 1
    result = ToolMessage(
        call_id=CALL.id, name="terminal", text="ok", recovery=CallRecovery.ATTACHED
    )
    await store.write(RecordCallResult(turn_id=TURN, session_id=SESSION, message=result, at=53))
    await end_turn(store, message, at=60)
    spans = await read_spans(store)
    assert times(spans) == [
        (TimelineSpanKind.MODEL, 10, 12),
        (TimelineSpanKind.TOOL, 13, 53),
        (TimelineSpanKind.DOWNTIME, 13, 51),
        (TimelineSpanKind.NOTE, 51, 51),
        (TimelineSpanKind.MODEL, 53, 60),
    ]
    assert spans[1].recovery is CallRecovery.ATTACHED
    assert (spans[2].name, spans[2].exit_state) == ("crash", TurnExitState.INTERRUPTED)
    (outline,) = await store.read(ListTurns(session_id=SESSION, limit=10))
    assert (outline.resumed, outline.steps) == (1, 4)


async def test_a_parked_turn_is_not_shown_as_interrupted(store: SqliteStore) -> None:
    message = await begin_turn(store, at=10)
    await record_reply(store, CALL, at=12)
    result = ToolMessage(call_id=CALL.id, name="terminal", text="ok")
    await store.write(RecordCallResult(turn_id=TURN, session_id=SESSION, message=result, at=13))
    await store.write(ParkTurn(session_id=SESSION, turn_id=TURN, at=14))
    order = StopOrder(kind=StopKind.RESTART, by=StopRequester.PAGE, at=11)
    await store.write(
        RecordStop(row=StopRow(id="x", order=order, version="1", parked=1, stopped_at=15))
    )
    (outline,) = await store.read(ListTurns(session_id=SESSION, limit=10))
    assert (outline.exit_reason, outline.resumed) == (TurnExitReason.PARKED, 0)
    draining, downtime = (await read_spans(store))[-2:]
    assert (draining.kind, downtime.exit_state) == (TimelineSpanKind.DRAIN, TurnExitState.PARKED)
    await store.write(ContinueTurn(turn_id=TURN, session_id=SESSION, at=18))
    await store.write(RecordReady(deliveries=(), at=20))
    await end_turn(store, message, at=30)
    drained, downtime, last = (await read_spans(store))[-3:]
    assert (drained.kind, drained.started_at, drained.ended_at) == (TimelineSpanKind.DRAIN, 13, 15)
    assert (downtime.started_at, downtime.ended_at, downtime.exit_state) == (
        15,
        20,
        TurnExitState.PARKED,
    )
    assert (last.started_at, last.ended_at) == (20, 30)


async def test_an_interrupted_model_request_is_shown_without_a_reply(
    store: SqliteStore,
) -> None:
    message = await begin_turn(store, at=10)
    await store.write(
        MarkResumePending(session_id=SESSION, turn_id=TURN, reason="restart_timeout", at=40)
    )
    order = StopOrder(kind=StopKind.RESTART, by=StopRequester.CHAT, at=11)
    await store.write(
        RecordStop(row=StopRow(id="x", order=order, version="1", interrupted=1, stopped_at=41))
    )
    await store.write(
        ResumeTurn(turn_id=TURN, session_id=SESSION, note=NoteMessage(text="cut"), at=45)
    )
    await store.write(RecordReady(deliveries=(), at=46))
    await end_turn(store, message, at=50)
    spans = await read_spans(store)
    assert times(spans) == [
        (TimelineSpanKind.MODEL, 10, 41),
        (TimelineSpanKind.DOWNTIME, 41, 45),
        (TimelineSpanKind.NOTE, 45, 45),
        (TimelineSpanKind.MODEL, 45, 50),
    ]
    assert spans[0].outcome is ToolOutcome.CANCELLED


async def end_and_read_spans(
    store: SqliteStore, state: TurnRowState, *messages: ToolMessage
) -> list[TimelineSpan]:
    """Ends the turn that began at 10 and made a call at 13, at 20."""
    end = EndTurn(turn_id=TURN, session_id=SESSION, state=state, messages=messages, at=20)
    await store.write(end)
    return await read_spans(store)


async def begin_turn_with_call(store: SqliteStore) -> None:
    await begin_turn(store, at=10)
    await record_reply(store, CALL, at=12)
    await store.write(
        RecordCallsStarted(turn_id=TURN, session_id=SESSION, call_ids=[CALL.id], at=13)
    )


async def test_the_model_request_that_failed_the_turn_is_shown(store: SqliteStore) -> None:
    await begin_turn_with_call(store)
    result = ToolMessage(call_id=CALL.id, name="terminal", text="ok")
    await store.write(RecordCallResult(turn_id=TURN, session_id=SESSION, message=result, at=17))
    last = (await end_and_read_spans(store, TurnRowState.FAILED))[-1]
    assert (last.kind, last.started_at, last.ended_at) == (TimelineSpanKind.MODEL, 17, 20)
    assert last.outcome is ToolOutcome.ERROR


async def test_nothing_follows_the_call_in_which_a_turn_ended(store: SqliteStore) -> None:
    """H7: its result came with the end."""
    await begin_turn_with_call(store)
    cancelled = ToolMessage(
        call_id=CALL.id, name="terminal", text="", outcome=ToolOutcome.CANCELLED
    )
    last = (await end_and_read_spans(store, TurnRowState.SUPERSEDED, cancelled))[-1]
    assert (last.kind, last.started_at, last.ended_at) == (TimelineSpanKind.TOOL, 13, 20)
    assert last.outcome is ToolOutcome.CANCELLED


async def test_a_long_turn_is_paged_and_its_usage_summed(store: SqliteStore) -> None:
    """The pages together are complete, without repetition."""
    message = await begin_turn(store, at=10)
    for number in range(1100):
        await record_reply(store, at=11 + number)
    await end_turn(store, message, at=2000)
    first = await store.read(GetTurnDetails(turn_id=TURN, after=0, limit=600))
    assert first is not None and first.more
    second = await store.read(GetTurnDetails(turn_id=TURN, after=first.steps[-1].seq, limit=600))
    assert second is not None and not second.more
    assert [step.seq for step in (*first.steps, *second.steps)] == list(range(1, 1102))
    begins = [span.started_at for span in build_spans(second, prices={}, running=False)]
    assert begins[0] == first.steps[-1].finished_at
    assert (await store.read(GetTurnUsageByModel(turn_id=TURN)))[
        "m-1"
    ].input_tokens == 1100 * USAGE.input_tokens


async def test_turns_are_listed_newest_first(store: SqliteStore) -> None:
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
        await store.write(begin)
        end = EndTurn(turn_id=turn_id, session_id=SESSION, state=TurnRowState.FAILED, at=20)
        await store.write(end)
    found = await store.read(ListTurns(session_id=SESSION, limit=2))
    assert [each.turn.id for each in found] == ["t2", "t1"]
    rest = await store.read(ListTurns(session_id=SESSION, limit=2, before=TurnId("t1")))
    assert [each.turn.id for each in rest] == ["t0"]
    middle = await store.read(GetTurnDetails(turn_id=TurnId("t1"), after=0, limit=1))
    assert middle is not None and (middle.previous, middle.next) == ("t0", "t2")


async def test_turns_of_all_sessions_are_filtered_by_state_and_sorted_by_duration(
    store: SqliteStore,
) -> None:
    """An open turn counts as the least slow one."""
    for number, took in enumerate((5, 50, 20, None)):
        turn_id, session_id = TurnId(f"t{number}"), SessionId(f"s{number}")
        await store.write(
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
            state = TurnRowState.FAILED if number == 2 else TurnRowState.ANSWERED
            end = EndTurn(turn_id=turn_id, session_id=session_id, state=state, at=10 + took)
            await store.write(end)

    async def turn_ids(**filters: Any) -> list[str]:
        found = await store.read(TurnQuery(**{"limit": 10, **filters}))
        return [each.turn.id for each in found]

    assert await turn_ids() == ["t3", "t2", "t1", "t0"]
    assert await turn_ids(limit=2, before="t2") == ["t1", "t0"]
    assert await turn_ids(state=TurnRowState.FAILED) == ["t2"]
    assert await turn_ids(state=TurnRowState.OPEN) == ["t3"]
    assert await turn_ids(state=TurnRowState.OPEN, before="t3") == []
    assert await turn_ids(slowest=True) == ["t1", "t2", "t0", "t3"]

"""The store's port: what each command means to the reads that follow it, and what holds for every
command."""

import asyncio
import importlib
import pkgutil
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.store_chat import ADDRESS, DELIVERY, ROUTE, SESSION, TURN, StoreChat
from tests.support.stores import OpenStore, StoreImplementation, future_of

from holdfast import core
from holdfast.core.crash_points import CrashPoint
from holdfast.core.errors import StoreError
from holdfast.core.ids import (
    CallId,
    DeliveryId,
    InboxId,
    PrincipalId,
    SessionId,
    SessionKey,
    TurnId,
)
from holdfast.core.messages.inbox import BusyMode, Cursor, Inbound, InboxEnd, InboxState
from holdfast.core.messages.outbox import DeliveryKind, DeliveryState, NewDelivery
from holdfast.core.messages.source import ChatType, Source
from holdfast.core.messages.transcript import (
    AssistantMessage,
    Image,
    NoteMessage,
    Reasoning,
    ToolCall,
    ToolMessage,
    ToolOutcome,
    UserMessage,
)
from holdfast.core.ports.command import (
    Command,
    GatewayCommand,
    Query,
    SessionCommand,
    session_scope,
)
from holdfast.core.ports.store import Store
from holdfast.core.ports.store_commands import (
    AcceptMessage,
    AddDeliveries,
    BeginAttempt,
    EndRunner,
    OpenSession,
    RecordBusyDecision,
    RecordCallResult,
    RecordCallsStarted,
    RecordReply,
    RecordSteer,
    ResumeTurn,
    SaveProcess,
    SaveRunner,
    SetMeta,
    SettleDelivery,
)
from holdfast.core.ports.store_queries import (
    CountInbox,
    CountOutbox,
    GetCursor,
    GetInboxRow,
    GetMeta,
    GetRouteSession,
    GetSession,
    GetTranscript,
    GetTurn,
    GetWorkload,
    ListDeliveriesForMessage,
    ListOpenTurns,
    ListProcesses,
    ListQueuedMessages,
    ListRunners,
    ListSessions,
    ListSteps,
    ListUndelivered,
)
from holdfast.core.sessions.session import CommandEffect, ProcessRow, RunnerRow
from holdfast.core.turns.turn import BeginTurn, StepKind, TurnRowState, Usage

SCOPE = session_scope(SESSION)

_CORE_BASES = (Command, SessionCommand, GatewayCommand, Query)


def defined_in_core(base: type[Any]) -> set[type[Any]]:
    """Every command, or every query, that a module of `core/` defines."""
    for module in pkgutil.walk_packages(core.__path__, f"{core.__name__}."):
        importlib.import_module(module.name)
    found, unseen = set(), [base]
    while unseen:
        below = unseen.pop().__subclasses__()
        found.update(below)
        unseen += below
    return {each for each in found if each.__module__.startswith(f"{core.__name__}.")} - {
        *_CORE_BASES
    }


async def test_every_command_and_query_has_a_handler(
    implementation: StoreImplementation, store: Store
) -> None:
    """K2: and no handler is left of one that is gone."""
    commands, queries = defined_in_core(Command), defined_in_core(Query)
    assert len(commands) > 50 and len(queries) > 50
    assert set(implementation.commands(store)) == commands
    assert set(implementation.queries(store)) == queries


def test_every_command_states_its_scope() -> None:
    """K2: what a command belongs to is part of its type, not known to its handler alone."""
    assert [each for each in defined_in_core(Command) if each.scope is Command.scope] == []


async def test_an_accepted_message_is_queued_as_it_came(store: Store, chat: StoreChat) -> None:
    """G1, G4: the row has its route, its principal and the whole message."""
    source = Source(
        platform="sim",
        chat_id="c",
        chat_type=ChatType.GROUP,
        thread_id="7",
        user_id="u",
        user_name="Ünal \N{SNOWMAN} \x00",
    )
    inbound = Inbound(
        source=source,
        event_id="1",
        message_id="m",
        text="look",
        images=(Image(data="aGk="),),
        busy_mode=BusyMode.STEER,
        mergeable=False,
        history=(UserMessage(text="before"), AssistantMessage(text="indeed")),
        instructions="short",
        cursor=Cursor(name="offset", value="41"),
    )
    accepted = await store.write(
        AcceptMessage(inbound=inbound, route=SessionKey("r"), principal=PrincipalId("p"), at=1.5)
    )
    assert not accepted.duplicate
    assert accepted.route_session is None
    assert accepted.row.inbound == inbound
    assert await store.read(GetInboxRow(inbox_id=accepted.row.id)) == accepted.row
    assert await store.read(ListQueuedMessages()) == [accepted.row]
    assert await store.read(GetCursor(platform="sim", account="default", name="offset")) == "41"


async def test_a_repeated_event_is_accepted_once(store: Store, chat: StoreChat) -> None:
    """G2: the repeated one finds the first one's row, and moves no cursor."""
    first = await chat.say("first", event_id="e", cursor=Cursor(name="offset", value="1"))
    again = await chat.say("changed", event_id="e", cursor=Cursor(name="offset", value="2"))
    assert again.duplicate
    assert again.row == first.row
    assert await store.read(GetCursor(platform="sim", account="default", name="offset")) == "1"
    assert (await store.read(CountInbox()))[InboxState.QUEUED] == 1


async def test_the_same_event_id_on_another_account_is_another_event(store: Store) -> None:
    """G2: ids are unique per platform and account."""
    ids = []
    for platform, account in (("sim", "a"), ("sim", "b"), ("other", "a")):
        source = Source(platform=platform, account=account, chat_id="c", user_id="u")
        inbound = Inbound(source=source, event_id="e", message_id="m", text="hi")
        ids.append(
            (
                await store.write(
                    AcceptMessage(
                        inbound=inbound, route=SessionKey("r"), principal=PrincipalId("p"), at=1.0
                    )
                )
            ).row.id
        )
    assert sorted(set(ids)) == ids


async def test_a_decision_binds_a_queued_row(store: Store, chat: StoreChat) -> None:
    """G4: the decision is persisted with the session it was made for."""
    row = await chat.say()
    await store.write(
        RecordBusyDecision(inbox_id=row.row.id, session_id=SESSION, decision=BusyMode.QUEUE)
    )
    (queued,) = await store.read(ListQueuedMessages())
    assert (queued.session_id, queued.decision) == ("s", BusyMode.QUEUE)
    await chat.begin_turn(row)
    with pytest.raises(StoreError, match="not queued"):
        await store.write(
            RecordBusyDecision(inbox_id=row.row.id, session_id=SESSION, decision=BusyMode.STEER)
        )


async def test_a_turn_begins_with_session_route_messages_and_rows(
    store: Store, chat: StoreChat
) -> None:
    """H1, A4: one commit; the prompt is frozen with the session."""
    row = await chat.say("hello")
    await chat.begin_turn(row, prompt="be kind")
    session = await store.read(GetSession(session_id=SESSION))
    assert session is not None
    assert (session.prompt, session.route, session.messages) == ("be kind", ROUTE, 1)
    assert (session.interruptions, session.suspended, session.ended_at) == (0, False, None)
    assert await store.read(GetRouteSession(key=ROUTE)) == "s"
    assert (await chat.say()).route_session == "s"
    (record,) = await store.read(GetTranscript(session_id=SESSION))
    assert (record.seq, record.turn_id, record.message) == (1, "t", UserMessage(text="hello"))
    running = await store.read(GetInboxRow(inbox_id=row.row.id))
    assert running is not None
    assert (running.state, running.session_id, running.turn_id) == ("running", "s", "t")


async def test_the_beginning_of_a_turn_records_activity_to_the_minute(
    store: Store, chat: StoreChat
) -> None:
    """K2: the end of a turn records it exactly; a beginning soon after changes no row for it."""

    async def active_at() -> float:
        session = await store.read(GetSession(session_id=SESSION))
        assert session is not None
        return session.active_at

    row = await chat.say()
    await chat.begin_turn(row, at=2.0)
    await store.write(chat.turn_end(row))
    assert await active_at() == 3.0
    for turn, began, expected in (("t2", 50.0, 3.0), ("t3", 64.0, 64.0), ("t4", 1.0, 1.0)):
        row = await chat.say()
        await chat.begin_turn(row, turn=turn, at=began)
        assert await active_at() == expected, "a clock that was set back is followed"
        await store.write(msgspec.structs.replace(chat.turn_end(row, turn=turn), at=0.5))


async def test_the_first_prompt_of_a_session_is_kept(store: Store, chat: StoreChat) -> None:
    """A4: byte-identical across turns."""
    await chat.begin_turn(turn="t1", prompt="first")
    await store.write(chat.turn_end(turn="t1"))
    await chat.begin_turn(turn="t2", prompt="second")
    session = await store.read(GetSession(session_id=SESSION))
    assert session is not None
    assert session.prompt == "first"


async def test_a_session_has_one_open_turn(store: Store, chat: StoreChat) -> None:
    """H5: a second one is refused, and leaves nothing behind."""
    await chat.begin_turn(turn="t1")
    with pytest.raises(StoreError, match="open turn"):
        await chat.begin_turn(turn="t2", session="s")
    assert await store.read(GetTurn(turn_id=TurnId("t2"))) is None
    await chat.begin_turn(turn="t3", session="another", route="r2")


async def test_a_turn_does_not_take_over_the_route_of_another_session(
    store: Store, chat: StoreChat
) -> None:
    """G4: a late turn of the old session leaves the route with the new one."""
    await chat.begin_turn(turn="t1", session="new")
    await chat.begin_turn(turn="t2", session="old")
    assert await store.read(GetRouteSession(key=ROUTE)) == "new"


async def test_a_suspended_session_loses_its_route_to_the_next(
    store: Store, chat: StoreChat
) -> None:
    """F4, F7: its route is free, its count is reset, its history stays."""
    row = await chat.say()
    await chat.begin_turn(row)
    await store.write(
        ResumeTurn(turn_id=TURN, session_id=SESSION, note=NoteMessage(text="cut"), at=3.0)
    )
    end = chat.turn_end(row, state=InboxState.FAILED, turn_state=TurnRowState.FAILED)
    await store.write(msgspec.structs.replace(end, suspend=True))
    session = await store.read(GetSession(session_id=SESSION))
    assert session is not None
    assert (session.suspended, session.interruptions, session.messages) == (True, 0, 2)
    later = await chat.say()
    assert later.route_session is None
    await chat.begin_turn(later, turn="t2", session="fresh")
    assert await store.read(GetRouteSession(key=ROUTE)) == "fresh"


async def test_every_step_is_saved_in_order(store: Store, chat: StoreChat) -> None:
    """H1: reply, call started, call finished, steer, and the final reply."""
    row, steer = await chat.say("do it"), await chat.say("and quickly")
    await chat.begin_turn(row)
    asked = AssistantMessage(
        calls=(ToolCall(id=CallId("c1"), name="terminal", arguments="{}"),),
        reasoning=(Reasoning(text="hm", opaque="xyz"),),
        model="m",
    )
    used = Usage(input_tokens=10, output_tokens=2)
    await store.write(
        RecordReply(turn_id=TURN, message=asked, usage=used, session_id=SESSION, at=3.0)
    )
    await store.write(
        RecordCallsStarted(turn_id=TURN, call_ids=[CallId("c1")], session_id=SESSION, at=3.0)
    )
    result = ToolMessage(call_id=CallId("c1"), name="terminal", text="done")
    await store.write(RecordCallResult(turn_id=TURN, message=result, session_id=SESSION, at=3.0))
    steer_message = UserMessage(text="and quickly")
    await store.write(
        RecordSteer(
            turn_id=TURN,
            session_id=SESSION,
            inbox_id=steer.row.id,
            into=row.row.id,
            message=steer_message,
            at=3.0,
        )
    )
    final = AssistantMessage(text="did it")
    whole = Usage(input_tokens=25, output_tokens=5)
    await store.write(chat.turn_end(row, messages=(final,), usage=whole))

    messages = [record.message for record in await store.read(GetTranscript(session_id=SESSION))]
    assert messages == [UserMessage(text="do it"), asked, result, steer_message, final]
    steps = await store.read(ListSteps(turn_id=TURN))
    assert [step.kind for step in steps] == ["model", "tool", "steer", "model"]
    assert [step.message_seq for step in steps] == [2, 3, 4, 5]
    assert [step.call_id for step in steps] == [None, "c1", None, None]
    assert steps[-1].usage == Usage(input_tokens=15, output_tokens=3)
    turn = await store.read(GetTurn(turn_id=TURN))
    assert turn is not None
    assert (turn.state, turn.usage, turn.ended_at) == (TurnRowState.ANSWERED, whole, 3.0)
    steered = await store.read(GetInboxRow(inbox_id=steer.row.id))
    assert steered is not None
    assert (steered.state, steered.turn_id, steered.merged_into) == ("merged", "t", None)


async def test_an_open_turn_has_all_that_a_resume_needs(store: Store, chat: StoreChat) -> None:
    """H1, H2: rows, calls without a result, usage and replies so far."""
    rows = [await chat.say("one"), await chat.say("two")]
    await chat.begin_turn(*rows)
    used = Usage(input_tokens=3, cached_tokens=2)
    for number in range(2):
        message = AssistantMessage(text=f"step {number}")
        await store.write(
            RecordReply(turn_id=TURN, session_id=SESSION, message=message, usage=used, at=3.0)
        )
    await store.write(
        RecordCallsStarted(
            turn_id=TURN, session_id=SESSION, call_ids=[CallId("c1"), CallId("c2")], at=3.0
        )
    )
    await store.write(
        RecordCallsStarted(turn_id=TURN, session_id=SESSION, call_ids=[CallId("c2")], at=3.5)
    )
    result = ToolMessage(call_id=CallId("c1"), name="read", text="x", outcome=ToolOutcome.ERROR)
    await store.write(RecordCallResult(turn_id=TURN, session_id=SESSION, message=result, at=4.0))

    (open_turn,) = await store.read(ListOpenTurns())
    assert open_turn.turn.id == "t"
    assert [row.id for row in open_turn.rows] == [row.row.id for row in rows]
    assert open_turn.started_calls == {"c2"}
    assert open_turn.usage == Usage(input_tokens=6, cached_tokens=4)
    assert open_turn.model_steps == 2
    assert len(await store.read(ListSteps(turn_id=TURN))) == 4
    assert await store.read(ListQueuedMessages()) == []


async def test_a_resumed_turn_counts_an_interruption_and_a_reply_clears_it(
    store: Store, chat: StoreChat
) -> None:
    """F6, F7: the note is a record of its own; a completed turn clears the counter."""
    await chat.begin_turn()
    note = NoteMessage(text="[System note: a restart cut the last turn]")
    await store.write(ResumeTurn(turn_id=TURN, session_id=SESSION, note=note, at=3.0))
    session = await store.read(GetSession(session_id=SESSION))
    assert session is not None
    assert session.interruptions == 1
    assert [record.message for record in await store.read(GetTranscript(session_id=SESSION))] == [
        note
    ]
    assert [step.kind for step in await store.read(ListSteps(turn_id=TURN))] == [StepKind.NOTE]
    await store.write(chat.turn_end())
    session = await store.read(GetSession(session_id=SESSION))
    assert session is not None
    assert session.interruptions == 0


async def test_an_unanswered_turn_keeps_its_interruption_count(
    store: Store, chat: StoreChat
) -> None:
    """F7: only a completed turn clears the counter."""
    await chat.begin_turn()
    await store.write(
        ResumeTurn(turn_id=TURN, session_id=SESSION, note=NoteMessage(text="cut"), at=3.0)
    )
    await store.write(chat.turn_end(turn_state=TurnRowState.INTERRUPTED))
    session = await store.read(GetSession(session_id=SESSION))
    assert session is not None
    assert session.interruptions == 1


async def test_the_end_of_a_turn_closes_its_open_calls(store: Store, chat: StoreChat) -> None:
    """H7: each gets its result in the commit that ends the turn."""
    await chat.begin_turn()
    asked = AssistantMessage(
        calls=tuple(ToolCall(id=CallId(each), name="x", arguments="{}") for each in ("c1", "c2"))
    )
    await store.write(
        RecordReply(turn_id=TURN, session_id=SESSION, message=asked, usage=Usage(), at=3.0)
    )
    await store.write(
        RecordCallsStarted(
            turn_id=TURN, session_id=SESSION, call_ids=[CallId("c1"), CallId("c2")], at=3.0
        )
    )
    cut = ToolMessage(
        call_id=CallId("c1"), name="x", text="cancelled", outcome=ToolOutcome.CANCELLED
    )
    await store.write(chat.turn_end(messages=(cut,), turn_state=TurnRowState.INTERRUPTED))
    steps = (await store.read(ListSteps(turn_id=TURN)))[1:]
    assert [(step.call_id, step.message_seq) for step in steps] == [("c1", 2), ("c2", None)]
    assert all(step.finished_at == 3.0 for step in steps)
    assert await store.read(ListOpenTurns()) == []


async def test_the_end_of_a_turn_has_no_result_of_a_call_that_was_never_saved(
    store: Store, chat: StoreChat
) -> None:
    """H7: the turn may end with a reply in memory that the disk had no room for."""
    await chat.begin_turn()
    cut = ToolMessage(
        call_id=CallId("c1"), name="x", text="not started", outcome=ToolOutcome.NOT_STARTED
    )
    await store.write(chat.turn_end(messages=(cut,), turn_state=TurnRowState.INTERRUPTED))
    assert await store.read(GetTranscript(session_id=SESSION)) == []
    assert await store.read(ListSteps(turn_id=TURN)) == []


async def test_a_turn_ends_once(store: Store, chat: StoreChat) -> None:
    """H1: neither a second end nor a late step is written."""
    row = await chat.say()
    await chat.begin_turn(row)
    await store.write(chat.turn_end(row, deliveries=(chat.reply(row),)))
    with pytest.raises(StoreError, match="not open"):
        await store.write(chat.turn_end(messages=(AssistantMessage(text="again"),)))
    for late in (
        store.write(
            RecordReply(
                turn_id=TURN, session_id=SESSION, message=AssistantMessage(), usage=Usage(), at=4.0
            )
        ),
        store.write(
            RecordCallsStarted(turn_id=TURN, session_id=SESSION, call_ids=[CallId("c")], at=4.0)
        ),
        store.write(
            RecordCallResult(
                turn_id=TURN,
                session_id=SESSION,
                message=ToolMessage(call_id=CallId("c"), name="x", text=""),
                at=4.0,
            )
        ),
        store.write(
            ResumeTurn(turn_id=TURN, session_id=SESSION, note=NoteMessage(text="n"), at=4.0)
        ),
    ):
        with pytest.raises(StoreError, match="not open"):
            await late
    assert len(await store.read(GetTranscript(session_id=SESSION))) == 1
    assert len(await store.read(ListUndelivered())) == 1


async def test_a_message_has_exactly_one_end(store: Store, chat: StoreChat) -> None:
    """G3: an end for a row that has one fails the whole command."""
    row = await chat.say()
    await chat.begin_turn(row, turn="t1")
    await store.write(chat.turn_end(row, turn="t1"))
    with pytest.raises(StoreError, match="already ended"):
        await chat.begin_turn(row, turn="t2")
    await chat.begin_turn(turn="t2")
    with pytest.raises(StoreError, match="already ended"):
        await store.write(chat.turn_end(row, turn="t2", deliveries=(chat.reply(row),)))
    (still_open,) = await store.read(ListOpenTurns())
    assert still_open.turn.id == "t2"
    assert await store.read(ListUndelivered()) == []


async def test_a_session_ends_in_the_commit_that_ends_its_only_message(
    store: Store, chat: StoreChat
) -> None:
    """A11, J4: with its turn, or by a command that ends the message while it waits."""
    row = await chat.say()
    await chat.begin_turn(row)
    end = InboxEnd(inbox_id=row.row.id, state=InboxState.ANSWERED, ends_session=True)
    await store.write(chat.turn_end(inbox_ends=(end,)))
    session = await store.read(GetSession(session_id=SESSION))
    assert session is not None and session.ended_at == 3.0
    waiting, other = await chat.say(), SessionId("other")
    await store.write(OpenSession(session_id=other, route=SessionKey("other"), at=4.0))
    end = InboxEnd(inbox_id=waiting.row.id, state=InboxState.SUPERSEDED, ends_session=True)
    await store.write(CommandEffect(inbox_ends=(end,), session_id=other, at=5.0))
    session = await store.read(GetSession(session_id=other))
    assert session is not None and session.ended_at == 5.0


async def test_the_ledger_balances(store: Store, chat: StoreChat) -> None:
    """G3: accepted - ended = in flight + queued."""
    rows = [await chat.say() for _ in range(5)]
    await chat.begin_turn(rows[0], rows[1])
    ends = (
        InboxEnd(inbox_id=rows[0].row.id, state=InboxState.ANSWERED),
        InboxEnd(inbox_id=rows[1].row.id, state=InboxState.MERGED, merged_into=rows[0].row.id),
    )
    await store.write(chat.turn_end(inbox_ends=ends))
    await chat.begin_turn(rows[2], turn="t2")
    ledger = await store.read(CountInbox())
    assert ledger == {
        InboxState.QUEUED: 2,
        InboxState.RUNNING: 1,
        InboxState.ANSWERED: 1,
        InboxState.MERGED: 1,
        InboxState.SUPERSEDED: 0,
        InboxState.REFUSED: 0,
        InboxState.FAILED: 0,
    }


async def test_a_reply_without_a_text_has_the_last_text_of_its_turn(
    store: Store, chat: StoreChat
) -> None:
    """I1: the rows are committed with the end of the turn; the text is stored once."""
    row = await chat.say()
    await chat.begin_turn(row)
    await store.write(
        RecordReply(
            turn_id=TURN,
            session_id=SESSION,
            message=AssistantMessage(text="first"),
            usage=Usage(),
            at=3.0,
        )
    )
    final = AssistantMessage(text="last \x00 ☃")
    await store.write(chat.turn_end(row, messages=(final,), deliveries=(chat.reply(row),)))
    (pending,) = await store.read(ListUndelivered())
    assert pending.text == "last \x00 ☃"
    assert (pending.state, pending.attempts, pending.address) == (DeliveryState.PENDING, 0, ADDRESS)


async def test_a_merged_message_has_the_answers_of_what_it_merged_into(
    store: Store, chat: StoreChat
) -> None:
    """G3: through any number of merges, and through a steer."""
    first, second, third, steer = [await chat.say(str(number)) for number in range(4)]
    await chat.begin_turn(first, second, third)
    await store.write(
        RecordSteer(
            turn_id=TURN,
            session_id=SESSION,
            inbox_id=steer.row.id,
            into=third.row.id,
            message=UserMessage(text="3"),
            at=3.0,
        )
    )
    merged = InboxState.MERGED
    ends = (
        InboxEnd(inbox_id=first.row.id, state=merged, merged_into=second.row.id),
        InboxEnd(inbox_id=second.row.id, state=merged, merged_into=third.row.id),
        InboxEnd(inbox_id=third.row.id, state=InboxState.ANSWERED),
    )
    notice = chat.reply(None, id="n", kind=DeliveryKind.NOTICE, text="by the way")
    deliveries = (chat.reply(third, text="all done"), notice)
    await store.write(chat.turn_end(inbox_ends=ends, deliveries=deliveries))
    for row in (first, second, third, steer):
        assert [
            answer.text
            for answer in await store.read(ListDeliveriesForMessage(inbox_id=row.row.id))
        ] == ["all done"]
    assert await store.read(ListDeliveriesForMessage(inbox_id=InboxId(404))) == []


async def test_a_delivery_is_attempted_and_settled(store: Store, chat: StoreChat) -> None:
    """I2: the attempt is committed before the send; the receipt ends it."""
    await store.write(
        AddDeliveries(deliveries=[chat.reply(None, text="x"), chat.reply(None, id="e")], at=2.0)
    )
    await store.write(BeginAttempt(delivery_id=DELIVERY, scope=SCOPE, at=3.0))
    attempted, other = await store.read(ListUndelivered())
    assert (attempted.state, attempted.attempts, attempted.outcome_unknown) == ("sending", 1, False)
    assert (other.state, other.text) == (DeliveryState.PENDING, "")
    await store.write(
        SettleDelivery(
            delivery_id=DELIVERY,
            scope=SCOPE,
            state=DeliveryState.SENT,
            at=4.0,
            platform_message_id="77",
        )
    )
    assert [row.id for row in await store.read(ListUndelivered())] == ["e"]
    with pytest.raises(StoreError, match="already settled"):
        await store.write(BeginAttempt(delivery_id=DELIVERY, scope=SCOPE, at=5.0))
    with pytest.raises(StoreError, match="already settled"):
        await store.write(
            SettleDelivery(delivery_id=DELIVERY, scope=SCOPE, state=DeliveryState.FAILED, at=5.0)
        )
    ledger = await store.read(CountOutbox())
    assert (ledger[DeliveryState.SENT], ledger[DeliveryState.PENDING]) == (1, 1)


async def test_an_attempt_without_an_outcome_stays_unknown(store: Store, chat: StoreChat) -> None:
    """I2: unknown is an outcome; what took nothing to the platform is no resend."""
    await store.write(AddDeliveries(deliveries=[chat.reply(None, text="x")], at=2.0))

    async def outcome() -> tuple[bool, int, int]:
        (row,) = await store.read(ListUndelivered())
        return row.outcome_unknown, row.resends, row.attempts

    await store.write(BeginAttempt(delivery_id=DELIVERY, scope=SCOPE, at=3.0))
    await store.write(
        SettleDelivery(
            delivery_id=DELIVERY,
            scope=SCOPE,
            state=DeliveryState.PENDING,
            at=3.0,
            error="not connected",
        )
    )
    assert await outcome() == (False, 0, 1)
    await store.write(BeginAttempt(delivery_id=DELIVERY, scope=SCOPE, at=3.0))
    await store.write(
        SettleDelivery(
            delivery_id=DELIVERY,
            scope=SCOPE,
            state=DeliveryState.UNKNOWN,
            at=3.0,
            error="no receipt",
        )
    )
    assert await outcome() == (True, 0, 2)
    await store.write(BeginAttempt(delivery_id=DELIVERY, scope=SCOPE, at=3.0))
    assert await outcome() == (True, 1, 3)
    await store.write(
        SettleDelivery(
            delivery_id=DELIVERY, scope=SCOPE, state=DeliveryState.PENDING, at=3.0, error="429"
        )
    )
    assert await outcome() == (True, 0, 3)
    await store.write(BeginAttempt(delivery_id=DELIVERY, scope=SCOPE, at=3.0))
    await store.write(
        BeginAttempt(delivery_id=DELIVERY, scope=SCOPE, at=3.0)
    )  # by a successor: the first never got an outcome
    assert await outcome() == (True, 2, 5)


async def test_a_fetchable_reply_is_sent_as_it_is_committed(store: Store, chat: StoreChat) -> None:
    """I2: for the page and the API, sent means committed and fetchable."""
    row = await chat.say()
    await chat.begin_turn(row)
    reply = chat.reply(row, text="here", state=DeliveryState.SENT)
    await store.write(chat.turn_end(row, deliveries=(reply,)))
    assert await store.read(ListUndelivered()) == []
    assert [
        answer.text for answer in await store.read(ListDeliveriesForMessage(inbox_id=row.row.id))
    ] == ["here"]


async def test_a_command_commits_its_effect_with_the_end_of_its_row(
    store: Store, chat: StoreChat
) -> None:
    """G4, G5: `/new` ends earlier unstarted rows and points the route at a fresh session."""
    running, waiting = await chat.say(), await chat.say()
    await chat.begin_turn(running)
    command = await chat.say("/new")
    later = await chat.say()
    answer = NewDelivery(
        id=DeliveryId("n"),
        address=ADDRESS,
        kind=DeliveryKind.COMMAND,
        text="fresh",
        inbox_id=command.row.id,
    )
    effect = CommandEffect(
        inbox_ends=(InboxEnd(inbox_id=command.row.id, state=InboxState.ANSWERED),),
        deliveries=(answer,),
        session_id=SESSION,
        route=ROUTE,
        new_session=SessionId("s2"),
        supersede_before=command.row.id,
        at=5.0,
    )
    settled = await store.write(effect)
    assert settled.superseded == (waiting.row.id,)
    assert await store.read(GetRouteSession(key=ROUTE)) == "s2"
    old, new = (
        await store.read(GetSession(session_id=SESSION)),
        await store.read(GetSession(session_id=SessionId("s2"))),
    )
    assert old is not None and old.ended_at == 5.0
    assert new is not None and (new.prompt, new.ended_at) == ("", None)
    assert [row.id for row in await store.read(ListQueuedMessages())] == [later.row.id]
    assert [
        row.text for row in await store.read(ListDeliveriesForMessage(inbox_id=command.row.id))
    ] == ["fresh"]
    with pytest.raises(StoreError, match="already ended"):
        await store.write(effect)


async def test_a_model_override_is_saved_with_its_session(store: Store, chat: StoreChat) -> None:
    """J5, B3: set before the first turn too, and cleared by an empty name."""

    async def override(model: str, *, route: SessionKey | None = ROUTE, session: str = "s") -> None:
        effect = CommandEffect(
            inbox_ends=(),
            session_id=SessionId(session),
            route=route,
            model_override=model,
            at=1.0,
        )
        await store.write(effect)

    with pytest.raises(StoreError, match="does not exist"):
        await override("big", route=None, session="nobody")
    await override("big")
    session = await store.read(GetSession(session_id=SESSION))
    assert session is not None and session.model_override == "big"
    assert await store.read(GetRouteSession(key=ROUTE)) == "s"
    await chat.begin_turn(prompt="later")
    session = await store.read(GetSession(session_id=SESSION))
    assert session is not None and (session.prompt, session.model_override) == ("later", "big")
    await override("", route=None)
    session = await store.read(GetSession(session_id=SESSION))
    assert session is not None and session.model_override is None


async def test_sessions_are_listed_the_most_recently_active_first(
    store: Store, chat: StoreChat
) -> None:
    """F1: the record is whole, and pages do not overlap."""
    for number in range(5):
        await chat.begin_turn(turn=f"t{number}", session=f"s{number}", at=float(number))
    first = await store.read(ListSessions(limit=3))
    second = await store.read(ListSessions(limit=3, offset=3))
    assert [row.id for row in [*first, *second]] == ["s4", "s3", "s2", "s1", "s0"]
    assert first[0].prompt == "be kind"


async def test_runners_and_processes_are_saved(store: Store) -> None:
    """J2: identity is pid and start time; a process's end overwrites its row."""
    runner = RunnerRow(
        session_id=SESSION, pid=7, start_time=99, outer_pid=6, sandboxed=True, started_at=1.0
    )
    await store.write(SaveRunner(runner=runner))
    assert await store.read(ListRunners()) == [runner]
    process = ProcessRow(session_id=SESSION, id="p1", command="sleep 9", started_at=2.0)
    await store.write(SaveProcess(process=process))
    assert (await store.read(GetWorkload())).processes == 1
    ended = ProcessRow(
        session_id=SESSION, id="p1", command="sleep 9", started_at=2.0, ended_at=3.0, exit_code=0
    )
    await store.write(SaveProcess(process=ended))
    assert (await store.read(GetWorkload())).processes == 0
    assert await store.read(ListProcesses(session_id=SESSION)) == [ended]
    assert await store.read(ListProcesses(session_id=SessionId("other"))) == []
    await store.write(EndRunner(session_id=SESSION))
    assert await store.read(ListRunners()) == []


async def test_unknown_ids_are_not_found(store: Store) -> None:
    """G3: a read of an unknown id returns nothing and raises no error."""
    assert await store.read(GetSession(session_id=SessionId("x"))) is None
    assert await store.read(GetTurn(turn_id=TurnId("x"))) is None
    assert await store.read(GetInboxRow(inbox_id=InboxId(1))) is None
    assert await store.read(GetRouteSession(key=SessionKey("x"))) is None
    assert await store.read(GetMeta(key="x")) is None
    assert await store.read(GetCursor(platform="a", account="b", name="c")) is None
    assert await store.read(GetTranscript(session_id=SessionId("x"))) == []
    assert await store.read(ListOpenTurns()) == []
    assert await store.read(ListQueuedMessages()) == []
    assert await store.read(ListUndelivered()) == []


async def test_no_awaiter_resumes_before_the_commit(open_store: OpenStore, path: Path) -> None:
    """K2: an awaiter that resumes before the commit would act on what may be rolled back."""
    held = threading.Event()
    reached = threading.Event()

    def crash(point: CrashPoint) -> None:
        if point is CrashPoint.BEFORE_COMMIT:
            reached.set()
            held.wait(10)

    async with open_store(path, crash=crash) as store:
        write = future_of(store.write(SetMeta(key="key", value="value")))
        await asyncio.to_thread(reached.wait, 10)
        await asyncio.sleep(0.05)
        assert not write.done()
        assert await store.read(GetMeta(key="key")) is None
        held.set()
        await write


async def test_a_write_that_fails_half_way_is_undone(
    store: Store,
) -> None:
    """K2: its first statements are undone with its last."""
    begin = BeginTurn(
        turn_id=TurnId("t"),
        session_id=SessionId("s"),
        route=SessionKey("r"),
        inbox_ids=(InboxId(404),),  # found missing only after session, turn and message are written
        messages=(UserMessage(text="hi"),),
        prompt="p",
        at=1.0,
    )
    with pytest.raises(StoreError, match="404"):
        await store.write(begin)
    assert await store.read(GetSession(session_id=SessionId("s"))) is None
    assert await store.read(GetRouteSession(key=SessionKey("r"))) is None
    assert await store.read(GetTurn(turn_id=TurnId("t"))) is None
    assert await store.read(GetTranscript(session_id=SessionId("s"))) == []


async def test_cancelling_an_awaiter_does_not_cancel_its_write(store: Store) -> None:
    """K2: the write was queued when it was asked for."""

    async def ask() -> None:
        await store.write(SetMeta(key="key", value="value"))

    task = asyncio.create_task(ask())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await store.write(SetMeta(key="other", value="value"))
    assert await store.read(GetMeta(key="key")) == "value"


async def test_a_write_is_queued_when_it_is_called_in_call_order(store: Store) -> None:
    """K2: the last call wins, whichever awaiter comes first."""
    writes = [
        future_of(store.write(SetMeta(key="key", value=str(number)))) for number in range(100)
    ]
    await writes[-1]
    assert await store.read(GetMeta(key="key")) == "99"
    assert all(write.done() for write in writes)


async def test_a_closed_store_raises_an_error(open_store: OpenStore, path: Path) -> None:
    """C7: no call hangs on a closed store."""
    store = open_store(path)
    with pytest.raises(StoreError, match="closed"):
        store.write(SetMeta(key="key", value="value"))
    async with store:
        pass
    with pytest.raises(StoreError, match="closed"):
        store.write(SetMeta(key="key", value="value"))
    with pytest.raises(StoreError, match="closed"):
        await store.read(GetMeta(key="key"))


async def test_reads_do_not_wait_for_the_writer(open_store: OpenStore, path: Path) -> None:
    """K2: they see what is durable, while a commit is under way."""
    held = threading.Event()

    def crash(point: CrashPoint) -> None:
        held.wait(10)

    async with open_store(path, crash=crash) as store:
        write = future_of(store.write(SetMeta(key="key", value="value")))
        assert await asyncio.wait_for(future_of(store.read(GetMeta(key="key"))), 5) is None
        held.set()
        await write


async def test_a_failed_commit_is_undone_and_the_next_one_works(
    open_store: OpenStore, path: Path
) -> None:
    """K2: every write that shared it fails; nothing of it stays open."""
    failures = [OSError("pulled out")]

    def crash(point: CrashPoint) -> None:
        if point is CrashPoint.BEFORE_COMMIT and failures:
            raise failures.pop()

    async with open_store(path, crash=crash) as store:
        with pytest.raises(StoreError, match="pulled out"):
            await store.write(SetMeta(key="first", value="x"))
        await store.write(SetMeta(key="second", value="x"))
        assert await store.read(GetMeta(key="first")) is None
        assert await store.read(GetMeta(key="second")) == "x"


async def test_a_write_is_durable_and_readable_when_its_awaiter_resumes(
    implementation: StoreImplementation, store: Store, path: Path
) -> None:
    """K2: another process sees it at once, and so does the store's own reader."""
    await store.write(SetMeta(key="key", value="value"))
    assert implementation.read_meta(path)["key"] == "value"
    assert await store.read(GetMeta(key="key")) == "value"


async def test_a_successor_opens_the_store_that_its_predecessor_has_just_closed(
    open_store: OpenStore, path: Path
) -> None:
    """C7: a successor never finds it locked."""
    for round_ in range(5):
        async with open_store(path) as store:
            await store.write(SetMeta(key="round", value=str(round_)))
        async with open_store(path) as store:
            assert await store.read(GetMeta(key="round")) == str(round_)

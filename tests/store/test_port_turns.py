"""The store's port: how turns are left and continued, what is displayed of them, subagents, and
deliveries with parts."""

import msgspec
import pytest
from tests.support.store_chat import ADDRESS, DELIVERY, ROUTE, SESSION, TURN, StoreChat

from holdfast.core.errors import StoreError
from holdfast.core.ids import CallId, DeliveryId, PrincipalId, SessionId, SessionKey, TurnId
from holdfast.core.messages.inbox import Accepted, Inbound, InboxEnd, InboxState
from holdfast.core.messages.outbox import (
    DeliveryPart,
    DeliveryState,
    NewDelivery,
    StartedDelivery,
)
from holdfast.core.messages.source import Source
from holdfast.core.messages.transcript import (
    AssistantMessage,
    NoteMessage,
    ToolCall,
    ToolMessage,
    ToolOutcome,
    UserMessage,
)
from holdfast.core.ports import store_commands as c
from holdfast.core.ports import store_queries as q
from holdfast.core.ports.command import session_scope
from holdfast.core.ports.store import Store
from holdfast.core.turns.stop import TurnExitReason
from holdfast.core.turns.subagent import INTERNAL_PLATFORM, Subagent, SubagentKind
from holdfast.core.turns.timeline import TurnQuery
from holdfast.core.turns.turn import BeginTurn, EndTurn, StepKind, TurnRowState, Usage

SCOPE = session_scope(SESSION)
CHILD = SessionId("child")
CALL = CallId("c1")


async def test_a_parked_turn_continues_without_a_note(store: Store, chat: StoreChat) -> None:
    """H6: and without counting an interruption."""
    await chat.begin_turn(await chat.say())
    await store.write(c.ParkTurn(turn_id=TURN, session_id=SESSION, at=3.0))
    (left,) = await store.read(q.ListOpenTurns())
    assert (left.exit_reason, left.was_interrupted) == (TurnExitReason.PARKED, False)
    await store.write(c.ContinueTurn(turn_id=TURN, session_id=SESSION, at=4.0))
    (continued,) = await store.read(q.ListOpenTurns())
    assert continued.exit_reason is None
    session = await store.read(q.GetSession(session_id=SESSION))
    assert session is not None
    assert (session.interruptions, session.resume_pending, session.messages) == (0, False, 1)


async def test_a_turn_that_is_left_interrupted_is_counted_once(
    store: Store, chat: StoreChat
) -> None:
    """F6, F7: by the process that leaves it; its resumption adds the note and nothing else."""
    await chat.begin_turn(await chat.say())
    reason = TurnExitReason.SHUTDOWN_TIMEOUT.value
    assert await store.write(
        c.MarkResumePending(turn_id=TURN, session_id=SESSION, reason=reason, at=3.0)
    )
    note = NoteMessage(text="it was interrupted")
    await store.write(c.ResumeTurn(turn_id=TURN, session_id=SESSION, note=note, at=4.0))
    session = await store.read(q.GetSession(session_id=SESSION))
    assert session is not None
    assert (session.interruptions, session.resume_pending) == (1, True)
    assert (await store.read(q.GetTranscript(session_id=SESSION)))[-1].message == note


async def test_a_note_is_a_step_with_its_usage(store: Store, chat: StoreChat) -> None:
    """H1."""
    await chat.begin_turn(await chat.say())
    note, used = NoteMessage(text="another model answers"), Usage(input_tokens=4)
    await store.write(
        c.RecordNote(turn_id=TURN, session_id=SESSION, message=note, usage=used, at=3.0)
    )
    (step,) = await store.read(q.ListSteps(turn_id=TURN))
    assert (step.kind, step.usage, step.message_seq) == (StepKind.NOTE, used, 2)
    (turn,) = await store.read(q.ListOpenTurns())
    assert turn.usage == used


async def test_the_timeline_of_a_turn_has_its_steps_in_pages(store: Store, chat: StoreChat) -> None:
    """F1: with the messages it took, what was sent, and the turns beside it in its session."""
    for turn in ("t1", "t2", "t3"):
        row = await chat.say(f"for {turn}")
        await chat.begin_turn(row, turn=turn)
        if turn == "t2":
            taken = row
            await _call_a_tool(store, TurnId(turn))
        replies = (chat.reply(row, id=f"d-{turn}", turn=turn, text="done"),)
        await store.write(chat.turn_end(row, turn=turn, deliveries=replies))
    details = q.GetTurnDetails(turn_id=TurnId("t2"), after=0, limit=1)
    first = await store.read(details)
    assert first is not None
    assert (first.previous, first.next, first.more) == ("t1", "t3", True)
    assert [each.id for each in first.inputs] == [taken.row.id]
    assert [each.id for each in first.deliveries] == ["d-t2"]
    assert [(step.kind, step.model) for step in first.steps] == [(StepKind.MODEL, "m")]
    rest = await store.read(q.GetTurnDetails(turn_id=TurnId("t2"), after=1, limit=9))
    assert rest is not None
    (call,) = rest.steps
    assert (call.tool, call.outcome, call.call_id) == ("terminal", ToolOutcome.OK, CALL)
    assert "ls" in call.summary
    assert (rest.more, rest.since) == (False, 3.0)
    assert await store.read(q.GetTurnDetails(turn_id=TurnId("none"), after=0, limit=9)) is None


async def _call_a_tool(store: Store, turn: TurnId) -> None:
    asked = AssistantMessage(
        calls=(ToolCall(id=CALL, name="terminal", arguments='{"command": "ls"}'),), model="m"
    )
    used = Usage(input_tokens=5)
    await store.write(
        c.RecordReply(
            turn_id=turn, session_id=SESSION, message=asked, usage=used, started=(CALL,), at=3.0
        )
    )
    result = ToolMessage(call_id=CALL, name="terminal", text="a file")
    await store.write(c.RecordCallResult(turn_id=turn, session_id=SESSION, message=result, at=4.0))


async def test_turns_are_listed_by_session_and_by_state(store: Store, chat: StoreChat) -> None:
    """F1: the newest first, or the slowest."""
    for number, (turn, state) in enumerate(
        (("t1", TurnRowState.ANSWERED), ("t2", TurnRowState.FAILED)), 1
    ):
        row = await chat.say()
        await chat.begin_turn(row, turn=turn, at=3.0 - number)
        await store.write(chat.turn_end(row, turn=turn, turn_state=state))
    await chat.begin_turn(turn="t3", session="another", route=SessionKey("r"))
    listed = await store.read(q.ListTurns(session_id=SESSION, limit=9))
    assert [each.turn.id for each in listed] == ["t2", "t1"]
    before = await store.read(q.ListTurns(session_id=SESSION, limit=9, before=TurnId("t2")))
    assert [each.turn.id for each in before] == ["t1"]

    async def selected(query: TurnQuery) -> list[str]:
        return [each.turn.id for each in await store.read(query)]

    assert await selected(TurnQuery(limit=9)) == ["t3", "t2", "t1"]
    assert await selected(TurnQuery(limit=9, slowest=True)) == ["t2", "t1", "t3"]
    assert await selected(TurnQuery(limit=9, state=TurnRowState.OPEN)) == ["t3"]
    assert await selected(TurnQuery(limit=9, state=TurnRowState.FAILED)) == ["t2"]


async def test_open_messages_are_counted_and_listed(store: Store, chat: StoreChat) -> None:
    """G3: every message is in exactly one state."""
    waiting, answered = await chat.say("waits"), await chat.say("is answered")
    await chat.begin_turn(answered)
    await store.write(chat.turn_end(answered))
    counts = await store.read(q.CountInbox())
    assert {state: n for state, n in counts.items() if n} == {
        InboxState.QUEUED: 1,
        InboxState.ANSWERED: 1,
    }
    assert await store.read(q.ListOpenMessages(before=2.0)) == {waiting.row.id: 1.0}
    assert await store.read(q.ListOpenMessages(before=1.0)) == {}

    async def listed(state: InboxState | None) -> list[str]:
        return [row.text for row in await store.read(q.ListInbox(state=state, offset=0, limit=9))]

    assert await listed(None) == ["waits"]
    assert await listed(InboxState.ANSWERED) == ["is answered"]
    assert await listed(InboxState.FAILED) == []


async def test_old_messages_and_deliveries_are_pruned_once_they_have_ended(
    store: Store, chat: StoreChat
) -> None:
    """G2: what is open stays, however old; the counts include what was pruned."""
    row = await chat.say("old")
    await chat.begin_turn(row)
    sent, waits = chat.reply(row, id="sent", text="x"), chat.reply(row, id="waits", text="x")
    await store.write(chat.turn_end(row, deliveries=(sent, waits)))
    await chat.say("open")
    await store.write(c.BeginAttempt(delivery_id=sent.id, scope=SCOPE, at=4.0))
    await store.write(
        c.SettleDelivery(delivery_id=sent.id, scope=SCOPE, state=DeliveryState.SENT, at=5.0)
    )
    assert await store.write(c.PruneInbox(before=2.0)) == 0
    assert await store.write(c.PruneInbox(before=9.0)) == 1
    assert await store.write(c.PruneInbox(before=9.0)) == 0
    assert await store.read(q.GetInboxRow(inbox_id=row.row.id)) is None
    assert (await store.read(q.CountInbox()))[InboxState.ANSWERED] == 1
    assert len(await store.read(q.ListQueuedMessages())) == 1
    assert await store.write(c.PruneOutbox(before=9.0)) == 1
    assert [each.id for each in await store.read(q.ListUndelivered())] == ["waits"]


# Deliveries.


async def test_a_stream_is_the_delivery_that_ends_its_turn(store: Store, chat: StoreChat) -> None:
    """I4: its row is there before its text, and its part keeps the message it has edited."""
    row = await chat.say()
    await chat.begin_turn(row)
    new = chat.reply(None, text="")
    await store.write(c.BeginStream(new=new, at=3.0))
    (open_turn,) = await store.read(q.ListOpenTurns())
    assert open_turn.stream is not None and open_turn.stream.id == new.id
    shown = DeliveryPart(number=1, state=DeliveryState.SENT, platform_message_id="m1")
    await store.write(c.SettlePart(delivery_id=new.id, scope=SCOPE, part=shown, at=4.0))
    final = chat.reply(row, text="the whole reply", started=StartedDelivery(id=new.id))
    await store.write(chat.turn_end(row, deliveries=(final,)))
    (delivery,) = await store.read(q.ListUndelivered())
    assert (delivery.state, delivery.text) == (DeliveryState.PENDING, "the whole reply")
    assert delivery.parts == (shown,)
    with pytest.raises(StoreError, match="not open"):
        await store.write(c.BeginStream(new=chat.reply(None, id="late"), at=9.0))


async def test_the_parts_of_a_delivery_have_an_outcome_each(store: Store, chat: StoreChat) -> None:
    """I4: the last one may end with its delivery."""
    await store.write(c.AddDeliveries(deliveries=[chat.reply(None, text="long")], at=1.0))
    await store.write(c.BeginAttempt(delivery_id=DELIVERY, scope=SCOPE, at=2.0))
    first = DeliveryPart(number=1, state=DeliveryState.SENT, final=True, platform_message_id="m1")
    await store.write(c.SettlePart(delivery_id=DELIVERY, scope=SCOPE, part=first, at=3.0))
    for _ in range(2):
        await store.write(c.BeginPart(delivery_id=DELIVERY, scope=SCOPE, number=2, at=4.0))
    second = DeliveryPart(number=2, state=DeliveryState.UNKNOWN)
    await store.write(
        c.SettleDelivery(
            delivery_id=DELIVERY, scope=SCOPE, state=DeliveryState.UNKNOWN, part=second, at=5.0
        )
    )
    (delivery,) = await store.read(q.ListUndelivered())
    assert (delivery.state, delivery.outcome_unknown) == (DeliveryState.UNKNOWN, True)
    # The second attempt at a part follows one without an outcome: it may be the second to arrive.
    assert delivery.parts == (
        first,
        msgspec.structs.replace(second, outcome_unknown=True, resends=1),
    )
    with pytest.raises(StoreError, match="does not exist"):
        await store.write(
            c.BeginPart(delivery_id=DeliveryId("none"), scope=SCOPE, number=1, at=6.0)
        )


async def test_a_failed_delivery_is_queued_again_with_what_is_known_of_it(
    store: Store, chat: StoreChat
) -> None:
    """I2: one that is pending or was sent is left alone."""
    await store.write(c.AddDeliveries(deliveries=[chat.reply(None, text="x")], at=1.0))
    requeue = c.RequeueDelivery(delivery_id=DELIVERY, scope=SCOPE, by="ann", at=5.0)
    assert await store.write(requeue) is None
    await store.write(c.BeginAttempt(delivery_id=DELIVERY, scope=SCOPE, at=2.0))
    for state in (DeliveryState.UNKNOWN, DeliveryState.FAILED):
        await store.write(
            c.SettleDelivery(
                delivery_id=DELIVERY, scope=SCOPE, state=state, error="no route", at=3.0
            )
        )
    assert (await store.read(q.CountOutbox()))[DeliveryState.FAILED] == 1
    failures = await store.read(q.GetFailures(since=2.0))
    assert (failures.deliveries, failures.delivery_error) == (1, "no route")
    assert failures.delivery_chat.startswith("sim:")
    assert (await store.read(q.GetFailures(since=3.0))).deliveries == 0
    again = await store.write(requeue)
    assert again is not None
    assert (again.state, again.error, again.outcome_unknown) == (DeliveryState.PENDING, "", True)
    assert again == await store.read(q.GetDelivery(delivery_id=DELIVERY))


async def test_the_outbox_is_listed_the_newest_first(store: Store, chat: StoreChat) -> None:
    """I1: by state, by platform, and in pages."""
    other = NewDelivery(
        id=DeliveryId("irc"),
        address=type(ADDRESS)(platform="irc", account="default", chat_id="c"),
        kind=chat.reply(None).kind,
        text="x",
    )
    sent = chat.reply(None, id="sent", text="x", state=DeliveryState.SENT)
    await store.write(c.AddDeliveries(deliveries=[chat.reply(None, text="x"), other, sent], at=1.0))

    async def listed(
        state: DeliveryState | None = None, *, before: int | None = None, **more: object
    ) -> list[str]:
        found = await store.read(q.ListOutbox(state=state, before=before, limit=9, **more))  # type: ignore[arg-type]
        return [row.id for row in found]

    assert await listed() == ["sent", "irc", "d"]
    assert await listed(unsent=True) == ["irc", "d"]
    assert await listed(DeliveryState.SENT) == ["sent"]
    assert await listed(platform="irc") == ["irc"]
    (irc,) = await store.read(q.ListOutbox(state=None, before=None, limit=9, platform="irc"))
    assert await listed(before=irc.seq) == ["d"]


# Subagents.


def _subagent(session: SessionId, parent: SessionId, *, turn: TurnId | None = None) -> Subagent:
    return Subagent(
        session_id=session,
        parent=parent,
        turn_id=turn,
        call_id=CALL,
        kind=SubagentKind.BACKGROUND if turn is None else SubagentKind.FOREGROUND,
        principal=PrincipalId("p"),
        title=f"work of {session}",
        depth=1,
        max_steps=9,
        toolsets=("terminal",),
        sandbox_session=SESSION,
        chat=Source(platform="sim", chat_id="c", user_id="u"),
        message_id="m",
    )


async def _start(store: Store, subagent: Subagent) -> Accepted:
    source = Source(
        platform=INTERNAL_PLATFORM, account=subagent.kind, chat_id=subagent.session_id, user_id="p"
    )
    inbound = Inbound(
        source=source, event_id=subagent.session_id, message_id="1", text="do", subagent=subagent
    )
    return await store.write(
        c.AcceptMessage(
            inbound=inbound,
            route=SessionKey(f"{INTERNAL_PLATFORM}:{subagent.session_id}"),
            principal=PrincipalId("p"),
            at=3.0,
        )
    )


async def test_a_subagent_begins_with_the_message_that_has_its_task(
    store: Store, chat: StoreChat
) -> None:
    """H1: its session is opened in the same commit, and is no conversation of a person."""
    await chat.begin_turn(await chat.say())
    child, grandchild = _subagent(CHILD, SESSION, turn=TURN), _subagent(SessionId("below"), CHILD)
    accepted = await _start(store, child)
    assert accepted.route_session == CHILD
    assert (await _start(store, child)).duplicate
    await _start(store, grandchild)
    assert await store.read(q.GetSubagent(session_id=CHILD)) == child
    assert await store.read(q.GetSubagent(session_id=SESSION)) is None
    assert await store.read(q.ListSubagentsBelow(session_id=SESSION)) == [grandchild, child]
    assert await store.read(q.ListSubagentsBelow(session_id=CHILD)) == [grandchild]
    running = await store.read(q.ListRunningSubagents())
    assert [(row.inbound.subagent, wanted) for row, wanted in running] == [
        (child, True),
        (grandchild, True),
    ]
    assert [row.id for row in await store.read(q.ListSessions(limit=9))] == [SESSION]
    everything = await store.read(q.ListSessions(limit=9, include_subagents=True))
    assert {row.id for row in everything} == {SESSION, CHILD, "below"}


async def test_the_usage_of_subagents_is_counted_apart(store: Store, chat: StoreChat) -> None:
    """K2: in all that a conversation used, and not in its own usage."""
    row = await chat.say()
    await chat.begin_turn(row)
    accepted = await _start(store, _subagent(CHILD, SESSION, turn=TURN))
    used = Usage(input_tokens=30)
    turn = TurnId("u")
    await store.write(
        BeginTurn(
            turn_id=turn,
            session_id=CHILD,
            route=accepted.row.route,
            inbox_ids=(accepted.row.id,),
            messages=(UserMessage(text="do"),),
            prompt="p",
            at=4.0,
        )
    )
    end = InboxEnd(inbox_id=accepted.row.id, state=InboxState.ANSWERED, ends_session=True)
    await store.write(
        EndTurn(
            turn_id=turn,
            session_id=CHILD,
            state=TurnRowState.ANSWERED,
            messages=(AssistantMessage(text="done", model="m"),),
            usage=used,
            inbox_ends=(end,),
            at=5.0,
        )
    )
    assert await store.read(q.GetSubagentsUsage(session_id=SESSION)) == used
    assert await store.read(q.GetSessionUsage(session_id=SESSION)) == Usage()
    assert await store.read(q.GetVisibleUsage(route=ROUTE, principal=None)) == used
    assert await store.read(q.ListRunningSubagents()) == []
    child = await store.read(q.GetSession(session_id=CHILD))
    assert child is not None and child.ended_at == 5.0

"""The ways a turn can end, each as the one commit that ends it."""

from collections.abc import Iterable, Sequence

from holdfast.core.ids import InboxId
from holdfast.core.messages.inbox import InboxEnd, InboxRow, InboxState
from holdfast.core.messages.message import Message
from holdfast.core.messages.outbox import NewDelivery
from holdfast.core.sessions.session import CommandEffect
from holdfast.core.turns.model import Completed
from holdfast.core.turns.turn import EndTurn, OpenTurn, TurnState
from holdfast.gateway.outbound.replies import DeliveryFactory
from holdfast.gateway.outbound.stream_factory import with_stream_end
from holdfast.gateway.turns.transcribing import interrupted_call_results
from holdfast.gateway.turns.turn import Turn

STOPPED_BY_USER = "stopped by its user"


def end_answered(
    turn: Turn, completed: Completed, *, delivery_factory: DeliveryFactory, at: float
) -> EndTurn:
    """The final reply, what is owed to the platform, and the ends of the messages it answers."""
    last = turn.rows[-1]
    run = last.inbound.run
    quiet = run is not None and run.is_silent_reply(completed.message.text)
    reply = delivery_factory.reply(
        last, None, session_id=turn.session_id, turn_id=turn.turn_id, silent=quiet
    )
    return EndTurn(
        turn_id=turn.turn_id,
        session_id=turn.session_id,
        state=TurnState.ANSWERED,
        messages=(completed.message,),
        usage=turn.usage + completed.usage,
        deliveries=(*_fallback_notice(turn, delivery_factory), reply),
        inbox_ends=(
            *_merged_ends(turn.rows[:-1], into=last.id),
            InboxEnd(inbox_id=last.id, state=InboxState.ANSWERED),
        ),
        reason=_fallback_text(turn),
        at=at,
    )


def _fallback_text(turn: Turn) -> str:
    """What people are told where another model than the first has answered; else nothing."""
    return (
        ""
        if turn.fallback is None
        else f"{turn.fallback.model} answers this one: {turn.fallback.why}"
    )


def _fallback_notice(turn: Turn, delivery_factory: DeliveryFactory) -> Iterable[NewDelivery]:
    """Once a turn, however often it fell, since a turn ends once. Where replies are fetched, the
    turn's reason tells."""
    last, text = turn.rows[-1], _fallback_text(turn)
    if text and last.inbound.subagent is None and not delivery_factory.is_fetched(last):
        yield delivery_factory.notice(last, text, session_id=turn.session_id, turn_id=turn.turn_id)


def end_failed(turn: Turn, why: str, *, delivery_factory: DeliveryFactory, at: float) -> EndTurn:
    """The reason goes to the user, never into the log: the model is not to read it."""
    last = turn.rows[-1]
    text = f"This could not be answered: {why}"
    reply = delivery_factory.reply(last, text, session_id=turn.session_id, turn_id=turn.turn_id)
    return EndTurn(
        turn_id=turn.turn_id,
        session_id=turn.session_id,
        state=TurnState.FAILED,
        messages=turn.interrupted_call_results(),
        usage=turn.usage,
        deliveries=(reply,),
        inbox_ends=tuple(_failed_ends(turn.rows, why)),
        reason=why,
        at=at,
    )


def end_abandoned(
    open_turn: OpenTurn,
    why: str,
    *,
    messages: Sequence[Message],
    delivery_factory: DeliveryFactory,
    at: float,
) -> EndTurn:
    """The end of a turn that no agent goes on with; `messages` is its session's transcript."""
    turn, rows = open_turn.turn, open_turn.rows
    reply = [
        delivery_factory.reply(row, why, session_id=turn.session_id, turn_id=turn.id)
        for row in rows[-1:]
    ]
    end = EndTurn(
        turn_id=turn.id,
        session_id=turn.session_id,
        state=TurnState.FAILED,
        messages=interrupted_call_results(messages, open_turn.started_calls),
        usage=open_turn.usage,
        deliveries=tuple(reply),
        inbox_ends=tuple(_failed_ends(rows, why)),
        reason=why,
        at=at,
    )
    return with_stream_end(end, open_turn.stream, rows[-1]) if rows else end


def end_unanswered(
    row: InboxRow, why: str, *, delivery_factory: DeliveryFactory, at: float
) -> CommandEffect:
    """The end of a message that no turn could be begun for."""
    end = InboxEnd(inbox_id=row.id, state=InboxState.FAILED, reason=why)
    return CommandEffect(inbox_ends=(end,), deliveries=(delivery_factory.reply(row, why),), at=at)


def end_interrupted(turn: Turn, *, by: InboxId, at: float) -> EndTurn:
    """What it was asked stays in the transcript, and is answered with the message that came."""
    return EndTurn(
        turn_id=turn.turn_id,
        session_id=turn.session_id,
        state=TurnState.INTERRUPTED,
        messages=turn.interrupted_call_results(),
        usage=turn.usage,
        inbox_ends=tuple(_merged_ends(turn.rows, into=by)),
        reason="interrupted by the next message",
        at=at,
    )


def end_stopped(
    turn: Turn,
    *,
    ends: Sequence[InboxEnd],
    deliveries: Sequence[NewDelivery],
    by: str,
    at: float,
) -> EndTurn:
    """Ended for good by its user; `ends` and `deliveries` are the command's own. `by`: who wants
    it, where that is nobody's command."""
    return EndTurn(
        turn_id=turn.turn_id,
        session_id=turn.session_id,
        state=TurnState.SUPERSEDED,
        messages=turn.interrupted_call_results(),
        usage=turn.usage,
        deliveries=tuple(deliveries),
        inbox_ends=(*superseded_ends(turn.rows), *ends),
        by=by,
        reason=STOPPED_BY_USER,
        at=at,
    )


def end_stopped_dormant(
    open_turn: OpenTurn,
    *,
    messages: Sequence[Message],
    ends: Sequence[InboxEnd],
    deliveries: Sequence[NewDelivery],
    by: str,
    at: float,
) -> EndTurn:
    """The same of a turn that nobody runs; `messages` is its session's transcript."""
    end = EndTurn(
        turn_id=open_turn.turn.id,
        session_id=open_turn.turn.session_id,
        state=TurnState.SUPERSEDED,
        messages=interrupted_call_results(messages, open_turn.started_calls),
        usage=open_turn.usage,
        deliveries=tuple(deliveries),
        inbox_ends=(*superseded_ends(open_turn.rows), *ends),
        by=by,
        reason=STOPPED_BY_USER,
        at=at,
    )
    return with_stream_end(end, open_turn.stream, open_turn.rows[-1]) if open_turn.rows else end


def superseded_ends(rows: Iterable[InboxRow]) -> Iterable[InboxEnd]:
    for row in rows:
        yield InboxEnd(inbox_id=row.id, state=InboxState.SUPERSEDED, reason=STOPPED_BY_USER)


def _merged_ends(rows: Iterable[InboxRow], *, into: InboxId) -> Iterable[InboxEnd]:
    for row in rows:
        yield InboxEnd(inbox_id=row.id, state=InboxState.MERGED, merged_into=into)


def _failed_ends(rows: Sequence[InboxRow], why: str) -> Iterable[InboxEnd]:
    """The sender of the last message is told why; what ran with it shares that answer."""
    for row in rows[-1:]:
        yield from _merged_ends(rows[:-1], into=row.id)
        yield InboxEnd(inbox_id=row.id, state=InboxState.FAILED, reason=why)

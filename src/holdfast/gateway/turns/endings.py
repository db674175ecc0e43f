"""How a turn ends.

`run_agent` runs the agent to its end. Each `end_*` function builds one kind of end as one commit.
The `write_*` functions commit ends that no running turn writes itself.
"""

import asyncio
import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from holdfast.agent.turn_port import Parked, WaitingForApproval
from holdfast.core.errors import HoldfastError
from holdfast.core.ids import InboxId
from holdfast.core.messages.inbox import OPEN_STATES, InboxEnd, InboxRow, InboxState
from holdfast.core.messages.outbox import NewDelivery
from holdfast.core.messages.transcript import Message
from holdfast.core.ports.store_queries import GetInboxRow
from holdfast.core.sessions.session import CommandEffect
from holdfast.core.turns.model import Completed
from holdfast.core.turns.stop import TurnExitReason
from holdfast.core.turns.turn import EndTurn, OpenTurn, TurnRowState
from holdfast.gateway.durable_writes import succeeded
from holdfast.gateway.outbound.delivery import DeliveryFactory
from holdfast.gateway.outbound.stream_factory import stream_leftover, with_stream_end
from holdfast.gateway.services import Services
from holdfast.gateway.turns.transcript_notes import interrupted_call_results
from holdfast.gateway.turns.turn import Turn

log = logging.getLogger(__name__)


STOPPED_BY_USER = "stopped by its user"  # stored, and compared with stored reasons


async def run_agent(turn: Turn, services: Services) -> bool:
    """True: the turn waits for a person. False: it is closed, either ended or left to a successor.

    Raises only where the task that runs it is cancelled.
    """
    try:
        end = await _run_to_end(turn, services)
    except WaitingForApproval:
        return not turn.closed
    except Parked:
        if not turn.closed:
            turn.leave(TurnExitReason.PARKED)
        return False
    # A command may have ended the turn in the instant in which the agent was done.
    if not turn.closed:
        turn.end(end)
    return False


async def _run_to_end(turn: Turn, services: Services) -> EndTurn:
    try:
        completed = await turn.start()
        return end_answered(
            turn, completed, delivery_factory=services.delivery_factory, at=services.clock.now()
        )
    except asyncio.CancelledError:
        if _is_being_cancelled() or not (turn.closed or turn.interrupt_reason):
            raise
        why = turn.interrupt_reason
    except (WaitingForApproval, Parked):
        raise
    except HoldfastError as error:
        why = str(error)
    except Exception as error:  # the edge of a turn: its fault is its answer, not our crash
        about = {"action": "turn_failed", "session": turn.session_id, "turn": turn.turn_id}
        log.exception("A turn failed.", extra=about)
        why = f"an internal error ({type(error).__name__}); the log has the details"
    return end_failed(
        turn, why, delivery_factory=services.delivery_factory, at=services.clock.now()
    )


def name_session(turn: Turn, services: Services) -> None:
    """What was answered may give the session its title."""
    inbound, agent = turn.rows[0].inbound, turn.agent
    if turn.answer is not None and inbound.lasting and inbound.subagent is None:
        covered = agent.window.skipped
        services.titles.on_turn_answered(turn.session_id, agent.messages, covered=covered)


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
        state=TurnRowState.ANSWERED,
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
        state=TurnRowState.FAILED,
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
        state=TurnRowState.FAILED,
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
        state=TurnRowState.INTERRUPTED,
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
        state=TurnRowState.SUPERSEDED,
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
    """The same for a dormant turn; `messages` is its session's transcript."""
    end = EndTurn(
        turn_id=open_turn.turn.id,
        session_id=open_turn.turn.session_id,
        state=TurnRowState.SUPERSEDED,
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


async def write_end(services: Services, decided: EndTurn) -> None:
    """Write the end of a dormant turn. The commit itself publishes it, as for every end."""
    ends = await _still_open(services, decided.inbox_ends)
    deliveries = _deliveries_still_due(decided, ends)
    end = msgspec.structs.replace(decided, inbox_ends=ends, deliveries=deliveries)

    def announce(done: asyncio.Future[None]) -> None:
        if succeeded(done):
            services.feeds.session_committed(end.session_id)
            services.publisher.turn_ended(end)

    writing = asyncio.ensure_future(services.store.write(end))
    writing.add_done_callback(announce)
    await asyncio.shield(writing)


async def write_unbegun_ends(services: Services, effect: CommandEffect) -> None:
    """The ends of messages that no turn has begun with."""

    def announce(done: asyncio.Future[Any]) -> None:
        if succeeded(done):
            services.publisher.messages_ended(effect.inbox_ends, effect.deliveries)

    writing = asyncio.ensure_future(services.store.write(effect))
    writing.add_done_callback(announce)
    await asyncio.shield(writing)


async def write_end_never_begun(services: Services, end: EndTurn) -> None:
    """What is left of a stop where the store had not taken the turn's beginning."""
    ends = await _still_open(services, end.inbox_ends)
    if ends:
        effect = CommandEffect(
            inbox_ends=ends, deliveries=_deliveries_still_due(end, ends), at=end.at
        )
        await write_unbegun_ends(services, effect)


def _deliveries_still_due(decided: EndTurn, ends: Sequence[InboxEnd]) -> tuple[NewDelivery, ...]:
    """Without the replies to messages that a command has ended: superseded messages have none."""
    dropped = {end.inbox_id for end in decided.inbox_ends} - {end.inbox_id for end in ends}
    return tuple(_due_deliveries(decided, dropped))


def _due_deliveries(
    decided: EndTurn, ended_elsewhere: Collection[InboxId]
) -> Iterator[NewDelivery]:
    for each in decided.deliveries:
        if each.inbox_id not in ended_elsewhere:
            yield each
        elif each.started is not None:  # some of it stands in its chat, and is to have an end
            yield stream_leftover(decided, each.started, each.address)


async def _still_open(services: Services, ends: Sequence[InboxEnd]) -> tuple[InboxEnd, ...]:
    """The ends whose messages are still open: /new may have ended waiting ones since. The store
    refuses to end a message twice, however often it is retried."""
    rows = [await services.store.read(GetInboxRow(inbox_id=end.inbox_id)) for end in ends]
    return tuple(
        end
        for end, row in zip(ends, rows, strict=True)
        if row is not None and row.state in OPEN_STATES
    )


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0

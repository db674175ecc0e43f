"""Finishing a turn: its agent run to one of the ends, and the writes of those that nobody runs."""

import asyncio
import logging
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import msgspec

from holdfast.agent.work import Parked, WaitingForApproval
from holdfast.core.errors import HoldfastError
from holdfast.core.ids import InboxId
from holdfast.core.messages.inbox import OPEN_STATES, InboxEnd
from holdfast.core.messages.outbox import NewDelivery
from holdfast.core.sessions.session import CommandEffect
from holdfast.core.turns.stop import TurnExitReason
from holdfast.core.turns.turn import EndTurn
from holdfast.gateway.approvals.pending import succeeded
from holdfast.gateway.outbound.stream_factory import stream_leftover
from holdfast.gateway.services import Services
from holdfast.gateway.turns.endings import end_answered, end_failed
from holdfast.gateway.turns.turn import Turn

log = logging.getLogger(__name__)


async def run_agent(turn: Turn, services: Services) -> bool:
    """True: the turn waits for a person. Else it is closed, however that came about: ended, or
    left to a successor.

    Raises only where whoever runs it is cancelled.
    """
    try:
        end = await _run_to_end(turn, services)
    except WaitingForApproval:
        return not turn.closed
    except Parked:
        if not turn.closed:
            turn.leave(TurnExitReason.PARKED)
        return False
    # Somebody may have ended the turn in the very instant in which the agent was through.
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


async def write_end(services: Services, decided: EndTurn) -> None:
    """The end of a turn that nobody runs. Announced by the commit itself, as every end is."""
    ends = await _still_open(services, decided.inbox_ends)
    owed = _deliveries_still_due(decided, ends)
    end = msgspec.structs.replace(decided, inbox_ends=ends, deliveries=owed)

    def announce(done: asyncio.Future[None]) -> None:
        if succeeded(done):
            services.feeds.session_committed(end.session_id)
            services.publisher.turn_ended(end)

    writing = asyncio.ensure_future(services.store.end_turn(end))
    writing.add_done_callback(announce)
    await asyncio.shield(writing)


async def write_unbegun_ends(services: Services, effect: CommandEffect) -> None:
    """The ends of messages that no turn has begun with."""

    def announce(done: asyncio.Future[Any]) -> None:
        if succeeded(done):
            services.publisher.messages_ended(effect.inbox_ends, effect.deliveries)

    writing = asyncio.ensure_future(services.store.apply_command(effect))
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
    """Without the replies to messages that others have ended: what is superseded has none."""
    gone = {end.inbox_id for end in decided.inbox_ends} - {end.inbox_id for end in ends}
    return tuple(_due_deliveries(decided, gone))


def _due_deliveries(
    decided: EndTurn, ended_elsewhere: Collection[InboxId]
) -> Iterator[NewDelivery]:
    for each in decided.deliveries:
        if each.inbox_id not in ended_elsewhere:
            yield each
        elif each.started is not None:  # some of it stands in its chat, and is to have an end
            yield stream_leftover(decided, each.started, each.address)


async def _still_open(services: Services, ends: Sequence[InboxEnd]) -> tuple[InboxEnd, ...]:
    """Those that nobody has ended since they were decided, as /new ends what its route has
    waiting: to end one twice is refused, and would be for ever."""
    rows = [await services.store.inbox_row(end.inbox_id) for end in ends]
    return tuple(
        end
        for end, row in zip(ends, rows, strict=True)
        if row is not None and row.state in OPEN_STATES
    )


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0

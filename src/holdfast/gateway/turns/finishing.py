"""Finishing a turn: its agent run to one of the ends, and the writes of those that nobody runs."""

import asyncio
import logging
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import msgspec

from holdfast.agent.work import Parked, Waiting
from holdfast.core.errors import HoldfastError
from holdfast.core.ids import InboxId
from holdfast.core.messages.inbox import OPEN, InboxEnd
from holdfast.core.messages.outbox import NewDelivery
from holdfast.core.sessions.session import CommandEffect
from holdfast.core.turns.stop import LeftAs
from holdfast.core.turns.turn import EndTurn
from holdfast.gateway.approvals.pending import worked
from holdfast.gateway.outbound.stream_factory import left_over
from holdfast.gateway.services import House
from holdfast.gateway.turns.endings import answered, failed
from holdfast.gateway.turns.turn import Turn

log = logging.getLogger(__name__)


async def run_agent(turn: Turn, house: House) -> bool:
    """True: the turn waits for a person. Else it is closed, however that came about: ended, or
    left to a successor.

    Raises only where whoever runs it is cancelled.
    """
    try:
        end = await _end_of(turn, house)
    except Waiting:
        return not turn.closed
    except Parked:
        if not turn.closed:
            turn.leave(LeftAs.PARKED)
        return False
    # Somebody may have ended the turn in the very instant in which the agent was through.
    if not turn.closed:
        turn.end(end)
    return False


async def _end_of(turn: Turn, house: House) -> EndTurn:
    try:
        completed = await turn.start()
        return answered(turn, completed, replies=house.replies, at=house.clock.now())
    except asyncio.CancelledError:
        if _being_cancelled() or not (turn.closed or turn.interrupted):
            raise
        why = turn.interrupted
    except (Waiting, Parked):
        raise
    except HoldfastError as error:
        why = str(error)
    except Exception as error:  # the edge of a turn: its fault is its answer, not our crash
        about = {"action": "turn_failed", "session": turn.session_id, "turn": turn.turn_id}
        log.exception("A turn failed.", extra=about)
        why = f"an internal error ({type(error).__name__}); the log has the details"
    return failed(turn, why, replies=house.replies, at=house.clock.now())


def name_session(turn: Turn, house: House) -> None:
    """What was answered may give the session its title."""
    inbound, agent = turn.rows[0].inbound, turn.agent
    if turn.answer is not None and inbound.lasting and inbound.child is None:
        covered = agent.context.skipped
        house.titles.answered(turn.session_id, agent.messages, covered=covered)


async def write_end(house: House, decided: EndTurn) -> None:
    """The end of a turn that nobody runs. Announced by the commit itself, as every end is."""
    ends = await _still_open(house, decided.inbox_ends)
    owed = _still_owed(decided, ends)
    end = msgspec.structs.replace(decided, inbox_ends=ends, deliveries=owed)

    def announce(done: asyncio.Future[None]) -> None:
        if worked(done):
            house.feeds.committed(end.session_id)
            house.announcer.turn(end)

    writing = asyncio.ensure_future(house.store.end_turn(end))
    writing.add_done_callback(announce)
    await asyncio.shield(writing)


async def write_unbegun(house: House, effect: CommandEffect) -> None:
    """The ends of messages that no turn has begun with."""

    def announce(done: asyncio.Future[Any]) -> None:
        if worked(done):
            house.announcer.messages(effect.inbox_ends, effect.deliveries)

    writing = asyncio.ensure_future(house.store.settle_command(effect))
    writing.add_done_callback(announce)
    await asyncio.shield(writing)


async def write_never_begun(house: House, end: EndTurn) -> None:
    """What is left of a stop where the store had not taken the turn's beginning."""
    ends = await _still_open(house, end.inbox_ends)
    if ends:
        effect = CommandEffect(inbox_ends=ends, deliveries=_still_owed(end, ends), at=end.at)
        await write_unbegun(house, effect)


def _still_owed(decided: EndTurn, ends: Sequence[InboxEnd]) -> tuple[NewDelivery, ...]:
    """Without the replies to messages that others have ended: what is superseded has none."""
    gone = {end.inbox_id for end in decided.inbox_ends} - {end.inbox_id for end in ends}
    return tuple(_owed(decided, gone))


def _owed(decided: EndTurn, gone: Collection[InboxId]) -> Iterator[NewDelivery]:
    for each in decided.deliveries:
        if each.inbox_id not in gone:
            yield each
        elif each.begun is not None:  # some of it stands in its chat, and is to have an end
            yield left_over(decided, each.begun, each.address)


async def _still_open(house: House, ends: Sequence[InboxEnd]) -> tuple[InboxEnd, ...]:
    """Those that nobody has ended since they were decided, as /new ends what its route has
    waiting: to end one twice is refused, and would be for ever."""
    rows = [await house.store.inbox_row(end.inbox_id) for end in ends]
    return tuple(
        end for end, row in zip(ends, rows, strict=True) if row is not None and row.state in OPEN
    )


def _being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0

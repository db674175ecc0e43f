"""Admitting: what a message does to the turn that is running, decided, kept, done and told."""

import asyncio
import logging

import msgspec

from holdfast.core.ids import SessionId
from holdfast.core.messages.admission import Decision, admit, notice
from holdfast.core.messages.inbox import BusyMode, InboxRow
from holdfast.gateway.services import House
from holdfast.gateway.turns.endings import interrupted
from holdfast.gateway.turns.turn import Turn

log = logging.getLogger(__name__)


def act_on(turn: Turn, row: InboxRow, *, house: House) -> InboxRow | None:
    """Let a message act on the running turn, now. The row, if it is to run next; None: the turn
    has it, as a steer."""
    configured, decided = house.busy_mode(row.inbound.source), row.decision is not None
    decision = admit(row, running=turn.running, configured=configured)
    row = _decided(row, decision, session_id=turn.session_id, house=house)
    if decision.mode is BusyMode.INTERRUPT:
        turn.end(interrupted(turn, by=row.id, at=house.clock.now()))
        house.watchers.merge(turn.inbox_ids[-1], into=row.id)
        turn.cancel()
    else:
        house.signs.put(row, again=decided)
    if decision.mode is BusyMode.STEER:
        turn.steers.append(row)
    if (text := notice(decision)) and not row.inbound.note:
        house.notices.tell(row, text, agent=turn.agent, turn_id=turn.turn_id)
    return None if decision.mode is BusyMode.STEER else row


def _decided(row: InboxRow, decision: Decision, *, session_id: SessionId, house: House) -> InboxRow:
    """The row with its decision, which is on its way to the log; an earlier one is there."""
    if row.decision is not None:
        return row
    writing = house.store.decide(row.id, session_id=session_id, decision=decision.mode)
    asyncio.ensure_future(writing).add_done_callback(_report_failure)
    return msgspec.structs.replace(row, decision=decision.mode)


def _report_failure(done: asyncio.Future[None]) -> None:
    if not done.cancelled() and (error := done.exception()):
        # The row is durable without it; a restart decides again.
        log.warning("A decision was not kept: %s", error, extra={"action": "decide_failed"})

"""Admitting: what a message does to the turn that is running, decided, kept, done and told."""

import asyncio
import logging

import msgspec

from holdfast.core.ids import SessionId
from holdfast.core.messages.admission import BusyDecision, admit, busy_notice
from holdfast.core.messages.inbox import BusyMode, InboxRow
from holdfast.gateway.services import Services
from holdfast.gateway.turns.endings import end_interrupted
from holdfast.gateway.turns.turn import Turn

log = logging.getLogger(__name__)


def admit_to_turn(turn: Turn, row: InboxRow, *, services: Services) -> InboxRow | None:
    """Let a message act on the running turn, now. The row, if it is to run next; None: the turn
    has it, as a steer."""
    configured, decided = services.busy_mode(row.inbound.source), row.decision is not None
    decision = admit(row, running=turn.admission_view, configured=configured)
    row = _with_decision(row, decision, session_id=turn.session_id, services=services)
    if decision.mode is BusyMode.INTERRUPT:
        turn.end(end_interrupted(turn, by=row.id, at=services.clock.now()))
        services.subscriptions.merge(turn.inbox_ids[-1], into=row.id)
        turn.cancel()
    else:
        services.reactions.add(row, maybe_set=decided)
    if decision.mode is BusyMode.STEER:
        turn.steers.append(row)
    if (text := busy_notice(decision)) and not row.inbound.note:
        services.busy_notices.send(row, text, agent=turn.agent, turn_id=turn.turn_id)
    return None if decision.mode is BusyMode.STEER else row


def _with_decision(
    row: InboxRow, decision: BusyDecision, *, session_id: SessionId, services: Services
) -> InboxRow:
    """The row with its decision, which is on its way to the log; an earlier one is there."""
    if row.decision is not None:
        return row
    writing = services.store.record_busy_decision(
        row.id, session_id=session_id, decision=decision.mode
    )
    asyncio.ensure_future(writing).add_done_callback(_log_failed_decision)
    return msgspec.structs.replace(row, decision=decision.mode)


def _log_failed_decision(done: asyncio.Future[None]) -> None:
    if not done.cancelled() and (error := done.exception()):
        # The row is durable without it; a restart decides again.
        log.warning(
            "A decision was not kept: %s", error, extra={"action": "busy_decision_not_saved"}
        )

"""Turns: beginning one, each step as it happens, and the one commit that ends it."""

from collections.abc import Mapping, Sequence

import apsw

from holdfast.core.errors import StoreError
from holdfast.core.ids import CallId, InboxId, TurnId
from holdfast.core.messages.inbox import InboxEnd, InboxState
from holdfast.core.messages.transcript import (
    AssistantMessage,
    CompactionMessage,
    Message,
    NoteMessage,
    ToolMessage,
    UserMessage,
)
from holdfast.core.ports.store_commands import MarkResumePending
from holdfast.core.sessions.session import initial_title
from holdfast.core.turns.stop import TurnExitReason
from holdfast.core.turns.turn import BeginTurn, EndTurn, StepKind, TurnRowState, Usage
from holdfast.store.sqlite import rows, totals
from holdfast.store.sqlite.writes import (
    approvals,
    audit_log,
    inbox,
    memory,
    outbox,
    session_state,
    transcript,
)
from holdfast.store.sqlite.writes.transcript import TurnPosition

# Seconds by which the beginning of a turn may be later than the stored time of the last activity:
# the end of the turn writes the exact time, and one that changes nothing writes two pages less.
_ACTIVITY_PRECISION = 60.0


def begin_turn(cursor: apsw.Cursor, begin: BeginTurn) -> None:
    position = TurnPosition(begin.session_id, begin.turn_id, begin.at)
    title = initial_title(begin.messages)
    session_state.open_session(
        cursor,
        begin.session_id,
        route=begin.route,
        at=begin.at,
        title=title,
        principal=begin.principal,
        precision=_ACTIVITY_PRECISION,
    )
    if begin.reset is None:
        session_state.claim_route(cursor, begin.route, begin.session_id)
    else:
        session_state.replace_session(
            cursor, begin.session_id, route=begin.route, opening=begin.reset, at=begin.at
        )
        outbox.add_deliveries(cursor, begin.deliveries, at=begin.at)
    if begin.has_interruption_note:
        session_state.clear_pending_note(cursor, begin.session_id)
    session_state.save_prompt(
        cursor, begin.session_id, begin.prompt, shape=begin.prompt_fingerprint
    )
    _insert_turn(cursor, position, begin)
    for message in begin.messages:
        transcript.append_message(cursor, message, position)
    for inbox_id in begin.inbox_ids:
        inbox.start_row(cursor, inbox_id, session_id=begin.session_id, turn_id=begin.turn_id)


def _insert_turn(cursor: apsw.Cursor, position: TurnPosition, begin: BeginTurn) -> None:
    try:
        cursor.execute(
            "INSERT INTO turns (session_id, id, started_at, state, asked_by, inbox_ids)"
            " VALUES (?, ?, ?, 'open', ?, ?)",
            (*position, begin.asked_by, rows.encode_json(begin.inbox_ids)),
        )
    except apsw.ConstraintError as error:
        raise StoreError(
            "turn {turn_id} cannot begin: session {session_id} has an open turn, or the "
            "id of the turn was used before",
            turn_id=position.turn_id,
            session_id=position.session_id,
        ) from error


def record_reply(
    cursor: apsw.Cursor,
    *,
    position: TurnPosition,
    message: AssistantMessage,
    usage: Usage,
    started: Sequence[CallId],
    allowed: Mapping[CallId, str],
) -> None:
    _require_open(cursor, position)
    _append_reply(cursor, message, position, usage)
    for call_id in started:
        transcript.start_step(cursor, call_id, position, allowed=allowed.get(call_id))


def record_calls_started(
    cursor: apsw.Cursor,
    *,
    position: TurnPosition,
    call_ids: Sequence[CallId],
    allowed: Mapping[CallId, str],
) -> None:
    _require_open(cursor, position)
    for call_id in call_ids:
        transcript.start_step(cursor, call_id, position, allowed=allowed.get(call_id))


def record_call_finished(
    cursor: apsw.Cursor, *, position: TurnPosition, message: ToolMessage
) -> None:
    _require_open(cursor, position)
    _append_result(cursor, message, position)


def record_steer(
    cursor: apsw.Cursor, *, position: TurnPosition, inbox_id: InboxId, message: UserMessage
) -> None:
    _require_open(cursor, position)
    seq = transcript.append_message(cursor, message, position)
    transcript.add_step(cursor, StepKind.STEER, position, message_seq=seq)
    inbox.start_row(cursor, inbox_id, session_id=position.session_id, turn_id=position.turn_id)
    inbox.end_row(cursor, InboxEnd(inbox_id=inbox_id, state=InboxState.MERGED), at=position.at)
    # From here on what the turn does is done for them, too.
    actor, _ = audit_log.message_author(cursor, inbox_id)
    cursor.execute(
        # As a whole name: that of one may be the beginning of another's.
        "UPDATE turns SET inbox_ids = json_insert(coalesce(inbox_ids, '[]'), '$[#]', ?3),"
        " asked_by = iif(instr(', ' || asked_by || ', ', ', ' || ?2 || ', '), asked_by,"
        " ltrim(asked_by || ', ' || ?2, ', ')) WHERE id = ?1",
        (position.turn_id, actor, inbox_id),
    )


def resume_turn(cursor: apsw.Cursor, *, position: TurnPosition, note: NoteMessage) -> None:
    """Reopens a turn. An interruption that its process marked was counted then; one that it could
    not mark is counted now."""
    crashed = _exit_reason(cursor, position) is None
    seq = transcript.append_message(cursor, note, position)
    transcript.add_step(cursor, StepKind.NOTE, position, message_seq=seq)
    if crashed:
        session_state.mark_resume_pending(
            cursor, position.session_id, reason="crash", at=position.at, interrupted=True
        )
    session_state.clear_pending_note(cursor, position.session_id)
    _write_exit_reason(cursor, position.turn_id, None)


def park_turn(cursor: apsw.Cursor, *, position: TurnPosition) -> None:
    _require_open(cursor, position)
    _write_exit_reason(cursor, position.turn_id, TurnExitReason.PARKED)


def mark_resume_pending(cursor: apsw.Cursor, mark: MarkResumePending) -> bool:
    """Mark a session, and leave the turn that the process is about to cut. One that has asked a
    person is at a step boundary, whatever its process knew: its question is in the log."""
    if mark.turn_id is None:
        return session_state.mark_resume_pending(
            cursor, mark.session_id, reason=mark.reason, at=mark.at, route=mark.route
        )
    _require_open(cursor, TurnPosition(mark.session_id, mark.turn_id, mark.at))
    if _waits_for_approval(cursor, mark.turn_id):
        _write_exit_reason(cursor, mark.turn_id, TurnExitReason.PARKED)
        return False
    _write_exit_reason(cursor, mark.turn_id, TurnExitReason(mark.reason))
    return session_state.mark_resume_pending(
        cursor, mark.session_id, reason=mark.reason, at=mark.at, interrupted=True
    )


def _waits_for_approval(cursor: apsw.Cursor, turn_id: str) -> bool:
    """Whether the turn has asked a person and none of its calls is running, as `OpenTurn.waits`."""
    found = cursor.execute(
        "SELECT 1 FROM approvals WHERE turn_id = ?1 AND state = 'pending' AND NOT EXISTS"
        " (SELECT 1 FROM steps WHERE turn_id = ?1 AND call_id IS NOT NULL AND finished_at IS NULL)",
        (turn_id,),
    ).fetchone()
    return found is not None


def continue_turn(cursor: apsw.Cursor, *, position: TurnPosition) -> None:
    """Clear the exit reason: a later interruption counts as a new one."""
    _require_open(cursor, position)
    _write_exit_reason(cursor, position.turn_id, None)


def _write_exit_reason(cursor: apsw.Cursor, turn_id: TurnId, reason: TurnExitReason | None) -> None:
    cursor.execute("UPDATE turns SET left_as = ? WHERE id = ?", (reason and reason.value, turn_id))


def _exit_reason(cursor: apsw.Cursor, position: TurnPosition) -> str | None:
    _require_open(cursor, position)
    found = cursor.execute("SELECT left_as FROM turns WHERE id = ?", (position.turn_id,)).fetchall()
    return None if found[0][0] is None else str(found[0][0])


def record_note(
    cursor: apsw.Cursor, *, position: TurnPosition, message: NoteMessage, usage: Usage
) -> None:
    _require_open(cursor, position)
    seq = transcript.append_message(cursor, message, position)
    transcript.add_step(cursor, StepKind.NOTE, position, message_seq=seq, usage=usage)


def record_compaction(
    cursor: apsw.Cursor, *, position: TurnPosition, message: CompactionMessage, usage: Usage
) -> None:
    _require_open(cursor, position)
    transcript.add_compaction_in_turn(cursor, position=position, message=message, usage=usage)


def end_turn(cursor: apsw.Cursor, end: EndTurn) -> None:
    _finish_turn(cursor, end)
    if end.suspend:
        _suspend(cursor, end)
        return
    # All rows are read: a statement that has not ended keeps another cursor from committing.
    found = cursor.execute(
        "UPDATE sessions SET active_at = max(active_at, ?1), cuts = iif(?2, 0, cuts)"
        " WHERE id = ?3 RETURNING resume_pending",
        (end.at, end.state is TurnRowState.ANSWERED, end.session_id),
    ).fetchall()
    # Neither a turn that completed nor one that its user ended is ever to be resumed.
    settled = end.state in (TurnRowState.ANSWERED, TurnRowState.SUPERSEDED)
    if settled and found and found[0][0]:
        session_state.clear_resume_pending(cursor, end.session_id)


def _suspend(cursor: apsw.Cursor, end: EndTurn) -> None:
    cursor.execute(
        "UPDATE sessions SET active_at = max(active_at, ?), cuts = 0, suspended = 1 WHERE id = ?",
        (end.at, end.session_id),
    )


def _finish_turn(cursor: apsw.Cursor, end: EndTurn) -> None:
    _close_turn(cursor, end)
    progress = transcript.NO_PROGRESS
    if end.has_steps:
        progress = transcript.turn_progress(cursor, end.turn_id)
    rest = _remaining_usage(end.usage, progress.usage) if progress.last else end.usage
    for message in _messages_of_known_calls(cursor, end):
        _append_final(cursor, message, end, rest)
    if progress.last:
        audit_log.record_unfinished_calls(cursor, TurnPosition(end.session_id, end.turn_id, end.at))
        cursor.execute(
            "UPDATE steps SET finished_at = ? WHERE turn_id = ? AND finished_at IS NULL",
            (end.at, end.turn_id),
        )
        approvals.withdraw_approvals(cursor, end.turn_id, at=end.at)
    outbox.add_deliveries(cursor, end.deliveries, at=end.at)
    memory.add_unsynced_turns(cursor, end)
    for row in end.inbox_ends:
        inbox.end_row(cursor, row, at=end.at, session_id=end.session_id, turn_id=end.turn_id)
    if end.state is TurnRowState.SUPERSEDED:
        audit_log.record_turn_stopped(cursor, end)


def _messages_of_known_calls(cursor: apsw.Cursor, end: EndTurn) -> Sequence[Message]:
    """The messages without results of calls that are not stored: the turn was ended with a reply
    whose write did not arrive."""
    if not any(isinstance(message, ToolMessage) for message in end.messages):
        return end.messages
    calls = {call.id for call in transcript.last_calls(cursor, end.turn_id)}
    return [
        message
        for message in end.messages
        if not isinstance(message, ToolMessage) or message.call_id in calls
    ]


def _close_turn(cursor: apsw.Cursor, end: EndTurn) -> None:
    if end.state is TurnRowState.OPEN:
        raise StoreError("turn {turn_id} cannot end as open", turn_id=end.turn_id)
    used = rows.usage_columns(end.usage)
    cursor.execute(
        "UPDATE turns SET state = ?, input_tokens = ?, output_tokens = ?, cached_tokens = ?,"
        " reasoning_tokens = ?, reason = ?, ended_at = ?"
        " WHERE id = ? AND session_id = ? AND state = 'open'",
        (end.state, *used, end.reason, end.at, end.turn_id, end.session_id),
    )
    if not cursor.connection.changes():
        raise _not_open_error(TurnPosition(end.session_id, end.turn_id, end.at))
    totals.add_turn_usage(cursor, end)


def _append_final(cursor: apsw.Cursor, message: Message, end: EndTurn, rest: Usage) -> None:
    position = TurnPosition(end.session_id, end.turn_id, end.at)
    if isinstance(message, AssistantMessage):
        _append_reply(cursor, message, position, rest)
    elif isinstance(message, ToolMessage):
        _append_result(cursor, message, position)
    else:
        transcript.append_message(cursor, message, position)


def _remaining_usage(whole: Usage, used: Usage) -> Usage:
    """The usage of the last step: that of the turn minus that of the steps before."""
    pairs = zip(rows.usage_columns(whole), rows.usage_columns(used), strict=True)
    return rows.decode_usage(tuple(max(0, total - spent) for total, spent in pairs))


def _append_reply(
    cursor: apsw.Cursor, message: AssistantMessage, position: TurnPosition, usage: Usage
) -> None:
    seq = transcript.append_message(cursor, message, position)
    transcript.add_step(cursor, StepKind.MODEL, position, message_seq=seq, usage=usage)


def _append_result(cursor: apsw.Cursor, message: ToolMessage, position: TurnPosition) -> None:
    seq = transcript.append_message(cursor, message, position)
    transcript.finish_step(cursor, message.call_id, position, message_seq=seq)
    audit_log.record_tool_call(cursor, message, position)


def _require_open(cursor: apsw.Cursor, position: TurnPosition) -> None:
    found = cursor.execute(
        "SELECT 1 FROM turns WHERE id = ? AND session_id = ? AND state = 'open'",
        (position.turn_id, position.session_id),
    ).fetchone()
    if found is None:
        raise _not_open_error(position)


def _not_open_error(position: TurnPosition) -> StoreError:
    return StoreError(
        "turn {turn_id} of session {session_id} is not open: nothing was written",
        turn_id=position.turn_id,
        session_id=position.session_id,
    )

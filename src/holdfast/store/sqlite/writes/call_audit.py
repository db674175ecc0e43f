"""What the audit says of a tool call: who asked, how it was allowed, and how it ended."""

import re

import apsw

from holdfast.core.ids import CallId, TurnId
from holdfast.core.messages.message import ToolMessage, ToolOutcome
from holdfast.core.people.approval import ApprovalState
from holdfast.core.people.audit import (
    UNKNOWN_ACTOR,
    AuditEntry,
    AuditKind,
    AuditValue,
    actor_of_principal,
)
from holdfast.store.sqlite.writes import audit, transcript
from holdfast.store.sqlite.writes.transcript import TurnPosition

# Started by nobody: there was nothing to allow.
_NOT_STARTED = (ToolOutcome.REFUSED, ToolOutcome.NOT_STARTED)
_TOOL_NAME = re.compile(r"[\w.-]{1,64}", re.ASCII)
_MAX_CALL_ID = 200  # characters; whoever serves the model makes it up


def record_tool_call(cursor: apsw.Cursor, message: ToolMessage, place: TurnPosition) -> None:
    """One row a call, in the commit of its result."""
    facts: dict[str, AuditValue] = {
        "call": message.call_id[:_MAX_CALL_ID],
        **_permission_facts(cursor, message, place),
    }
    if message.recovery is not None:
        facts["taken_up"] = message.recovery.value
    if message.exit_code is not None:
        facts["exit_code"] = message.exit_code
    calls = transcript.last_calls(cursor, place.turn_id)
    arguments = next((call.arguments for call in calls if call.id == message.call_id), "")
    _record_call(
        cursor,
        place,
        tool=message.name,
        outcome=message.outcome.value,
        facts=facts,
        arguments=arguments,
    )


def record_unfinished_calls(cursor: apsw.Cursor, place: TurnPosition) -> None:
    """The turn ends, and calls of it that were started have no result: nobody knows of them."""
    found = cursor.execute(
        "SELECT call_id FROM steps WHERE turn_id = ? AND call_id IS NOT NULL"
        " AND finished_at IS NULL ORDER BY seq",
        (place.turn_id,),
    ).fetchall()
    for (call_id,) in found:
        _record_call(
            cursor,
            place,
            tool="",
            outcome=ToolOutcome.UNKNOWN.value,
            facts={"call": str(call_id)[:_MAX_CALL_ID]},
            arguments="",
        )


def _record_call(
    cursor: apsw.Cursor,
    place: TurnPosition,
    *,
    tool: str,
    outcome: str,
    facts: dict[str, AuditValue],
    arguments: str,
) -> None:
    # What no tool can be called is a word of the model, and is kept as one.
    named = _TOOL_NAME.fullmatch(tool) is not None
    words = {"tool": "" if named else tool, "arguments": arguments}
    asked = cursor.execute("SELECT asked_by FROM turns WHERE id = ?", (place.turn_id,)).get
    audit.record(
        cursor,
        AuditEntry(
            kind=AuditKind.TOOL_CALL,
            actor=str(asked or UNKNOWN_ACTOR),
            at=place.at,
            session_id=place.session_id,
            turn_id=place.turn_id,
            subject=tool if named else "",
            outcome=outcome,
            facts=facts,
            words={name: word for name, word in words.items() if word},
        ),
    )


def _permission_facts(
    cursor: apsw.Cursor, message: ToolMessage, place: TurnPosition
) -> dict[str, AuditValue]:
    """By a person's word, by one that stands, by a rule; or not at all."""
    asked = cursor.execute(
        "SELECT id, state, said_by, scope, ended_at FROM approvals"
        " WHERE turn_id = ? AND call_id = ?",
        (place.turn_id, message.call_id),
    ).fetchone()
    if asked is not None and asked[1] == ApprovalState.APPROVED.value:
        said = {"approval": asked[0], "scope": asked[3], "approved_at": asked[4]}
        return {"allowed": "approved", "by": actor_of_principal(str(asked[2])), **said}
    if message.outcome in _NOT_STARTED:
        return {"allowed": "no"} if asked is None else {"allowed": "no", "approval": asked[0]}
    return {
        "allowed": _recorded_permission(cursor, place.turn_id, message.call_id) or "without asking"
    }


def _recorded_permission(cursor: apsw.Cursor, turn_id: TurnId, call_id: CallId) -> str:
    """As it was written down when the call began; "": it is of a kind that nobody judges."""
    found = cursor.execute(
        "SELECT allowed FROM steps WHERE turn_id = ? AND call_id = ? ORDER BY seq DESC LIMIT 1",
        (turn_id, call_id),
    ).get
    return str(found or "")

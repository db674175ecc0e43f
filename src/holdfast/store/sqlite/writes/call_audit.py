"""What the audit says of a tool call: who asked, how it was allowed, and how it ended."""

import re

import apsw

from holdfast.core.ids import CallId, TurnId
from holdfast.core.messages.message import Outcome, ToolMessage
from holdfast.core.people.approval import ApprovalState
from holdfast.core.people.audit import UNKNOWN, Act, AuditKind, Fact, actor_named
from holdfast.store.sqlite.writes import audit, transcript
from holdfast.store.sqlite.writes.transcript import Place

# Started by nobody: there was nothing to allow.
_NEVER_BEGAN = (Outcome.REFUSED, Outcome.NOT_STARTED)
_NAME = re.compile(r"[\w.-]{1,64}", re.ASCII)
_LONGEST_ID = 200  # characters; whoever serves the model makes it up


def ended(cursor: apsw.Cursor, message: ToolMessage, place: Place) -> None:
    """One row a call, in the commit of its result."""
    facts: dict[str, Fact] = {
        "call": message.call_id[:_LONGEST_ID],
        **_allowed(cursor, message, place),
    }
    if message.taken_up is not None:
        facts["taken_up"] = message.taken_up.value
    if message.exit_code is not None:
        facts["exit_code"] = message.exit_code
    calls = transcript.last_calls(cursor, place.turn_id)
    arguments = next((call.arguments for call in calls if call.id == message.call_id), "")
    _record(
        cursor,
        place,
        tool=message.name,
        outcome=message.outcome.value,
        facts=facts,
        arguments=arguments,
    )


def closed(cursor: apsw.Cursor, place: Place) -> None:
    """The turn ends, and calls of it that were started have no result: nobody knows of them."""
    found = cursor.execute(
        "SELECT call_id FROM steps WHERE turn_id = ? AND call_id IS NOT NULL"
        " AND finished_at IS NULL ORDER BY seq",
        (place.turn_id,),
    ).fetchall()
    for (call_id,) in found:
        _record(
            cursor,
            place,
            tool="",
            outcome=Outcome.UNKNOWN.value,
            facts={"call": str(call_id)[:_LONGEST_ID]},
            arguments="",
        )


def _record(
    cursor: apsw.Cursor,
    place: Place,
    *,
    tool: str,
    outcome: str,
    facts: dict[str, Fact],
    arguments: str,
) -> None:
    # What no tool can be called is a word of the model, and is kept as one.
    named = _NAME.fullmatch(tool) is not None
    words = {"tool": "" if named else tool, "arguments": arguments}
    asked = cursor.execute("SELECT asked_by FROM turns WHERE id = ?", (place.turn_id,)).get
    audit.record(
        cursor,
        Act(
            kind=AuditKind.TOOL_CALL,
            actor=str(asked or UNKNOWN),
            at=place.at,
            session_id=place.session_id,
            turn_id=place.turn_id,
            subject=tool if named else "",
            outcome=outcome,
            facts=facts,
            words={name: word for name, word in words.items() if word},
        ),
    )


def _allowed(cursor: apsw.Cursor, message: ToolMessage, place: Place) -> dict[str, Fact]:
    """By a person's word, by one that stands, by a rule; or not at all."""
    asked = cursor.execute(
        "SELECT id, state, said_by, scope, ended_at FROM approvals"
        " WHERE turn_id = ? AND call_id = ?",
        (place.turn_id, message.call_id),
    ).fetchone()
    if asked is not None and asked[1] == ApprovalState.APPROVED.value:
        said = {"approval": asked[0], "scope": asked[3], "approved_at": asked[4]}
        return {"allowed": "approved", "by": actor_named(str(asked[2])), **said}
    if message.outcome in _NEVER_BEGAN:
        return {"allowed": "no"} if asked is None else {"allowed": "no", "approval": asked[0]}
    return {"allowed": _how(cursor, place.turn_id, message.call_id) or "without asking"}


def _how(cursor: apsw.Cursor, turn_id: TurnId, call_id: CallId) -> str:
    """As it was written down when the call began; "": it is of a kind that nobody judges."""
    found = cursor.execute(
        "SELECT allowed FROM steps WHERE turn_id = ? AND call_id = ? ORDER BY seq DESC LIMIT 1",
        (turn_id, call_id),
    ).get
    return str(found or "")

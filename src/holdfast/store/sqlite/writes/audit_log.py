"""The audit: a row in the commit of what it describes, chained by hash to the row before it.

First the table itself (record, prune), then one function for each kind of event.
"""

import re
from collections.abc import Callable, Mapping
from itertools import takewhile
from typing import Any, TypeVar

import apsw
import msgspec

from holdfast.core.ids import CallId, InboxId, RuleId, SessionId, TurnId
from holdfast.core.messages.inbox import Inbound, InboxState
from holdfast.core.messages.source import Source
from holdfast.core.messages.transcript import ToolMessage, ToolOutcome
from holdfast.core.people.approval import (
    OPERATOR,
    Approval,
    ApprovalEnd,
    ApprovalRule,
    ApprovalState,
)
from holdfast.core.people.audit import (
    ASKED,
    DONE,
    GATEWAY_ACTOR,
    REFUSED,
    UNKNOWN_ACTOR,
    AuditChainLink,
    AuditEntry,
    AuditKind,
    AuditValue,
    actor_of,
    actor_of_principal,
    chain_hash,
    salted_digest,
    truncate_text,
)
from holdfast.core.people.pairing import PairingChange, PairingKind, RefusedMessage
from holdfast.core.ports.command import Command
from holdfast.core.sessions.session import CommandEffect
from holdfast.core.turns.stop import StopRequester, StopRow
from holdfast.core.turns.turn import EndTurn
from holdfast.store.sqlite.writes import transcript
from holdfast.store.sqlite.writes.transcript import TurnPosition

T = TypeVar("T")
C = TypeVar("C", bound=Command[Any])

_MAX_SCANNED = 65_536  # characters of a word that are looked through for secrets: one is shorter
_MAX_NAME = 1000  # characters; what people and programs are called is theirs to choose
_PRUNE_BATCH = 500  # rows in one request: other writes must not wait long for it
_inbound_decoder = msgspec.json.Decoder(Inbound)
_encode_json = msgspec.json.Encoder().encode


def record(cursor: apsw.Cursor, act: AuditEntry) -> None:
    """Adds a row. It is durable together with the change that it describes."""
    last = last_link(cursor)
    seq, facts = last.seq + 1, _encode_json(act.facts).decode()
    words = _save_words(cursor, seq, act) if act.words or act.whole_words else None
    row = (
        seq,
        float(act.at),
        act.kind.value,
        actor_of_principal(act.actor)[:_MAX_NAME],
        act.session_id,
        act.turn_id,
        act.subject[:_MAX_NAME],
        act.outcome,
        facts,
        words,
    )
    cursor.execute(
        "INSERT INTO audit (seq, at, kind, actor, session, turn, subject, outcome, facts, words,"
        " hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*row, chain_hash(last.hash, *row)),
    )


def last_link(cursor: apsw.Cursor) -> AuditChainLink:
    """The row that the next one is chained to, even if it was pruned since."""
    found = cursor.execute("SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1").fetchone()
    return pruned_link(cursor) if found is None else AuditChainLink(seq=found[0], hash=found[1])


def pruned_link(cursor: apsw.Cursor) -> AuditChainLink:
    found = cursor.execute("SELECT seq, hash FROM audit_pruned").fetchone()
    return (
        AuditChainLink(seq=0, hash=b"")
        if found is None
        else AuditChainLink(seq=found[0], hash=found[1])
    )


def run_audited(
    cursor: apsw.Cursor, command: C, *, handler: Callable[[apsw.Cursor, C], T], entry: AuditEntry
) -> T:
    """Run a command and add its audit row; a command that changes nothing gets none."""
    result = handler(cursor, command)
    if result is not False:
        record(cursor, entry)
    return result


def message_author(cursor: apsw.Cursor, inbox_id: InboxId) -> tuple[str, str]:
    """The author of a message, and its text."""
    body = cursor.execute("SELECT body FROM inbox WHERE id = ?", (inbox_id,)).get
    if body is None:
        return UNKNOWN_ACTOR, ""
    inbound = _inbound_decoder.decode(body)
    return actor_of(inbound), inbound.text


def prune(cursor: apsw.Cursor, *, before: float, at: float) -> int:
    """Prunes some rows from before then and records that in a row; returns how many, 0: there
    are none left. The new row is chained to the last pruned one."""
    found: list[Any] = cursor.execute(
        "SELECT seq, hash, at FROM audit ORDER BY seq LIMIT ?", (_PRUNE_BATCH,)
    ).fetchall()
    # In their order, up to the first that is younger: a clock that was set back leaves no gap.
    old = list(takewhile(lambda row: row[2] < before, found))
    if not old:
        return 0
    last = AuditChainLink(seq=old[-1][0], hash=old[-1][1])
    cursor.execute(
        "INSERT INTO audit_pruned (one, seq, hash) VALUES (1, ?, ?)"
        " ON CONFLICT (one) DO UPDATE SET seq = excluded.seq, hash = excluded.hash",
        (last.seq, last.hash),
    )
    cursor.execute("DELETE FROM audit_words WHERE seq <= ?", (last.seq,))
    cursor.execute("DELETE FROM audit WHERE seq <= ?", (last.seq,))
    facts = {"rows": len(old), "to": last.seq}
    record(cursor, AuditEntry(kind=AuditKind.AUDIT_PRUNED, actor=GATEWAY_ACTOR, at=at, facts=facts))
    return len(old)


def _save_words(cursor: apsw.Cursor, seq: int, act: AuditEntry) -> str:
    """Stores the text beside the row, which has its digest."""
    whole = {name: _redact(cursor, text) for name, text in act.whole_words.items()}
    body = _encode_json({**_redact_words(cursor, act.words), **whole}).decode()
    (salt,) = cursor.execute("SELECT lower(hex(randomblob(16)))").fetchall()[0]
    cursor.execute(
        "INSERT INTO audit_words (seq, session_id, salt, body) VALUES (?, ?, ?, ?)",
        (seq, act.session_id, salt, body),
    )
    return salted_digest(str(salt), body)


def _redact_words(cursor: apsw.Cursor, words: Mapping[str, str]) -> dict[str, str]:
    """Removes secrets first, and then truncates: half a secret is still a secret."""
    return {
        name: truncate_text(_redact(cursor, text[:_MAX_SCANNED]), length=len(text))
        for name, text in words.items()
    }


def _redact(cursor: apsw.Cursor, text: str) -> str:
    """Redacts by the function of the connection (`open_writer`): the store itself knows no
    secrets."""
    return str(cursor.execute("SELECT holdfast_redacted(?)", (text,)).get)


_PAIRING_KINDS = {
    PairingKind.APPROVE: AuditKind.PAIRING_APPROVED,
    PairingKind.DENY: AuditKind.PAIRING_DENIED,
    PairingKind.REVOKE: AuditKind.PAIRING_REVOKED,
    PairingKind.WRONG: AuditKind.PAIRING_WRONG_CODE,
}


def record_unknown_sender(cursor: apsw.Cursor, away: RefusedMessage) -> None:
    """An unknown sender got a pairing code; only a few can have one at a time."""
    record(
        cursor,
        AuditEntry(
            kind=AuditKind.SENDER_REFUSED,
            actor=away.principal,
            at=away.at,
            subject=_account_name(away.inbound.source),
            outcome=REFUSED,
            facts={"code": True},
        ),
    )


def record_pairing(cursor: apsw.Cursor, change: PairingChange) -> None:
    person = change.user.principal if change.user is not None else change.principal
    let_in_by = change.user.let_in_by if change.user is not None else ""
    wrong = change.kind is PairingKind.WRONG
    record(
        cursor,
        AuditEntry(
            kind=_PAIRING_KINDS[change.kind],
            actor=change.by or let_in_by or GATEWAY_ACTOR,
            at=change.at,
            subject=person or "",
            outcome=REFUSED if wrong else DONE,
        ),
    )


def record_operator_message(
    cursor: apsw.Cursor, inbound: Inbound, *, session_id: SessionId | None, at: float
) -> None:
    """Records that the operator writes into a chat of other people. The text is kept only if
    there is a session with which it is deleted."""
    exists = cursor.execute("SELECT 1 FROM sessions WHERE id = ?", (session_id,)).get is not None
    record(
        cursor,
        AuditEntry(
            kind=AuditKind.MESSAGE_SPOKEN,
            actor=OPERATOR,
            at=at,
            session_id=session_id,
            subject=f"{_account_name(inbound.source)}:{inbound.source.chat_id}",
            words={"text": inbound.text} if exists else {},
        ),
    )


def _account_name(source: Source) -> str:
    return f"{source.platform}:{source.account}"


def record_approval_requested(cursor: apsw.Cursor, approval: Approval) -> None:
    record(
        cursor,
        AuditEntry(
            kind=AuditKind.APPROVAL_ASKED,
            actor=approval.requester,
            at=approval.asked_at,
            session_id=approval.session_id,
            turn_id=approval.turn_id,
            subject=approval.tool,
            outcome=ASKED,
            facts={
                "approval": approval.id,
                "call": approval.call_id,
                "rule": approval.rule,
                "deadline": approval.deadline,
            },
            words={"command": approval.command, "why": approval.why},
            whole_words=_flagged_parts(approval),
        ),
    )


def _flagged_parts(approval: Approval) -> dict[str, str]:
    """Each rule with its part, and the hash of the command. The hash is deleted with the texts: a
    short command could be guessed from it."""
    parts = {
        f"part {number}": f"{match.rule}: {match.part}"
        for number, match in enumerate(approval.matches, 1)
        if match.part
    }
    return {**parts, "sha256": approval.digest} if approval.digest else parts


def record_approval_ended(cursor: apsw.Cursor, end: ApprovalEnd, *, by: str, at: float) -> None:
    row = cursor.execute(
        "SELECT session_id, turn_id, tool, call_id FROM approvals WHERE id = ?", (end.id,)
    ).fetchall()[0]
    facts = {"approval": end.id, "call": str(row[3]), "scope": end.scope.value}
    record(
        cursor,
        AuditEntry(
            kind=AuditKind.APPROVAL_ENDED,
            actor=by or end.by or GATEWAY_ACTOR,
            at=at,
            session_id=str(row[0]),
            turn_id=str(row[1]),
            subject=str(row[2]),
            outcome=end.state.value,
            facts=facts,
            words={"words": end.comment} if end.comment else {},
        ),
    )


def record_approvals_withdrawn(cursor: apsw.Cursor, turn_id: TurnId, *, at: float) -> None:
    """The turn ended before the approvals were answered."""
    found = cursor.execute(
        "SELECT id, session_id, tool, call_id FROM approvals"
        " WHERE turn_id = ? AND state = 'withdrawn' AND ended_at = ? ORDER BY number",
        (turn_id, at),
    ).fetchall()
    for approval_id, session_id, tool, call_id in found:
        record(
            cursor,
            AuditEntry(
                kind=AuditKind.APPROVAL_ENDED,
                actor=GATEWAY_ACTOR,
                at=at,
                session_id=str(session_id),
                turn_id=turn_id,
                subject=str(tool),
                outcome="withdrawn",
                facts={"approval": str(approval_id), "call": str(call_id)},
            ),
        )


def record_permission_given(cursor: apsw.Cursor, rule: ApprovalRule, *, by: str) -> None:
    record(
        cursor,
        AuditEntry(
            kind=AuditKind.PERMISSION_GIVEN,
            actor=by or rule.by,
            at=rule.created_at,
            session_id=rule.session_id,
            subject=rule.rule,
            facts={
                "permission": rule.id,
                "scope": rule.scope.value,
                "for": rule.principal,
                "expires": rule.expires_at,
            },
            whole_words={"target": rule.target} if rule.target else {},
        ),
    )


def record_permission_revoked(cursor: apsw.Cursor, rule_id: RuleId, *, by: str, at: float) -> None:
    """Records that a standing rule is revoked. To be called while the rule still exists."""
    found = cursor.execute(
        "SELECT session_id, rule, scope, principal FROM approval_rules WHERE id = ?", (rule_id,)
    ).fetchone()
    if found is None:
        return  # the caller reports that there is no such rule
    record(
        cursor,
        AuditEntry(
            kind=AuditKind.PERMISSION_REVOKED,
            actor=by or GATEWAY_ACTOR,
            at=at,
            session_id=found[0] or None,
            subject=found[1],
            facts={"permission": rule_id, "scope": found[2], "for": found[3]},
        ),
    )


# Never started, so there was nothing to allow.
_NOT_STARTED = (ToolOutcome.REFUSED, ToolOutcome.NOT_STARTED)
_TOOL_NAME = re.compile(r"[\w.-]{1,64}", re.ASCII)
_MAX_CALL_ID = 200  # characters; the model provider chooses it


def record_tool_call(cursor: apsw.Cursor, message: ToolMessage, position: TurnPosition) -> None:
    """Records a tool call, in one row in the commit of its result."""
    facts: dict[str, AuditValue] = {
        "call": message.call_id[:_MAX_CALL_ID],
        **_permission_facts(cursor, message, position),
    }
    if message.recovery is not None:
        facts["taken_up"] = message.recovery.value
    if message.exit_code is not None:
        facts["exit_code"] = message.exit_code
    calls = transcript.last_calls(cursor, position.turn_id)
    arguments = next((call.arguments for call in calls if call.id == message.call_id), "")
    _record_call(
        cursor,
        position,
        tool=message.name,
        outcome=message.outcome.value,
        facts=facts,
        arguments=arguments,
    )


def record_unfinished_calls(cursor: apsw.Cursor, position: TurnPosition) -> None:
    """Records started calls without a result when their turn ends: their outcome is unknown."""
    found = cursor.execute(
        "SELECT call_id FROM steps WHERE turn_id = ? AND call_id IS NOT NULL"
        " AND finished_at IS NULL ORDER BY seq",
        (position.turn_id,),
    ).fetchall()
    for (call_id,) in found:
        _record_call(
            cursor,
            position,
            tool="",
            outcome=ToolOutcome.UNKNOWN.value,
            facts={"call": str(call_id)[:_MAX_CALL_ID]},
            arguments="",
        )


def _record_call(
    cursor: apsw.Cursor,
    position: TurnPosition,
    *,
    tool: str,
    outcome: str,
    facts: dict[str, AuditValue],
    arguments: str,
) -> None:
    # A name that no tool can have is text of the model, and is stored as such.
    named = _TOOL_NAME.fullmatch(tool) is not None
    words = {"tool": "" if named else tool, "arguments": arguments}
    asked = cursor.execute("SELECT asked_by FROM turns WHERE id = ?", (position.turn_id,)).get
    record(
        cursor,
        AuditEntry(
            kind=AuditKind.TOOL_CALL,
            actor=str(asked or UNKNOWN_ACTOR),
            at=position.at,
            session_id=position.session_id,
            turn_id=position.turn_id,
            subject=tool if named else "",
            outcome=outcome,
            facts=facts,
            words={name: word for name, word in words.items() if word},
        ),
    )


def _permission_facts(
    cursor: apsw.Cursor, message: ToolMessage, position: TurnPosition
) -> dict[str, AuditValue]:
    """How a call was permitted: by an approval, by a standing approval rule, by a rule of the
    judge, or not at all."""
    asked = cursor.execute(
        "SELECT id, state, said_by, scope, ended_at FROM approvals"
        " WHERE turn_id = ? AND call_id = ?",
        (position.turn_id, message.call_id),
    ).fetchone()
    if asked is not None and asked[1] == ApprovalState.APPROVED.value:
        approval = {"approval": asked[0], "scope": asked[3], "approved_at": asked[4]}
        return {"allowed": "approved", "by": actor_of_principal(str(asked[2])), **approval}
    if message.outcome in _NOT_STARTED:
        return {"allowed": "no"} if asked is None else {"allowed": "no", "approval": asked[0]}
    return {
        "allowed": _recorded_permission(cursor, position.turn_id, message.call_id)
        or "without asking"
    }


def _recorded_permission(cursor: apsw.Cursor, turn_id: TurnId, call_id: CallId) -> str:
    """The permission as recorded when the call started; "": calls of this kind need none."""
    found = cursor.execute(
        "SELECT allowed FROM steps WHERE turn_id = ? AND call_id = ? ORDER BY seq DESC LIMIT 1",
        (turn_id, call_id),
    ).get
    return str(found or "")


# Of what a command may do, all that is a change and has no row of its own kind.
AUDITED_EFFECTS = frozenset(
    {
        "new_session",
        "model_override",
        "title",
        "resume",
        "fork",
        "undo",
        "resubmit",
        "compaction",
        "busy_mode",
        "home",
        "unset_home",
        "quiet",
        "job",
        "new_job",
        "runs",
        "skip_runs",
        "notes",
        "background",
    }
)
_MAX_COMMAND_NAME = 40  # characters of a name


def record_command(cursor: apsw.Cursor, effect: CommandEffect) -> None:
    """Records a command that changes something, or that its sender may not use."""
    if effect.by:
        _record_dropped(cursor, effect)
    if not effect.inbox_ends:
        return
    own = effect.inbox_ends[-1]
    if own.state is InboxState.REFUSED:
        _record_command_row(cursor, effect, AuditKind.COMMAND_REFUSED, outcome=REFUSED)
    elif _has_audited_effect(effect):
        _record_command_row(cursor, effect, AuditKind.COMMAND, outcome=own.state.value)


def _has_audited_effect(effect: CommandEffect) -> bool:
    fields = msgspec.structs.asdict(effect)
    return any(fields[name] is not None for name in AUDITED_EFFECTS)


def _record_command_row(
    cursor: apsw.Cursor, effect: CommandEffect, kind: AuditKind, *, outcome: str
) -> None:
    actor, text = message_author(cursor, effect.inbox_ends[-1].inbox_id)
    session_id = effect.session_id or effect.new_session
    name, _, _ = text.strip().partition(" ")
    record(
        cursor,
        AuditEntry(
            kind=kind,
            actor=actor,
            at=effect.at,
            session_id=session_id,
            # A message that is not a command was executed as one: an answer to a question.
            subject=name[:_MAX_COMMAND_NAME] if name.startswith("/") else "",
            outcome=outcome,
            facts=_command_facts(effect),
            # In no session yet there is nothing that they would be forgotten with.
            words={"text": text} if kind is AuditKind.COMMAND and session_id is not None else {},
        ),
    )


def _command_facts(effect: CommandEffect) -> dict[str, str | int | float | bool | None]:
    """The session in which a chat continues."""
    fork = effect.fork.session_id if effect.fork is not None else None
    to = effect.new_session or effect.resume or fork
    return {} if to is None else {"to": to}


def _record_dropped(cursor: apsw.Cursor, effect: CommandEffect) -> None:
    """Records that queued messages were dropped from outside the chat while no turn ran."""
    record(
        cursor,
        AuditEntry(
            kind=AuditKind.TURN_STOPPED,
            actor=effect.by,
            at=effect.at,
            session_id=effect.session_id,
            facts={"dropped": len(effect.inbox_ends)},
        ),
    )


_OPERATOR_REQUESTERS = (StopRequester.CLI, StopRequester.PAGE)


def record_turn_stopped(cursor: apsw.Cursor, end: EndTurn) -> None:
    """Records that a turn was stopped for good. The actors are the author of the command and the
    operator, if both stopped it at the same time."""
    commands = [row.inbox_id for row in end.inbox_ends if row.state is InboxState.ANSWERED]
    names = [message_author(cursor, commands[-1])[0]] if commands else []
    if end.by and end.by != GATEWAY_ACTOR:
        names.append(end.by)
    actor = ", ".join(dict.fromkeys(names)) or GATEWAY_ACTOR
    record(
        cursor,
        AuditEntry(
            kind=AuditKind.TURN_STOPPED,
            actor=actor,
            at=end.at,
            session_id=end.session_id,
            turn_id=end.turn_id,
            subject=end.turn_id,
        ),
    )


def record_gateway_stop(cursor: apsw.Cursor, row: StopRow) -> None:
    """Records that a gateway process was asked to stop, or that its successor found that it had
    crashed."""
    order = row.order
    owner = OPERATOR if order.by in _OPERATOR_REQUESTERS else GATEWAY_ACTOR
    record(
        cursor,
        AuditEntry(
            kind=AuditKind.GATEWAY_LEFT,
            actor=order.principal or owner,
            at=order.at,
            subject=order.kind.value,
            facts={"by": order.by.value, "now": order.now, "stop": row.id},
        ),
    )

"""Column lists of the tables, and the structs that their rows are decoded to and encoded from."""

from math import isfinite
from typing import Any

import msgspec

from holdfast.core.ids import (
    ApprovalId,
    CallId,
    DeliveryId,
    InboxId,
    PrincipalId,
    RuleId,
    SessionId,
    SessionKey,
    TurnId,
)
from holdfast.core.messages.inbox import BusyMode, Inbound, InboxRow, InboxState
from holdfast.core.messages.outbox import (
    Address,
    Button,
    DeliveryKind,
    DeliveryPart,
    DeliveryRow,
    DeliveryState,
    PendingFile,
)
from holdfast.core.messages.transcript import AssistantMessage, Message, TranscriptRecord
from holdfast.core.people.approval import (
    Approval,
    ApprovalRule,
    ApprovalScope,
    ApprovalState,
    RuleMatch,
)
from holdfast.core.sessions.reset import ResetReason
from holdfast.core.sessions.session import ProcessRow, RunnerRow, SessionRow
from holdfast.core.turns.external import Taint
from holdfast.core.turns.subagent import Subagent
from holdfast.core.turns.turn import StepKind, StepRow, TurnRow, TurnRowState, Usage

Row = tuple[Any, ...]

_json_encoder = msgspec.json.Encoder()
_message_decoder = msgspec.json.Decoder(Message)
_inbound_decoder = msgspec.json.Decoder(Inbound)
_subagent_decoder = msgspec.json.Decoder(Subagent)
_RESET_REASONS = frozenset(ResetReason)

# A struct is built from its columns by position; the two stand side by side so that a
# change to one is a change to the other.

INBOX_COLUMNS = (
    "id, route, principal, body, state, decision, session_id, turn_id, merged_into, reason,"
    " accepted_at, ended_at"
)


def decode_inbox_row(row: Row) -> InboxRow:
    return InboxRow(
        id=InboxId(row[0]),
        route=SessionKey(row[1]),
        principal=PrincipalId(row[2]),
        inbound=_inbound_decoder.decode(row[3]),
        state=InboxState(row[4]),
        decision=None if row[5] is None else BusyMode(row[5]),
        session_id=row[6],
        turn_id=row[7],
        merged_into=row[8],
        reason=row[9],
        accepted_at=row[10],
        ended_at=row[11],
    )


SESSION_COLUMNS = (
    "id, route, (SELECT text FROM prompts WHERE session_id = s.id), model_override, cuts,"
    " suspended, created_at, active_at, ended_at,"
    " (SELECT seq FROM messages WHERE session_id = s.id ORDER BY seq DESC LIMIT 1), title,"
    " NOT suspended AND ended_at IS NULL"
    " AND EXISTS (SELECT 1 FROM routes r WHERE r.key = s.route AND r.session_id = s.id),"
    " principal, resume_pending, resume_reason, last_resume_marked_at, auto_reset_reason,"
    " previous_id, (SELECT shape FROM prompts WHERE session_id = s.id),"
    " (SELECT json_group_array(json_array(label, principal)) FROM"
    " (SELECT label, principal FROM taints WHERE session_id = s.id ORDER BY seq, label))"
)


def decode_session(row: Row) -> SessionRow:
    return SessionRow(
        id=SessionId(row[0]),
        route=SessionKey(row[1]),
        prompt=row[2] or "",
        model_override=row[3],
        interruptions=row[4],
        suspended=bool(row[5]),
        created_at=row[6],
        active_at=row[7],
        ended_at=row[8],
        messages=row[9] or 0,
        title=row[10],
        current=bool(row[11]),
        principal=row[12],
        resume_pending=bool(row[13]),
        resume_reason=row[14],
        last_resume_marked_at=_decode_time(row[15]),
        auto_reset_reason=decode_reset_reason(row[16]),
        previous=row[17],
        prompt_fingerprint=row[18] or "",
        taints=_decode_taints(row[19]),
    )


def _decode_taints(value: str) -> tuple[Taint, ...]:
    if value == "[]":
        return ()
    return tuple(
        Taint(label=label, principal=PrincipalId(principal) if principal else None)
        for label, principal in msgspec.json.decode(value, type=list[tuple[str, str]])
    )


def _decode_time(value: object) -> float | None:
    """A time; None if the value is invalid, so that it does not spoil its row."""
    sound = isinstance(value, int | float) and isfinite(value) and value >= 0
    return float(value) if sound else None  # type: ignore[arg-type]  # as `sound` says


def decode_reset_reason(value: str | None) -> ResetReason | None:
    return ResetReason(value) if value in _RESET_REASONS else None


def decode_message(body: str) -> Message:
    decoded: Message = _message_decoder.decode(body)
    return decoded


RECORD_COLUMNS = "seq, turn_id, body, created_at"


def messages_not_undone(schema: str = "main") -> str:
    """The conversation as it is now: what a model is shown and what a fork copies. It is a subquery
    and not a view, because SQLite does not look for lost pages in a file that lists a view first in
    its schema (decision 61)."""
    return (
        f"(SELECT m.* FROM {schema}.messages m WHERE NOT EXISTS (SELECT 1 FROM {schema}.undone u"
        " WHERE u.session_id = m.session_id AND m.seq BETWEEN u.from_seq AND u.to_seq))"
    )


UNDONE_COLUMN = (
    "EXISTS (SELECT 1 FROM undone u WHERE u.session_id = m.session_id"
    " AND m.seq BETWEEN u.from_seq AND u.to_seq)"
)


def decode_record(row: Row) -> TranscriptRecord:
    """`UNDONE_COLUMN` may be one more column."""
    return TranscriptRecord(
        seq=row[0],
        turn_id=row[1],
        message=_message_decoder.decode(row[2]),
        created_at=row[3],
        undone=len(row) > 4 and bool(row[4]),
    )


USAGE_COLUMNS = "input_tokens, output_tokens, cached_tokens, reasoning_tokens"


def decode_usage(columns: Row) -> Usage:
    return Usage(
        input_tokens=columns[0],
        output_tokens=columns[1],
        cached_tokens=columns[2],
        reasoning_tokens=columns[3],
    )


def usage_columns(usage: Usage) -> tuple[int, int, int, int]:
    return usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.reasoning_tokens


TURN_COLUMNS = f"id, session_id, state, reason, started_at, ended_at, {USAGE_COLUMNS}"


def decode_turn(row: Row) -> TurnRow:
    return TurnRow(
        id=TurnId(row[0]),
        session_id=SessionId(row[1]),
        state=TurnRowState(row[2]),
        reason=row[3],
        started_at=row[4],
        ended_at=row[5],
        usage=decode_usage(row[6:]),
    )


STEP_COLUMNS = f"turn_id, seq, kind, call_id, message_seq, started_at, finished_at, {USAGE_COLUMNS}"


def decode_step(row: Row) -> StepRow:
    return StepRow(
        turn_id=TurnId(row[0]),
        seq=row[1],
        kind=StepKind(row[2]),
        call_id=None if row[3] is None else CallId(row[3]),
        message_seq=row[4],
        started_at=row[5],
        finished_at=row[6],
        usage=decode_usage(row[7:]),
    )


RUNNER_COLUMNS = "session_id, pid, start_time, outer_pid, sandboxed, started_at"


def decode_runner(row: Row) -> RunnerRow:
    return RunnerRow(
        session_id=SessionId(row[0]),
        pid=row[1],
        start_time=row[2],
        outer_pid=row[3],
        sandboxed=bool(row[4]),
        started_at=row[5],
    )


PROCESS_COLUMNS = "session_id, id, command, started_at, ended_at, exit_code, note"


def decode_process(row: Row) -> ProcessRow:
    return ProcessRow(
        session_id=SessionId(row[0]),
        id=row[1],
        command=row[2],
        started_at=row[3],
        ended_at=row[4],
        exit_code=row[5],
        note=row[6],
    )


def decode_subagent(body: str) -> Subagent:
    return _subagent_decoder.decode(body)


def encode_json(
    value: Message
    | Inbound
    | Address
    | Subagent
    | tuple[Button, ...]
    | tuple[InboxId, ...]
    | PendingFile,
) -> str:
    """JSON as text, so that a person with a shell and a damaged file can still read it."""
    return _json_encoder.encode(value).decode()


_principals_decoder = msgspec.json.Decoder(tuple[PrincipalId, ...])
_matches_decoder = msgspec.json.Decoder(tuple[RuleMatch, ...])

# The last but two: the message that asks was refused for good.
APPROVAL_COLUMNS = """id, session_id, asked_in, turn_id, call_id, number, tool, command, rule, why,
    requester, approvers, delivery_id, asked_at, deadline, state, scope, said_by, words, ended_at,
    state = 'pending' AND EXISTS (
        SELECT 1 FROM outbox o WHERE o.id = approvals.delivery_id AND o.state = 'failed'
    ), matches, digest"""


def decode_approval(row: Row) -> Approval:
    return Approval(
        id=ApprovalId(row[0]),
        session_id=SessionId(row[1]),
        asked_in=SessionId(row[2]),
        turn_id=TurnId(row[3]),
        call_id=CallId(row[4]),
        number=row[5],
        tool=row[6],
        command=row[7],
        rule=row[8],
        why=row[9],
        requester=PrincipalId(row[10]),
        approvers=_principals_decoder.decode(row[11]),
        delivery_id=DeliveryId(row[12]),
        asked_at=row[13],
        deadline=row[14],
        state=ApprovalState(row[15]),
        scope=ApprovalScope(row[16]),
        by=row[17],
        comment=row[18],
        ended_at=row[19],
        request_failed=bool(row[20]),
        matches=_matches_decoder.decode(row[21]),
        digest=row[22],
    )


RULE_COLUMNS = (
    "id, scope, session_id, principal, rule, why, said_by, created_at, target, expires_at"
)


def decode_approval_rule(row: Row) -> ApprovalRule:
    return ApprovalRule(
        id=RuleId(row[0]),
        scope=ApprovalScope(row[1]),
        session_id=SessionId(row[2]),
        principal=PrincipalId(row[3]),
        rule=row[4],
        why=row[5],
        by=row[6],
        created_at=row[7],
        target=row[8],
        expires_at=row[9],
    )


_address_decoder = msgspec.json.Decoder(Address)
_buttons_decoder = msgspec.json.Decoder(tuple[Button, ...])
_file_decoder = msgspec.json.Decoder(PendingFile)

# The seventeenth is the body of the assistant message that a delivery without a text refers to.
DELIVERY_COLUMNS = """seq, id, address, kind, text, session_id, turn_id, inbox_id, state, attempts,
    doubtful, resends, platform_message_id, error, expires_at, created_at,
    CASE WHEN text IS NULL THEN (
        SELECT m.body FROM steps p
        JOIN messages m ON m.session_id = p.session_id AND m.seq = p.message_seq
        WHERE p.turn_id = outbox.turn_id AND p.kind = 'model'
        ORDER BY p.seq DESC LIMIT 1
    ) END, choices, file, updated_at"""


def decode_delivery(row: Row) -> DeliveryRow:
    return DeliveryRow(
        seq=row[0],
        id=DeliveryId(row[1]),
        address=_address_decoder.decode(row[2]),
        kind=DeliveryKind(row[3]),
        text=_reply_text(row[16]) if row[4] is None else row[4],
        session_id=row[5],
        turn_id=row[6],
        inbox_id=row[7],
        state=DeliveryState(row[8]),
        attempts=row[9],
        outcome_unknown=bool(row[10]),
        resends=row[11],
        platform_message_id=row[12],
        error=row[13],
        expires_at=row[14],
        created_at=row[15],
        buttons=() if row[17] is None else _buttons_decoder.decode(row[17]),
        file=None if row[18] is None else _file_decoder.decode(row[18]),
        updated_at=row[19],
    )


def decode_part(row: Row) -> DeliveryPart:
    return DeliveryPart(
        number=row[0],
        state=DeliveryState(row[1]),
        final=bool(row[2]),
        outcome_unknown=bool(row[3]),
        resends=row[4],
        platform_message_id=row[5],
        replaced=row[6],
    )


def _reply_text(body: str | None) -> str:
    message = None if body is None else decode_message(body)
    return message.text if isinstance(message, AssistantMessage) else ""

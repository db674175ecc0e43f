"""Wire types of sessions, transcripts, messages, approvals, and the events of streams."""

from enum import StrEnum
from typing import Annotated

import msgspec

from holdfast.core.messages.inbox import BusyMode, InboxState
from holdfast.core.messages.source import parse_route
from holdfast.core.messages.transcript import Message, ToolMessage, TranscriptRecord
from holdfast.core.people.approval import ApprovalScope, ApprovalState
from holdfast.core.sessions.session import SessionRow
from holdfast.core.turns.subagent import platform_label
from holdfast.core.turns.turn import TurnRow, TurnRowState, Usage
from holdfast.core.turns.turn_state import LaneState

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class RuleMatchView(msgspec.Struct, frozen=True, kw_only=True):
    """One rule that fired on a command."""

    rule: str
    reason: str
    part: str  # of the command, in full
    target: str | None  # the program or path that a standing approval is bound to; null: none


class ApprovalView(msgspec.Struct, frozen=True, kw_only=True):
    """A command that waits, or waited, for the decision of a person."""

    id: str
    session_id: str
    asked_in: str  # the session in which it can be answered: a subagent's is that of its parent
    turn_id: str
    number: int  # among those of its turn
    tool: str
    command: str
    rule: str  # the worst of those that fired; "": only `once` is possible
    rules: list[RuleMatchView]  # all of them; empty in approvals of older versions
    reason: str  # of all rules
    requester: str
    approvers: list[str]  # besides the operators
    asked_at: float
    deadline: float
    state: ApprovalState
    scope: ApprovalScope
    by: str
    comment: str
    ended_at: float | None


class ApprovalVerdict(StrEnum):
    APPROVE = "approve"
    DENY = "deny"


class ApprovalDecisionParams(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`comment`: given to the model with a denial."""

    answer: ApprovalVerdict
    scope: ApprovalScope = ApprovalScope.ONCE
    comment: Annotated[str, msgspec.Meta(max_length=2000)] = ""


class ApprovalRuleView(msgspec.Struct, frozen=True, kw_only=True):
    """A standing approval: what this rule finds on this target runs for this person without asking,
    if everything else in the command is approved, too."""

    id: str
    scope: ApprovalScope
    session_id: str
    principal: str
    rule: str
    target: str | None  # a program, a path, or "" where the rule says it all
    reason: str
    by: str
    created_at: float
    expires_at: float


class SessionSummaryView(msgspec.Struct, frozen=True, kw_only=True):
    """`usage`: of the turns of the session. `cost`: null where no price is set, or a model has
    none."""

    owner: str | None  # null: shared, or not used yet
    last_text: str  # the beginning of the last text
    last_role: str  # user, assistant, or empty
    usage: Usage
    cost: float | None
    queued: int  # messages that wait for a turn


class SessionView(msgspec.Struct, frozen=True, kw_only=True):
    """A session in a list. `current`: its route points to it, so messages can be sent to it."""

    id: str
    title: str  # its own, or the beginning of its first message
    platform: str
    chat: str
    state: LaneState
    current: bool
    suspended: bool
    model: str | None
    messages: int
    created_at: float
    active_at: float
    ended_at: float | None
    resume_pending: bool = False  # its turn was interrupted, and none has completed since
    auto_reset_reason: str | None = None  # why it replaced `previous` automatically
    previous: str | None = None
    summary: SessionSummaryView | None = None  # in a list, with `summary=true`


class SessionList(msgspec.Struct, frozen=True, kw_only=True):
    """`next`: the `after` of the next page; null: there is none."""

    sessions: list[SessionView]
    more: bool
    next: str | None = None


class NewSession(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`name`: the same name gives the same session; None: a new one."""

    name: Name | None = None


class SessionChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    title: Annotated[str, msgspec.Meta(max_length=200)]


class RecordView(msgspec.Struct, frozen=True, kw_only=True):
    """A committed message of a transcript. `seq` rises by one; it is the id of its event. `undone`:
    taken back by `/undo`; models do not see it any more. `full_length`: characters of the output of
    a tool, if `max_tool_output` has cut it."""

    seq: int
    turn_id: str | None
    at: float
    message: Message
    undone: bool = False
    full_length: int | None = None


class TurnView(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    state: TurnRowState
    started_at: float
    ended_at: float | None
    usage: Usage
    reason: str


class LiveCall(msgspec.Struct, frozen=True, kw_only=True):
    """A running tool call; `output` is the end of what it has written so far."""

    call_id: str
    name: str
    arguments: str
    output: str = ""


class QueuedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that is accepted and that no turn has taken yet."""

    id: int
    message_id: str  # its sender's own
    text: str


class RetryEvent(msgspec.Struct, frozen=True, kw_only=True):
    """`retry` event: a model call failed, and is repeated after `delay` seconds. It applies until
    the next `text`, `reasoning`, `void` or `live` event."""

    text: str  # for a person, in the language of the request
    attempt: int  # the next one
    attempts: int  # at most
    delay: float


class LiveState(msgspec.Struct, frozen=True, kw_only=True):
    """What is not committed yet: the current step of the running turn, and what waits."""

    turn_id: str
    resumed: bool = False
    text: str = ""
    reasoning: str = ""
    calls: list[LiveCall] = []
    retry: RetryEvent | None = None  # the model call failed, and is repeated
    queued: list[QueuedMessage] = []
    approvals: list[ApprovalView] = []  # pending
    idle: bool = False  # no turn runs or waits: a background subagent asks for approval


class SessionDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A session with its newest records, the oldest of them first."""

    session: SessionView
    turns: list[TurnView]
    records: list[RecordView]
    more: bool  # older records exist: ask /transcript?before=
    live: LiveState | None


class TranscriptPage(msgspec.Struct, frozen=True, kw_only=True):
    records: list[RecordView]
    more: bool


def session_view(row: SessionRow, *, state: LaneState = LaneState.IDLE) -> SessionView:
    platform, _, _, chat = parse_route(row.route)
    return SessionView(
        id=row.id,
        title=row.title,
        platform=platform_label(platform),
        chat=chat,
        state=state,
        current=row.current,
        suspended=row.suspended,
        model=row.model_override,
        messages=row.messages,
        created_at=row.created_at,
        active_at=row.active_at,
        ended_at=row.ended_at,
        resume_pending=row.resume_pending,
        auto_reset_reason=row.auto_reset_reason,
        previous=row.previous,
    )


def turn_view(row: TurnRow) -> TurnView:
    return TurnView(
        id=row.id,
        state=row.state,
        started_at=row.started_at,
        ended_at=row.ended_at,
        usage=row.usage,
        reason=row.reason,
    )


def record_view(record: TranscriptRecord, max_tool_output: int | None = None) -> RecordView:
    message, full_length = record.message, None
    if (
        max_tool_output is not None
        and isinstance(message, ToolMessage)
        and len(message.text) > max_tool_output
    ):
        full_length = len(message.text)
        message = msgspec.structs.replace(message, text=message.text[:max_tool_output])
    return RecordView(
        seq=record.seq,
        turn_id=record.turn_id,
        at=record.created_at,
        message=message,
        undone=record.undone,
        full_length=full_length,
    )


class AttachmentUpload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The model sees images; every file is saved in the workspace, under uploads/."""

    name: Name
    media_type: str = "application/octet-stream"
    data: str  # base64


class NewMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`message_id` is the client's own: sent again, it is the same message."""

    text: str
    message_id: Name
    mode: BusyMode | None = None  # what to do to a running turn; None: as configured
    attachments: list[AttachmentUpload] = []


class NewSteer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`message_id` is the client's own: sent again, it is the same message."""

    text: str
    message_id: Name


class AcceptedView(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    message_id: str
    session_id: str
    duplicate: bool
    state: InboxState


class MessageView(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a message, with the text its sender gets once it has ended."""

    id: int
    session_id: str | None
    state: InboxState
    text: str
    reason: str
    usage: Usage


class StopResult(msgspec.Struct, frozen=True, kw_only=True):
    stopped: bool


class TextEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """`text` and `reasoning` events: appended to the live step."""

    text: str


class ToolEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """`tool` event: new output of a running call."""

    call_id: str
    text: str


class VoidEvent(msgspec.Struct, frozen=True, kw_only=True):
    """`void` event: the live text is void, because the model is asked again."""

    why: str


class EndedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """`ended` event: a message has ended. Its records came before."""

    id: int
    state: InboxState
    reason: str


class GatewayEvent(msgspec.Struct, frozen=True, kw_only=True):
    """`gateway` event of `/events`: the gateway stops or is about to, or the state of an account
    changed. `turns`: how many run; `pending_restart`: it restarts once none does;
    `blocked_accounts`: a sentence for each account that needs a person."""

    state: str
    phase: str
    turns: int
    pending_restart: bool
    blocked_accounts: tuple[str, ...] = ()


class DeletedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """`deleted` event of `/events`: a session was deleted."""

    id: str

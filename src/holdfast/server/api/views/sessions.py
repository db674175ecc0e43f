"""Wire types of conversations: sessions, transcripts, messages, approvals, and the events of a stream."""

from enum import StrEnum
from typing import Annotated

import msgspec

from holdfast.core.messages.inbox import BusyMode, InboxState
from holdfast.core.messages.source import parse_route
from holdfast.core.messages.transcript import Message, ToolMessage, TranscriptRecord
from holdfast.core.people.approval import ApprovalScope, ApprovalState
from holdfast.core.sessions.session import SessionRow
from holdfast.core.turns.turn import LaneState, TurnRow, TurnState, Usage

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class ApprovalView(msgspec.Struct, frozen=True, kw_only=True):
    """A command that waits, or waited, for a person's word."""

    id: str
    session_id: str
    turn_id: str
    number: int  # among those of its turn
    tool: str
    command: str
    rule: str  # "": only `once` is possible
    reason: str
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
    """`words`: what the model is told with a no."""

    answer: ApprovalVerdict
    scope: ApprovalScope = ApprovalScope.ONCE
    comment: Annotated[str, msgspec.Meta(max_length=2000)] = ""


class ApprovalRuleView(msgspec.Struct, frozen=True, kw_only=True):
    """A yes that stands: what this rule asks about runs for this person without asking."""

    id: str
    scope: ApprovalScope
    session_id: str
    principal: str
    rule: str
    reason: str
    by: str
    created_at: float


class SessionSummaryView(msgspec.Struct, frozen=True, kw_only=True):
    """What a list says of a conversation besides. `usage`: of its turns that have ended; `cost`:
    null where no price is set, or a model has none."""

    owner: str | None  # whose it is; null: several people's, or nobody's yet
    last_text: str  # the last words, or their beginning
    last_role: str  # whose they are: user, assistant, or nobody's
    usage: Usage
    cost: float | None
    queued: int  # messages that no turn has taken yet


class SessionView(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation in a list. `current`: its route still points to it, so it can be spoken to."""

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
    resume_pending: bool = False  # its turn was cut, and none has completed since
    auto_reset_reason: str | None = None  # why it took the place of `previous` by itself
    previous: str | None = None
    summary: SessionSummaryView | None = None  # in a list, where it was asked for


class SessionList(msgspec.Struct, frozen=True, kw_only=True):
    """`next`: what `after` takes to go on behind these; null: there are no more."""

    sessions: list[SessionView]
    more: bool
    next: str | None = None


class NewSession(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`name` makes it findable again (the same name gives the same session); None: a fresh one."""

    name: Name | None = None


class SessionChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    title: Annotated[str, msgspec.Meta(max_length=200)]


class RecordView(msgspec.Struct, frozen=True, kw_only=True):
    """A committed message of a transcript. `seq` rises by one; it is the id of its event.
    `undone`: its user took it back, and no model is shown it any more. `whole`: how many characters
    a tool has printed, where less of it is here because `cut` was asked for."""

    seq: int
    turn_id: str | None
    at: float
    message: Message
    undone: bool = False
    full_length: int | None = None


class TurnView(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    state: TurnState
    started_at: float
    ended_at: float | None
    usage: Usage
    reason: str


class LiveCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call that is running; `output` is what it has written so far, its end."""

    call_id: str
    name: str
    arguments: str
    output: str = ""


class QueuedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that is accepted and that no turn has taken yet."""

    id: int
    message_id: str  # its sender's own
    text: str


class LiveState(msgspec.Struct, frozen=True, kw_only=True):
    """What is not committed yet: the present step of the running turn, and what waits."""

    turn_id: str
    resumed: bool = False
    text: str = ""
    reasoning: str = ""
    calls: list[LiveCall] = []
    queued: list[QueuedMessage] = []
    approvals: list[ApprovalView] = []  # what waits for a person's word
    idle: bool = False  # no turn runs or waits here: a background child asks


class SessionDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation opened: its newest records, oldest of them first."""

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
        platform=platform,
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
    message, whole = record.message, None
    if (
        max_tool_output is not None
        and isinstance(message, ToolMessage)
        and len(message.text) > max_tool_output
    ):
        whole = len(message.text)
        message = msgspec.structs.replace(message, text=message.text[:max_tool_output])
    return RecordView(
        seq=record.seq,
        turn_id=record.turn_id,
        at=record.created_at,
        message=message,
        undone=record.undone,
        full_length=whole,
    )


class AttachmentUpload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Images reach the model; every file is put into the session's workspace, under uploads/."""

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
    """What became of a message: its end with the text its sender gets, or that it has none yet."""

    id: int
    session_id: str | None
    state: InboxState
    text: str
    reason: str
    usage: Usage


class StopResult(msgspec.Struct, frozen=True, kw_only=True):
    stopped: bool


class TextEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """`text` and `reasoning` events: a piece that is appended to the live step."""

    text: str


class ToolEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """`tool` event: output that a running call has written meanwhile."""

    call_id: str
    text: str


class VoidEvent(msgspec.Struct, frozen=True, kw_only=True):
    """`void` event: the live text is void, because the model is asked again."""

    why: str


class EndedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """`ended` event: a message has reached its end. Its records came before."""

    id: int
    state: InboxState
    reason: str


class GatewayEvent(msgspec.Struct, frozen=True, kw_only=True):
    """`gateway` event of `/events`: it stops, or is to, or an account stands otherwise than before.
    `turns`: how many run; `pending`: it restarts once none does; `refused`: a sentence for each
    account that waits for a person."""

    state: str
    phase: str
    turns: int
    pending_restart: bool
    blocked_accounts: tuple[str, ...] = ()


class DeletedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """`deleted` event of `/events`: that session is gone."""

    id: str

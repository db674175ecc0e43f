"""The views of turns: a turn in a list, and the timeline of one."""

from enum import StrEnum

import msgspec

from holdfast.core.messages.inbox import InboxState
from holdfast.core.messages.message import CallRecovery, ToolOutcome
from holdfast.core.people.approval import ApprovalState
from holdfast.core.turns.stop import TurnExitReason
from holdfast.core.turns.turn import TurnState, Usage
from holdfast.server.api.views.outbox_views import DeliveryDetail


class TurnSummaryView(msgspec.Struct, frozen=True, kw_only=True):
    """A turn as a whole. `cost`: null where a model has no price. `resumed`: how many later lives
    of the gateway it was open in. `left_as`: how a process has left it that is gone."""

    id: str
    session_id: str
    state: TurnState
    reason: str
    started_at: float
    ended_at: float | None
    steps: int
    usage: Usage
    cost: float | None
    resumed: int
    exit_reason: TurnExitReason | None
    waiting_for_approval: bool  # for a person's word


class TurnListItem(TurnSummaryView, frozen=True, kw_only=True):
    """A turn in a list of everybody's, with the conversation that it belongs to."""

    title: str
    platform: str


class RecentTurns(msgspec.Struct, frozen=True, kw_only=True):
    """The newest first, or the slowest of the newest. `more`: `before` the last has the next."""

    turns: list[TurnListItem]
    more: bool


class TurnList(msgspec.Struct, frozen=True, kw_only=True):
    """The newest first."""

    turns: list[TurnSummaryView]
    more: bool


class TurnInputView(msgspec.Struct, frozen=True, kw_only=True):
    """A message that the turn took: it waited from `accepted_at` to `taken_at`. `steered`: it
    came while the turn ran."""

    id: int
    principal: str
    state: InboxState
    accepted_at: float
    taken_at: float
    steered: bool


class TimelineSpanKind(StrEnum):
    MODEL = "model"
    TOOL = "tool"
    APPROVAL = "approval"  # it waits for a person's word
    STEER = "steer"
    NOTE = "note"
    COMPACTION = "compaction"
    DRAIN = "drain"  # it stands at a step boundary while its process stops
    DOWNTIME = "away"  # no process of the gateway was there


class TurnExitState(StrEnum):
    """How a process that went left the turn."""

    INTERRUPTED = "cut"  # in the middle of a step
    PARKED = "parked"  # between two steps: it went on as if nothing had happened
    WAITING = "waiting"  # for a person, whom it went on waiting for


class TimelineSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of a turn. `ended_at` null: it goes on. `name`: of the model, of the tool, or why
    the process went. `about`: what a call is about, in a line. `step` and `record`: its seq among
    the steps, and in the transcript.

    A call that was started by one process and settled by another says how: `taken_up`, or the
    outcome `unknown`. A request to a model that was cut has the outcome `cancelled`, and one that
    its turn failed by `error`.
    """

    kind: TimelineSpanKind
    started_at: float
    ended_at: float | None
    name: str = ""
    summary: str = ""
    step: int | None = None
    record: int | None = None
    usage: Usage | None = None
    cost: float | None = None
    call_id: str | None = None
    outcome: ToolOutcome | None = None
    recovery: CallRecovery | None = None
    approval: str | None = None
    decision: ApprovalState | None = None
    by: str = ""  # who decided, or who asked the gateway to go
    exit_state: TurnExitState | None = None


class TimelineView(msgspec.Struct, frozen=True, kw_only=True):
    """Where `more` is true, `after` the last step of these has the next spans; the turn, its
    messages and its deliveries come with every page. `previous` and `next`: the turns beside it in
    its session."""

    turn: TurnSummaryView
    inputs: list[TurnInputView]
    spans: list[TimelineSpan]
    deliveries: list[DeliveryDetail]
    more: bool
    previous: str | None = None
    next: str | None = None

"""Turns, their steps and their costs, as they are read to be displayed."""

from collections.abc import Mapping

import msgspec

from holdfast.core.ids import CallId, InboxId, PrincipalId, SessionId, TurnId
from holdfast.core.messages.inbox import InboxState
from holdfast.core.messages.outbox import DeliveryRow
from holdfast.core.messages.transcript import CallRecovery, ToolOutcome
from holdfast.core.people.approval import Approval
from holdfast.core.ports.command import Query
from holdfast.core.turns.stop import StopRow, TurnExitReason
from holdfast.core.turns.turn import StepKind, TurnRow, TurnRowState, Usage

MAX_TIMELINE_ITEMS = 500
MAX_TURNS_SCANNED = 2000


class TurnOutline(msgspec.Struct, frozen=True, kw_only=True):
    """A turn as a whole. `usage` covers the steps so far where it is open."""

    turn: TurnRow
    usage: Usage
    steps: int
    resumed: int  # gateway processes, after its first, in which it was open
    exit_reason: TurnExitReason | None = None  # set: open, but not in the running process


class TurnQuery(Query["list[TurnOutline]"], frozen=True, kw_only=True):
    """Selects turns of all sessions, including those of subagents, newest first or slowest first.

    All open turns are read; of the others the newest `MAX_TURNS_SCANNED` that began before
    `before`, so that a query for something rare does not read the whole table.
    """

    limit: int
    state: TurnRowState | None = None
    before: TurnId | None = None
    slowest: bool = False


class TurnInput(msgspec.Struct, frozen=True, kw_only=True):
    """A message that a turn took, without its text, which is in the transcript."""

    id: InboxId
    principal: PrincipalId
    state: InboxState
    accepted_at: float
    ended_at: float | None


class StepSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A step, with what a list shows of its message."""

    seq: int
    kind: StepKind
    started_at: float
    finished_at: float | None
    usage: Usage
    message_seq: int | None = None
    call_id: CallId | None = None
    model: str = ""
    tool: str = ""
    outcome: ToolOutcome | None = None
    exit_code: int | None = None  # of a command
    recovery: CallRecovery | None = None
    summary: str = ""  # the arguments of a call, on one line


class TurnDetails(msgspec.Struct, frozen=True, kw_only=True):
    """One page of a turn's steps with its surroundings, read in one snapshot."""

    outline: TurnOutline
    inputs: tuple[TurnInput, ...]  # oldest first, at most `MAX_TIMELINE_ITEMS`, as all lists below
    steps: tuple[StepSummary, ...]
    more: bool  # further steps follow
    since: float  # when the step before the first of these ended
    approvals: tuple[Approval, ...]
    deliveries: tuple[DeliveryRow, ...]
    stops: tuple[StopRow, ...]  # process stops between its begin and its end
    previous: TurnId | None = None  # the turn before it in its session
    next: TurnId | None = None  # the turn after it


class SessionPreview(msgspec.Struct, frozen=True, kw_only=True):
    """What a list shows of a session besides its row. `usage` covers its turns (of an open one, the
    steps so far) and the auxiliary calls."""

    session_id: SessionId
    last_text: str  # the last message, or its beginning
    last_role: str  # who wrote it: "user", "assistant"; "": there is no message yet
    usage: Usage


class ModelUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What a session has used, by model. `""`: the model is unknown, as of auxiliary calls."""

    by_model: Mapping[str, Usage]
    uncounted: int = 0  # messages that were read for it, because no stored sum covers them


class ReplyStats(msgspec.Struct, frozen=True, kw_only=True):
    """A model's reply: its record, time and usage. It began when everything before it was done and
    a process was running."""

    record: int
    turn_id: TurnId
    model: str
    began_at: float
    ended_at: float
    usage: Usage


class TranscriptStats(msgspec.Struct, frozen=True, kw_only=True):
    """The replies in a range of a transcript, and the turns that wrote in it as a whole."""

    turns: tuple[TurnOutline, ...]  # oldest first
    replies: tuple[ReplyStats, ...]
    deliveries: tuple[DeliveryRow, ...]
    usage_by_model: Mapping[TurnId, Mapping[str, Usage]]

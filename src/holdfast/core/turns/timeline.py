"""Turns, their steps and their costs, as they are read to be displayed."""

from collections.abc import Mapping

import msgspec

from holdfast.core.ids import CallId, InboxId, PrincipalId, SessionId, TurnId
from holdfast.core.messages.inbox import InboxState
from holdfast.core.messages.outbox import DeliveryRow
from holdfast.core.messages.transcript import CallRecovery, ToolOutcome
from holdfast.core.people.approval import Approval
from holdfast.core.turns.stop import StopRow, TurnExitReason
from holdfast.core.turns.turn import StepKind, TurnRow, TurnState, Usage


class TurnOutline(msgspec.Struct, frozen=True, kw_only=True):
    """A turn as a whole. `usage` is of the steps so far where it is open."""

    turn: TurnRow
    usage: Usage
    steps: int
    resumed: int  # lives of the gateway, after its first, in which it was open
    exit_reason: TurnExitReason | None = None  # open, and by no process of this instant


class TurnQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which turns of all sessions are asked for, the newest first, or the slowest of them.

    Those that are open are all looked at; of the others the newest `LOOKED_AT` that began before
    `before`, so that asking for what is rare does not read the whole table.
    """

    limit: int
    state: TurnState | None = None
    before: TurnId | None = None
    slowest: bool = False


class TurnInput(msgspec.Struct, frozen=True, kw_only=True):
    """A message that a turn took, without its words, which are in the transcript."""

    id: InboxId
    principal: PrincipalId
    state: InboxState
    accepted_at: float
    ended_at: float | None


class StepSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A step with what of its message is worth a line."""

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
    recovery: CallRecovery | None = None
    summary: str = ""  # what a call is about, in a line


class TurnDetails(msgspec.Struct, frozen=True, kw_only=True):
    """One page of a turn's steps, read in one snapshot with all that surrounds them."""

    outline: TurnOutline
    inputs: tuple[TurnInput, ...]  # at most `MOST`, the oldest first; so of all below
    steps: tuple[StepSummary, ...]
    more: bool  # steps follow behind these
    since: float  # the end of what came before the first of these
    approvals: tuple[Approval, ...]
    deliveries: tuple[DeliveryRow, ...]
    stops: tuple[StopRow, ...]  # the ends of processes since it began and until it ended
    previous: TurnId | None = None  # the turn before it in its session, and the one behind it
    next: TurnId | None = None


MAX_TIMELINE_ITEMS = 500
MAX_TURNS_SCANNED = 2000


class SessionPreview(msgspec.Struct, frozen=True, kw_only=True):
    """What a list says of a session besides its row. `usage`: of its turns, of an open one its
    steps so far, and of what was done beside them."""

    session_id: SessionId
    last_text: str  # the last words, or their beginning
    last_role: str  # whose they are: "user", "assistant"; "": nothing was said yet
    usage: Usage


class ReplyStats(msgspec.Struct, frozen=True, kw_only=True):
    """A reply of a model: its record, and what it took. It began when all before it was done, and a
    process was there."""

    record: int
    turn_id: TurnId
    model: str
    began_at: float
    ended_at: float
    usage: Usage


class TranscriptStats(msgspec.Struct, frozen=True, kw_only=True):
    """Of a stretch of a transcript: its replies, and of the turns that wrote in it all."""

    turns: tuple[TurnOutline, ...]  # the oldest first
    replies: tuple[ReplyStats, ...]
    deliveries: tuple[DeliveryRow, ...]
    usage_by_model: Mapping[TurnId, Mapping[str, Usage]]  # of its turns, by model

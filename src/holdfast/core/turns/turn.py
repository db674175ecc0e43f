"""A turn: one piece of work in a session, and what it writes."""

from enum import StrEnum

import msgspec

from holdfast.core.ids import CallId, InboxId, PrincipalId, SessionId, SessionKey, TurnId
from holdfast.core.messages.inbox import InboxEnd, InboxRow
from holdfast.core.messages.outbox import NewDelivery, StartedDelivery, scope_with_deliveries
from holdfast.core.messages.transcript import AssistantMessage, Message
from holdfast.core.people.approval import Approval
from holdfast.core.people.memory import PendingMemorySync
from holdfast.core.ports.command import Scope, SessionCommand, joint_scope, sessions_scope
from holdfast.core.sessions.reset import SessionReset
from holdfast.core.turns.stop import TurnExitReason


class TurnRowState(StrEnum):
    OPEN = "open"
    ANSWERED = "answered"
    INTERRUPTED = "interrupted"  # by its user's next message, which continues its request
    SUPERSEDED = "superseded"  # by /stop or /new
    FAILED = "failed"


class StepKind(StrEnum):
    MODEL = "model"
    TOOL = "tool"
    STEER = "steer"
    NOTE = "note"
    COMPACTION = "compaction"


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
        )


NO_USAGE = Usage()


class BeginTurn(SessionCommand[None], frozen=True, kw_only=True):
    """The start of a turn, one commit: session and route if they are new, the turn, the user's
    messages, and the inbox rows that now run in it."""

    turn_id: TurnId
    route: SessionKey
    inbox_ids: tuple[InboxId, ...]
    messages: tuple[Message, ...]
    prompt: str  # the frozen system prompt, kept if the session has none of its shape; "": it has
    prompt_fingerprint: str = ""
    principal: PrincipalId | None = None  # the owner of the session from now on, if it has none
    reset: SessionReset | None = None  # this turn announces why its session is fresh
    # This turn has the note about the interruption that its session was marked with.
    has_interruption_note: bool = False
    asked_by: str = ""  # the author of these messages, for the audit
    deliveries: tuple[NewDelivery, ...] = ()
    at: float

    @property
    def scope(self) -> Scope:
        """Includes the session that this one replaces: its route and its waiting messages move
        here."""
        if self.reset is None:
            return scope_with_deliveries(self.session_id, self.deliveries)
        sessions = sessions_scope(self.session_id, self.reset.previous)
        return joint_scope(sessions, *(each.scope for each in self.deliveries))


class TurnFigures(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Figures for counters and memory that are not in its rows. Not stored."""

    started_at: float
    first_text_at: float | None  # when the first text of the reply arrived
    model: str  # the model of the last reply; "": there was none
    user_text: str


class EndTurn(SessionCommand[None], frozen=True, kw_only=True):
    """The end of a turn, one commit: its last messages (the final reply, or results for calls that
    were cut), deliveries and memory notifications that are due, and the ends of its inbox rows."""

    turn_id: TurnId
    state: TurnRowState
    messages: tuple[Message, ...] = ()
    usage: Usage = NO_USAGE
    deliveries: tuple[NewDelivery, ...] = ()
    inbox_ends: tuple[InboxEnd, ...] = ()
    reason: str = ""
    by: str = ""  # who ended it, if no message did
    memory: PendingMemorySync | None = None
    figures: TurnFigures | None = None  # not stored
    suspend: bool = False  # also suspend the session: its route opens a new one next time
    has_steps: bool = True  # False: none were written, so the store need not look for them
    at: float

    @property
    def scope(self) -> Scope:
        return scope_with_deliveries(self.session_id, self.deliveries)

    @property
    def answer(self) -> str | None:
        """The text of the answer; None if it ended in another way."""
        return self.final_text if self.state is TurnRowState.ANSWERED else None

    @property
    def final_text(self) -> str:
        """The text of deliveries that have none of their own."""
        last = self.messages[-1] if self.messages else None
        return last.text if isinstance(last, AssistantMessage) else ""


class TurnRow(msgspec.Struct, frozen=True, kw_only=True):
    id: TurnId
    session_id: SessionId
    state: TurnRowState
    usage: Usage
    reason: str
    started_at: float
    ended_at: float | None


class OpenTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that its process did not end, with everything that a successor needs to continue
    it."""

    turn: TurnRow
    rows: tuple[InboxRow, ...]  # the inbox rows running in it, oldest first
    started_calls: frozenset[CallId]  # started, and no result recorded
    usage: Usage  # of the steps that are committed
    model_steps: int  # how many model replies are committed
    approvals: tuple[Approval, ...] = ()  # all that it asked for, in order
    exit_reason: TurnExitReason | None = None  # how its process left it; None: a crash cut it
    stream: StartedDelivery | None = None  # its reply, which was shown before it was complete
    owned_by_this_process: bool = False  # the current process continues it

    @property
    def is_waiting(self) -> bool:
        """Whether it waits at a step boundary for the decision of a person, so that nothing of it
        was cut. A turn in a call that had been allowed was cut, even if it has already asked about
        the next one."""
        asks = any(approval.pending for approval in self.approvals)
        in_a_call = self.started_calls or self.exit_reason not in (None, TurnExitReason.PARKED)
        return self.owned_by_this_process or (asks and not in_a_call)

    @property
    def was_interrupted(self) -> bool:
        """Whether it was not at a step boundary when its process ended."""
        return not self.is_waiting and self.exit_reason is not TurnExitReason.PARKED


class StepRow(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a turn for display: what, when, and which message it wrote."""

    turn_id: TurnId
    seq: int
    kind: StepKind
    call_id: CallId | None
    message_seq: int | None
    usage: Usage
    started_at: float
    finished_at: float | None

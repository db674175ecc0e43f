"""The journal: the writing half of the store, as the rooms see it."""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Protocol

from holdfast.core.config.kept_configuration import NewConfigVersion
from holdfast.core.ids import (
    CallId,
    DeliveryId,
    InboxId,
    PrincipalId,
    SessionId,
    SessionKey,
    TurnId,
)
from holdfast.core.jobs.job import Job, JobChange, JobId, NewJob, RunPlan
from holdfast.core.messages.inbox import Accepted, BusyMode, Inbound
from holdfast.core.messages.message import (
    AssistantMessage,
    CompactionMessage,
    NoteMessage,
    ToolMessage,
    UserMessage,
)
from holdfast.core.messages.outbox import DeliveryPart, DeliveryRow, DeliveryState, NewDelivery
from holdfast.core.messages.saying import ProactiveDelivery
from holdfast.core.ops.minute import MinuteStats
from holdfast.core.people.approval import ApprovalDecision, ApprovalRequest
from holdfast.core.people.audit import GATEWAY_ACTOR, AuditEntry
from holdfast.core.people.memory import NoteEdit, NoteEditResult, OwnerId
from holdfast.core.people.pairing import PairingChange, RefusedMessage
from holdfast.core.sessions.reset import SessionReset
from holdfast.core.sessions.session import (
    CommandEffect,
    CommandOutcome,
    ImportedSession,
    ProcessRow,
    RunnerRow,
)
from holdfast.core.turns.auxiliary import AuxiliaryTask
from holdfast.core.turns.stop import LeftTurn, StopRow
from holdfast.core.turns.turn import BeginTurn, EndTurn, Usage


class StoreWriter(Protocol):
    """The writing half of the store.

    Each method queues its write **when it is called**, in call order, and returns an awaitable
    that resumes once the write is durable. Cancelling the awaiter does not cancel the write.
    A write that fails raises `StoreError` to its own awaiter and undoes nothing of its
    neighbours. Each call touches one session.
    """

    def accept(
        self, inbound: Inbound, *, route: SessionKey, principal: PrincipalId, at: float
    ) -> Awaitable[Accepted]: ...
    def record_busy_decision(
        self, inbox_id: InboxId, *, session_id: SessionId, decision: BusyMode
    ) -> Awaitable[None]: ...
    def begin_turn(self, begin: BeginTurn) -> Awaitable[None]: ...
    def record_reply(
        self,
        turn_id: TurnId,
        *,
        session_id: SessionId,
        message: AssistantMessage,
        usage: Usage,
        at: float,
    ) -> Awaitable[None]: ...
    def record_started(
        self,
        turn_id: TurnId,
        *,
        session_id: SessionId,
        call_ids: Sequence[CallId],
        allowed: Mapping[CallId, str] = {},
        at: float,
    ) -> Awaitable[None]:
        """`allowed`: by what those of the calls may run that somebody had to judge."""
        ...

    def record_finished(
        self, turn_id: TurnId, *, session_id: SessionId, message: ToolMessage, at: float
    ) -> Awaitable[None]: ...
    def record_steer(
        self,
        turn_id: TurnId,
        *,
        session_id: SessionId,
        inbox_id: InboxId,
        message: UserMessage,
        at: float,
    ) -> Awaitable[None]:
        """The row ends as merged into the turn it steers."""
        ...

    def resume_turn(
        self, turn_id: TurnId, *, session_id: SessionId, note: NoteMessage, at: float
    ) -> Awaitable[None]:
        """A cut turn goes on: the note joins the transcript, and a cut that nobody has counted
        when the turn was left is counted."""
        ...

    def leave_turn(self, left: LeftTurn, *, at: float) -> Awaitable[None]:
        """This process does not end the turn. One that is not parked is cut: its session is
        marked, and the cut counted, in this commit."""
        ...

    def continue_turn(
        self, turn_id: TurnId, *, session_id: SessionId, at: float
    ) -> Awaitable[None]:
        """A turn that was left is run again by this process, and nothing is said of it."""
        ...

    def save_prompt(
        self, session_id: SessionId, *, prompt: str, fingerprint: str
    ) -> Awaitable[None]:
        """Freeze the prompt that a configuration of another shape makes for a session."""
        ...

    def record_note(
        self,
        turn_id: TurnId,
        *,
        session_id: SessionId,
        message: NoteMessage,
        usage: Usage,
        at: float,
    ) -> Awaitable[None]: ...
    def record_compaction(
        self,
        turn_id: TurnId,
        *,
        session_id: SessionId,
        message: CompactionMessage,
        usage: Usage,
        at: float,
    ) -> Awaitable[None]: ...
    def add_auxiliary_usage(
        self, session_id: SessionId, *, task: AuxiliaryTask, usage: Usage
    ) -> Awaitable[None]:
        """A call that belongs to no turn; it is counted apart from them."""
        ...

    def end_turn(self, end: EndTurn) -> Awaitable[None]:
        """A turn that is answered clears the session's cuts."""
        ...

    def end_turn_and_suspend(self, end: EndTurn) -> Awaitable[None]:
        """As `end_turn`, and the session is suspended: its route opens a fresh one next time."""
        ...

    def ask_approvals(self, ask: ApprovalRequest) -> Awaitable[None]:
        """Fails where the turn is not open, or one of its calls was asked for before."""
        ...

    def decide_approvals(self, decision: ApprovalDecision) -> Awaitable[None]:
        """Fails, whole, where a row has ended already or a rule is not there."""
        ...

    def refuse_message(self, refused: RefusedMessage) -> Awaitable[Accepted]:
        """Refuse a message in the commit that takes it."""
        ...

    def change_pairing(self, change: PairingChange) -> Awaitable[None]: ...
    def apply_command(self, effect: CommandEffect) -> Awaitable[CommandOutcome]: ...
    def open_session(
        self, session_id: SessionId, *, route: SessionKey, at: float
    ) -> Awaitable[SessionId]:
        """The session that the route points to; if it points nowhere, the new one."""
        ...

    def open_new_session(
        self,
        session_id: SessionId,
        *,
        route: SessionKey,
        principal: PrincipalId | None,
        reset: SessionReset | None,
        at: float,
    ) -> Awaitable[SessionId]:
        """The session that the route goes on in: the new one, in the place of the one that
        `opening` names, unless somebody pointed the route elsewhere meanwhile."""
        ...

    def mark_resume_pending(
        self, route: SessionKey, *, reason: str, at: float
    ) -> Awaitable[bool]: ...
    def clear_resume_pending(self, route: SessionKey) -> Awaitable[bool]: ...
    def suspend_one(self, session_id: SessionId) -> Awaitable[bool]:
        """False: there is none, or it was suspended already."""
        ...

    def suspend_route(self, route: SessionKey) -> Awaitable[SessionId | None]:
        """The session that the route points to, suspended; None: it points nowhere."""
        ...

    def rename_session(self, session_id: SessionId, title: str) -> Awaitable[None]: ...
    def replace_session_title(
        self, session_id: SessionId, title: str, *, expected: str
    ) -> Awaitable[bool]:
        """Renamed, unless somebody else has renamed it: False then."""
        ...

    def end_session(self, session_id: SessionId, *, at: float) -> Awaitable[None]:
        """Its route opens a fresh one next time."""
        ...

    def expire_session(
        self, session_id: SessionId, *, active_at: float, at: float
    ) -> Awaitable[bool]:
        """End a session unless it was used since `active_at`, or is in use."""
        ...

    def prune_inbox(self, *, before: float) -> Awaitable[int]:
        """Forget some messages that ended before then; 0: there are none left."""
        ...

    def prune_outbox(self, *, before: float) -> Awaitable[int]:
        """Forget some deliveries that were settled before then; 0: there are none left."""
        ...

    def import_session(self, imported: ImportedSession) -> Awaitable[None]: ...
    def delete_session(
        self, session_id: SessionId, *, inbox_ids: Sequence[InboxId]
    ) -> Awaitable[None]:
        """Every row of it, and those messages, are gone; `StoreReader.inbox_of` has their ids."""
        ...

    def add_deliveries(
        self, deliveries: Sequence[NewDelivery], *, at: float
    ) -> Awaitable[None]: ...
    def add_proactive_message(self, message: ProactiveDelivery) -> Awaitable[bool]:
        """Owe a message to a chat, with the note of it in that chat's conversation. False, and
        nothing is written: the delivery of that id is there already."""
        ...

    def begin_stream(self, new: NewDelivery, *, at: float) -> Awaitable[None]:
        """A reply is shown before it is whole: its row, without a text. Fails where its turn is
        not open. Owed with `begun` later, it is the same row."""
        ...

    def begin_part(self, delivery_id: DeliveryId, number: int, *, at: float) -> Awaitable[None]: ...
    def settle_part(
        self, delivery_id: DeliveryId, part: DeliveryPart, *, at: float, error: str = ""
    ) -> Awaitable[None]: ...
    def begin_attempt(self, delivery_id: DeliveryId, *, at: float) -> Awaitable[None]: ...
    def settle_delivery(
        self,
        delivery_id: DeliveryId,
        state: DeliveryState,
        *,
        at: float,
        platform_message_id: str | None = None,
        error: str = "",
    ) -> Awaitable[None]: ...
    def requeue_delivery(
        self, delivery_id: DeliveryId, *, by: str = GATEWAY_ACTOR, at: float
    ) -> Awaitable[DeliveryRow | None]:
        """One that failed, or was for good unknown, is pending again, with whatever doubt there
        was; as it stands then, with its parts. None: it was neither."""
        ...

    def save_runner(self, runner: RunnerRow) -> Awaitable[None]: ...
    def end_runner(self, session_id: SessionId) -> Awaitable[None]: ...
    def save_process(self, process: ProcessRow) -> Awaitable[None]: ...
    def record_stop(self, row: StopRow) -> Awaitable[None]:
        """A stop as far as it has come; what was written of it before is replaced."""
        ...

    def record_ready(
        self, deliveries: Sequence[NewDelivery], *, at: float, resumed: int = 0
    ) -> Awaitable[None]:
        """A successor is ready: every open stop is over, and these are owed, in one commit.
        `resumed`: the turns that it goes on with."""
        ...

    def prune_stops(self, *, keep: int) -> Awaitable[None]:
        """Forget all but the last so many that are over."""
        ...

    def add_job(self, new: NewJob, *, limit: int) -> Awaitable[Job | None]:
        """None: its person has `most` already. Asked for again, it is the one there is."""
        ...

    def change_job(self, change: JobChange) -> Awaitable[bool]:
        """False: there is no such job any more."""
        ...

    def plan_runs(self, plan: RunPlan) -> Awaitable[bool]:
        """False, and nothing is written: the job is not due at that time any more."""
        ...

    def skip_runs(self, job_id: JobId, *, why: str, run_id: str | None = None) -> Awaitable[int]:
        """What waits of a job, or that one run of it, is never begun; how many that are."""
        ...

    def prune_runs(self, *, before: float) -> Awaitable[int]:
        """Forget some runs that had ended by then, and jobs that are over; 0: none are left."""
        ...

    def set_meta(self, key: str, value: str) -> Awaitable[None]: ...
    def audited(self, entry: AuditEntry) -> "StoreWriter":
        """The same journal for one who acts: each write that changes something leaves this row
        of the audit in its own commit."""
        ...

    def record_audit(self, entry: AuditEntry) -> Awaitable[None]:
        """The row of something that is not done in the store. To be written before it is done:
        a deed without its row is worse than a row without its deed."""
        ...

    def prune_audit(self, *, before: float, at: float) -> Awaitable[int]:
        """Forget some rows of the audit from before then; 0: there are none left."""
        ...

    def edit_notes(self, edit: NoteEdit) -> Awaitable[NoteEditResult]: ...
    def save_configuration(self, new: NewConfigVersion) -> Awaitable[int]:
        """Its number. One that is as the last, text and signature, is that one."""
        ...

    def add_minute_stats(self, stats: MinuteStats, *, since: int) -> Awaitable[None]:
        """Add to what is kept of a minute, and forget those from before `since`."""
        ...

    def enable_memory(self, session_id: SessionId, owner: OwnerId) -> Awaitable[None]:
        """From now on memory is to hear of this session's end; the first owner stays."""
        ...

    def claim_memory_turn(self, turn_id: TurnId, *, provider: str) -> Awaitable[bool]:
        """Whether that provider is owed this turn, to whoever asks first."""
        ...

    def claim_memory_end(self, session_id: SessionId) -> Awaitable[OwnerId | None]:
        """Who owns the memory of a session that ends, to whoever asks first since anything was
        last said in it; None: nobody is to be told."""
        ...

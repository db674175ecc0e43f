"""The commands of the store: what can be written, each in one commit.

Commands with many fields are defined beside the types that they are made of: `BeginTurn` and
`EndTurn` in `core/turns/turn.py`, `CommandEffect` in `core/sessions/session.py`.
"""

from collections.abc import Mapping, Sequence

from holdfast.core.ids import (
    CallId,
    DeliveryId,
    InboxId,
    PrincipalId,
    SessionId,
    SessionKey,
    TurnId,
)
from holdfast.core.jobs.job import Job, JobId, NewJob
from holdfast.core.messages.inbox import (
    Accepted,
    BusyMode,
    Inbound,
)
from holdfast.core.messages.outbox import (
    DeliveryPart,
    DeliveryRow,
    DeliveryState,
    FailureReport,
    NewDelivery,
)
from holdfast.core.messages.transcript import (
    AssistantMessage,
    CompactionMessage,
    NoteMessage,
    ToolMessage,
    UserMessage,
)
from holdfast.core.ops.stats import MinuteStats
from holdfast.core.people.audit import (
    GATEWAY_ACTOR,
    AuditEntry,
)
from holdfast.core.people.memory import OwnerId, SessionEnd
from holdfast.core.ports.command import (
    GATEWAY_SCOPE,
    Command,
    GatewayCommand,
    Scope,
    SessionCommand,
    account_scope,
    joint_scope,
    person_scope,
    session_scope,
    sessions_scope,
)
from holdfast.core.sessions.reset import SessionReset
from holdfast.core.sessions.session import (
    ImportedSession,
    ProcessRow,
    RunnerRow,
)
from holdfast.core.turns.model import AuxiliaryTask
from holdfast.core.turns.stop import StopRow
from holdfast.core.turns.turn import Usage


class AcceptMessage(Command[Accepted], frozen=True, kw_only=True):
    """Accept a message. It belongs to its account until a session is decided on. `spoken_into` is
    the session that the operator has addressed, in which the message is audited."""

    inbound: Inbound
    route: SessionKey
    principal: PrincipalId
    spoken_into: SessionId | None = None
    at: float

    @property
    def scope(self) -> Scope:
        """Also the session that a subagent opens, and the person whose job runs."""
        source, subagent = self.inbound.source, self.inbound.subagent
        account = account_scope(source.platform, source.account)
        if self.inbound.run is not None:
            return joint_scope(account, person_scope(self.principal))
        session_id = self.spoken_into if subagent is None else subagent.session_id
        return account if session_id is None else joint_scope(session_scope(session_id), account)


class RecordBusyDecision(SessionCommand[None], frozen=True, kw_only=True):
    inbox_id: InboxId
    decision: BusyMode


class RecordReply(SessionCommand[None], frozen=True, kw_only=True):
    """Record a model reply. `started` and `allowed` belong to the first calls that it contains:
    their start is recorded with it, as by `RecordCallsStarted`."""

    turn_id: TurnId
    message: AssistantMessage
    usage: Usage
    started: Sequence[CallId] = ()
    allowed: Mapping[CallId, str] = {}
    at: float


class RecordCallsStarted(SessionCommand[None], frozen=True, kw_only=True):
    """Record the start of calls. `allowed` tells what permits the calls that needed a decision."""

    turn_id: TurnId
    call_ids: Sequence[CallId]
    allowed: Mapping[CallId, str] = {}
    at: float


class RecordCallResult(SessionCommand[None], frozen=True, kw_only=True):
    turn_id: TurnId
    message: ToolMessage
    at: float


class RecordSteer(SessionCommand[None], frozen=True, kw_only=True):
    """Record a steer: its row ends as merged into the turn that it steers."""

    turn_id: TurnId
    inbox_id: InboxId
    into: InboxId  # the message whose answer also answers it
    message: UserMessage
    at: float


class ResumeTurn(SessionCommand[None], frozen=True, kw_only=True):
    """An interrupted turn continues: the note joins the transcript, and the interruption is
    counted unless `MarkResumePending` has counted it."""

    turn_id: TurnId
    note: NoteMessage
    at: float


class ParkTurn(SessionCommand[None], frozen=True, kw_only=True):
    """This process leaves the turn at a step boundary: the next one continues it without a
    note."""

    turn_id: TurnId
    at: float


class ContinueTurn(SessionCommand[None], frozen=True, kw_only=True):
    """This process continues a turn that was left, without a note."""

    turn_id: TurnId
    at: float


class SavePrompt(SessionCommand[None], frozen=True, kw_only=True):
    """Replace a session's frozen prompt by that of a different configuration."""

    prompt: str
    fingerprint: str


class RecordNote(SessionCommand[None], frozen=True, kw_only=True):
    turn_id: TurnId
    message: NoteMessage
    usage: Usage
    at: float


class RecordCompaction(SessionCommand[None], frozen=True, kw_only=True):
    turn_id: TurnId
    message: CompactionMessage
    usage: Usage
    at: float


class AddAuxiliaryUsage(SessionCommand[None], frozen=True, kw_only=True):
    """Usage of a call that belongs to no turn; it is counted separately."""

    task: AuxiliaryTask
    usage: Usage


class CountModelUsage(SessionCommand[None], frozen=True, kw_only=True):
    """Store the usage by model up to the last message, so that `GetSessionUsageByModel` reads only
    what is later."""


class OpenSession(SessionCommand[SessionId], frozen=True, kw_only=True):
    """Return the session that the route points to; open the new one if there is none."""

    route: SessionKey
    at: float


class OpenNewSession(SessionCommand[SessionId], frozen=True, kw_only=True):
    """Return the session in which the route continues: the new one, replacing the one that `reset`
    names, unless the route points elsewhere by then."""

    route: SessionKey
    principal: PrincipalId | None
    reset: SessionReset | None
    at: float

    @property
    def scope(self) -> Scope:
        """Includes the session that it replaces, which it ends."""
        return sessions_scope(
            self.session_id, self.reset.previous if self.reset is not None else None
        )


class MarkResumePending(SessionCommand[bool], frozen=True, kw_only=True):
    """Mark the session. False if it is suspended, has ended, or `route` does not point to it.

    With `turn_id`, because this process is about to cut that turn, for a `TurnExitReason`: this
    commit also stores how the turn is left, and counts the interruption."""

    reason: str
    at: float
    route: SessionKey | None = None
    turn_id: TurnId | None = None


class ClearResumePending(SessionCommand[bool], frozen=True, kw_only=True):
    """Clear the mark. False if the route does not point to the session, or nothing is pending."""

    route: SessionKey


class SuspendSession(SessionCommand[bool], frozen=True, kw_only=True):
    """Suspend the session. False if there is none, or it was suspended already."""


class RenameSession(SessionCommand[None], frozen=True, kw_only=True):
    title: str


class ReplaceSessionTitle(SessionCommand[bool], frozen=True, kw_only=True):
    """Rename a session; False if it was renamed meanwhile."""

    title: str
    expected: str


class EndSession(SessionCommand[None], frozen=True, kw_only=True):
    """End a session: its route opens a new one with its next message."""

    at: float


class ExpireSession(SessionCommand[bool], frozen=True, kw_only=True):
    """End a session unless it was used since `active_at`, or is in use."""

    active_at: float
    at: float


class PruneInbox(GatewayCommand[int], frozen=True, kw_only=True):
    """Delete some messages that ended before then; 0: none are left."""

    before: float


class PruneOutbox(GatewayCommand[int], frozen=True, kw_only=True):
    """Delete some deliveries that ended before then; 0: none are left."""

    before: float


class ImportSession(Command[None], frozen=True, kw_only=True):
    imported: ImportedSession

    @property
    def scope(self) -> Scope:
        return session_scope(self.imported.id)


class DeleteSession(SessionCommand[None], frozen=True, kw_only=True):
    """Delete all its rows, also those of the messages that it received."""


class ForgetMessageChanges(SessionCommand[None], frozen=True, kw_only=True):
    """Remove the id of a deleted session from the log of changed messages. Written once the search
    index contains nothing of it: until then, a crash must not make the index miss the deletion."""


class AddDeliveries(Command[None], frozen=True, kw_only=True):
    deliveries: Sequence[NewDelivery]
    at: float

    @property
    def scope(self) -> Scope:
        return joint_scope(*(each.scope for each in self.deliveries))


class BeginStream(Command[None], frozen=True, kw_only=True):
    """Write the row, without a text, of a reply that is shown before it is complete. Fails if its
    turn is not open. Queued later with `started`, it is the same row."""

    new: NewDelivery
    at: float

    @property
    def scope(self) -> Scope:
        return self.new.scope


class BeginPart(Command[None], frozen=True, kw_only=True):
    delivery_id: DeliveryId
    scope: Scope
    number: int
    at: float


class SettlePart(Command[None], frozen=True, kw_only=True):
    delivery_id: DeliveryId
    scope: Scope
    part: DeliveryPart
    at: float
    error: str = ""


class BeginAttempt(Command[None], frozen=True, kw_only=True):
    delivery_id: DeliveryId
    scope: Scope
    at: float


class SettleDelivery(Command[None], frozen=True, kw_only=True):
    delivery_id: DeliveryId
    scope: Scope
    state: DeliveryState
    at: float
    platform_message_id: str | None = None
    error: str = ""
    part: DeliveryPart | None = None  # its last part, which ends with it


class ReportFailedDelivery(Command[None], frozen=True, kw_only=True):
    """One commit: the end of a delivery that failed, the notes about it, and the notice for its
    chat. A session that was deleted meanwhile gets no note."""

    end: SettleDelivery
    report: FailureReport

    @property
    def scope(self) -> Scope:
        notice = self.report.notice
        of_notice = () if notice is None else (notice.scope,)
        return joint_scope(*(self.end.scope, sessions_scope(*self.report.session_ids)), *of_notice)


class RequeueDelivery(Command[DeliveryRow | None], frozen=True, kw_only=True):
    """Make a failed or unknown delivery pending again; its `outcome_unknown` is kept. Returns it
    with its parts; None if it was in neither state."""

    delivery_id: DeliveryId
    scope: Scope
    by: str = GATEWAY_ACTOR
    at: float


class SaveRunner(Command[None], frozen=True, kw_only=True):
    runner: RunnerRow

    @property
    def scope(self) -> Scope:
        return session_scope(self.runner.session_id)


class EndRunner(SessionCommand[None], frozen=True, kw_only=True):
    """The runner of the session has ended."""


class SaveProcess(Command[None], frozen=True, kw_only=True):
    process: ProcessRow

    @property
    def scope(self) -> Scope:
        return session_scope(self.process.session_id)


class RecordStop(GatewayCommand[None], frozen=True, kw_only=True):
    """Store the progress of a stop, replacing what was written of it before."""

    row: StopRow


class RecordReady(Command[None], frozen=True, kw_only=True):
    """A successor is ready: one commit closes every open stop and queues these deliveries.
    `resumed`: the turns that it continues."""

    deliveries: Sequence[NewDelivery]
    at: float
    resumed: int = 0

    @property
    def scope(self) -> Scope:
        """The owners of its deliveries; the rows of stops belong to none."""
        return joint_scope(*(each.scope for each in self.deliveries))


class PruneStops(GatewayCommand[None], frozen=True, kw_only=True):
    """Delete all finished stops except the last `keep`."""

    keep: int


class AddJob(Command[Job | None], frozen=True, kw_only=True):
    """Add a job. None if its owner already has `limit` jobs. Idempotent: a repeated request returns
    the existing job."""

    new: NewJob
    limit: int

    @property
    def scope(self) -> Scope:
        return person_scope(self.new.principal)


class SkipRuns(Command[int], frozen=True, kw_only=True):
    """Cancel the waiting runs of a job, or that one run; returns how many."""

    job_id: JobId
    principal: PrincipalId  # whose job it is
    why: str
    run_id: str | None = None

    @property
    def scope(self) -> Scope:
        return person_scope(self.principal)


class PruneRuns(GatewayCommand[int], frozen=True, kw_only=True):
    """Delete some runs that ended before then, and finished jobs; 0: none are left."""

    before: float


class SetMeta(GatewayCommand[None], frozen=True, kw_only=True):
    key: str
    value: str


class RecordAudit(Command[None], frozen=True, kw_only=True):
    """The audit row of an action outside the store. Write it before the action: an action
    without its row is worse than a row without its action."""

    entry: AuditEntry

    @property
    def scope(self) -> Scope:
        session_id = self.entry.session_id
        return GATEWAY_SCOPE if session_id is None else session_scope(SessionId(session_id))


class PruneAudit(GatewayCommand[int], frozen=True, kw_only=True):
    """Delete some audit rows from before then; 0: none are left."""

    before: float
    at: float


class AddMinuteStats(GatewayCommand[None], frozen=True, kw_only=True):
    """Add to the statistics of a minute, and delete those from before `since`."""

    stats: MinuteStats
    since: int


class EnableMemory(SessionCommand[None], frozen=True, kw_only=True):
    """Notify memory providers when this session ends; the first owner is kept."""

    owner: OwnerId


class ClaimMemoryTurn(SessionCommand[bool], frozen=True, kw_only=True):
    """Whether the provider must still be notified of this turn; True only once."""

    turn_id: TurnId
    provider: str


class RequestMemoryEnd(SessionCommand[SessionEnd | None], frozen=True, kw_only=True):
    """Store that the end of a session must be reported to these memory providers. Returns the end
    once after each activity; None if there is nothing new to report, or its owner has turned memory
    off."""

    providers: tuple[str, ...]


class RecordMemoryEnd(SessionCommand[None], frozen=True, kw_only=True):
    """A provider has processed an end of the session: it is not reported again."""

    provider: str
    end_id: str

"""The store port: `StoreWriter` queues durable writes, `StoreReader` reads what is durable."""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Protocol

from holdfast.core.config.versions import ConfigVersion, NewConfigVersion
from holdfast.core.ids import (
    ApprovalId,
    CallId,
    DeliveryId,
    InboxId,
    PrincipalId,
    SessionId,
    SessionKey,
    TurnId,
)
from holdfast.core.jobs.job import Job, JobChange, JobId, JobRun, NewJob, RunPlan, WaitingRun
from holdfast.core.messages.inbox import (
    Accepted,
    BusyMode,
    Inbound,
    InboxRow,
    InboxState,
    InboxSummary,
    RouteTarget,
)
from holdfast.core.messages.outbox import (
    DeliveryPart,
    DeliveryRow,
    DeliveryState,
    NewDelivery,
    ProactiveDelivery,
    QuietChat,
)
from holdfast.core.messages.source import Source
from holdfast.core.messages.transcript import (
    AssistantMessage,
    CompactionMessage,
    NoteMessage,
    ToolMessage,
    TranscriptRecord,
    UserMessage,
)
from holdfast.core.ops.stats import MinuteStats
from holdfast.core.ops.status import Workload
from holdfast.core.people.approval import Approval, ApprovalDecision, ApprovalRequest, ApprovalRule
from holdfast.core.people.audit import (
    GATEWAY_ACTOR,
    AuditCheckResult,
    AuditEntry,
    AuditFilter,
    AuditRow,
)
from holdfast.core.people.memory import AnsweredTurn, Notebook, NoteEdit, NoteEditResult, OwnerId
from holdfast.core.people.pairing import PairingChange, Pairings, RefusedMessage
from holdfast.core.sessions.reset import ExpiringSession, ExpiryRule, SessionReset
from holdfast.core.sessions.search import SearchIndexStatus, SearchMatch, SearchQuery
from holdfast.core.sessions.session import (
    ALL_SESSIONS,
    CommandEffect,
    CommandOutcome,
    ImportedSession,
    ProcessRow,
    RunnerRow,
    SessionFilter,
    SessionRow,
)
from holdfast.core.turns.model import AuxiliaryTask
from holdfast.core.turns.stop import HomeChannel, LeftTurn, StopRow
from holdfast.core.turns.subagent import Subagent
from holdfast.core.turns.timeline import (
    SessionPreview,
    TranscriptStats,
    TurnDetails,
    TurnOutline,
    TurnQuery,
)
from holdfast.core.turns.turn import BeginTurn, EndTurn, OpenTurn, StepRow, TurnRow, Usage


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
        """`allowed`: for calls that needed a decision, what permits them."""
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
        """An interrupted turn continues: the note joins the transcript, and the interruption is
        counted unless `leave_turn` has counted it."""
        ...

    def leave_turn(self, left: LeftTurn, *, at: float) -> Awaitable[None]:
        """This process does not end the turn. A turn that is not parked is interrupted: this commit
        marks its session and counts the interruption."""
        ...

    def continue_turn(
        self, turn_id: TurnId, *, session_id: SessionId, at: float
    ) -> Awaitable[None]:
        """This process continues a turn that was left, without a note."""
        ...

    def save_prompt(
        self, session_id: SessionId, *, prompt: str, fingerprint: str
    ) -> Awaitable[None]:
        """Replace a session's frozen prompt by that of a different configuration."""
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
        """Usage of a call that belongs to no turn; it is counted separately."""
        ...

    def end_turn(self, end: EndTurn) -> Awaitable[None]:
        """An answered turn resets the session's count of interruptions."""
        ...

    def end_turn_and_suspend(self, end: EndTurn) -> Awaitable[None]:
        """As `end_turn`, and suspends the session: its route opens a new one next time."""
        ...

    def ask_approvals(self, ask: ApprovalRequest) -> Awaitable[None]:
        """Fails where the turn is not open, or an approval for one of its calls exists."""
        ...

    def decide_approvals(self, decision: ApprovalDecision) -> Awaitable[None]:
        """Fails as a whole where a row has ended already or a rule does not exist."""
        ...

    def refuse_message(self, refused: RefusedMessage) -> Awaitable[Accepted]:
        """Store a message as refused, in one commit."""
        ...

    def change_pairing(self, change: PairingChange) -> Awaitable[None]: ...
    def apply_command(self, effect: CommandEffect) -> Awaitable[CommandOutcome]: ...
    def open_session(
        self, session_id: SessionId, *, route: SessionKey, at: float
    ) -> Awaitable[SessionId]:
        """The session that the route points to, or the new one where there is none."""
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
        """The session that the route continues in: the new one, replacing the one that `opening`
        names, unless the route points elsewhere by then."""
        ...

    def mark_resume_pending(
        self, route: SessionKey, *, reason: str, at: float
    ) -> Awaitable[bool]: ...
    def clear_resume_pending(self, route: SessionKey) -> Awaitable[bool]: ...
    def suspend_one(self, session_id: SessionId) -> Awaitable[bool]:
        """False: there is none, or it was suspended already."""
        ...

    def suspend_route(self, route: SessionKey) -> Awaitable[SessionId | None]:
        """Suspend the session that the route points to and return it; None: there is none."""
        ...

    def rename_session(self, session_id: SessionId, title: str) -> Awaitable[None]: ...
    def replace_session_title(
        self, session_id: SessionId, title: str, *, expected: str
    ) -> Awaitable[bool]:
        """Rename it unless it was renamed meanwhile: then False."""
        ...

    def end_session(self, session_id: SessionId, *, at: float) -> Awaitable[None]:
        """Its route opens a new session next time."""
        ...

    def expire_session(
        self, session_id: SessionId, *, active_at: float, at: float
    ) -> Awaitable[bool]:
        """End a session unless it was used since `active_at`, or is in use."""
        ...

    def prune_inbox(self, *, before: float) -> Awaitable[int]:
        """Delete some messages that ended before then; 0: none are left."""
        ...

    def prune_outbox(self, *, before: float) -> Awaitable[int]:
        """Delete some deliveries that ended before then; 0: none are left."""
        ...

    def import_session(self, imported: ImportedSession) -> Awaitable[None]: ...
    def delete_session(
        self, session_id: SessionId, *, inbox_ids: Sequence[InboxId]
    ) -> Awaitable[None]:
        """Delete all its rows and those messages; `session_inbox_ids` lists their ids."""
        ...

    def add_deliveries(
        self, deliveries: Sequence[NewDelivery], *, at: float
    ) -> Awaitable[None]: ...
    def add_proactive_message(self, message: ProactiveDelivery) -> Awaitable[bool]:
        """Queue a message to a chat, with the note about it in that chat's conversation. False, and
        nothing is written, where a delivery of that id exists."""
        ...

    def begin_stream(self, new: NewDelivery, *, at: float) -> Awaitable[None]:
        """Write the row, without a text, of a reply that is shown before it is complete. Fails
        where its turn is not open. Queued later with `started`, it is the same row."""
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
        """Make a failed or unknown delivery pending again; its `outcome_unknown` stays. Returns it
        with its parts. None: it was in neither state."""
        ...

    def save_runner(self, runner: RunnerRow) -> Awaitable[None]: ...
    def end_runner(self, session_id: SessionId) -> Awaitable[None]: ...
    def save_process(self, process: ProcessRow) -> Awaitable[None]: ...
    def record_stop(self, row: StopRow) -> Awaitable[None]:
        """Store the progress of a stop, replacing what was written of it before."""
        ...

    def record_ready(
        self, deliveries: Sequence[NewDelivery], *, at: float, resumed: int = 0
    ) -> Awaitable[None]:
        """A successor is ready: one commit closes every open stop and queues these deliveries.
        `resumed`: the turns that it continues."""
        ...

    def prune_stops(self, *, keep: int) -> Awaitable[None]:
        """Delete all finished stops except the last `keep`."""
        ...

    def add_job(self, new: NewJob, *, limit: int) -> Awaitable[Job | None]:
        """None: its owner already has `limit` jobs. Idempotent: a repeated request returns the
        existing job."""
        ...

    def change_job(self, change: JobChange) -> Awaitable[bool]:
        """False: the job no longer exists."""
        ...

    def plan_runs(self, plan: RunPlan) -> Awaitable[bool]:
        """False, and nothing is written, where the job is no longer due at that time."""
        ...

    def skip_runs(self, job_id: JobId, *, why: str, run_id: str | None = None) -> Awaitable[int]:
        """Cancel the waiting runs of a job, or that one run; returns how many."""
        ...

    def prune_runs(self, *, before: float) -> Awaitable[int]:
        """Delete some runs that ended before then, and finished jobs; 0: none are left."""
        ...

    def set_meta(self, key: str, value: str) -> Awaitable[None]: ...
    def audited(self, entry: AuditEntry) -> "StoreWriter":
        """The same writer for an audited action: each write that changes something adds this audit
        row in its own commit."""
        ...

    def record_audit(self, entry: AuditEntry) -> Awaitable[None]:
        """The audit row of an action outside the store. Write it before the action: an action
        without its row is worse than a row without its action."""
        ...

    def prune_audit(self, *, before: float, at: float) -> Awaitable[int]:
        """Delete some audit rows from before then; 0: none are left."""
        ...

    def edit_notes(self, edit: NoteEdit) -> Awaitable[NoteEditResult]: ...
    def save_configuration(self, new: NewConfigVersion) -> Awaitable[int]:
        """Returns its number. A version equal to the last one, in text and signature, is that
        one."""
        ...

    def add_minute_stats(self, stats: MinuteStats, *, since: int) -> Awaitable[None]:
        """Add to the statistics of a minute, and delete those from before `since`."""
        ...

    def enable_memory(self, session_id: SessionId, owner: OwnerId) -> Awaitable[None]:
        """From now on, memory providers are told when this session ends; the first owner stays."""
        ...

    def claim_memory_turn(self, turn_id: TurnId, *, provider: str) -> Awaitable[bool]:
        """Whether the provider still has to be told about this turn; True only once."""
        ...

    def claim_memory_end(self, session_id: SessionId) -> Awaitable[OwnerId | None]:
        """The memory owner of a session that ends; returned once after each activity. None: no
        provider has to be told."""
        ...


class StoreReader(Protocol):
    """The reading half of the store: on its own connections, so that reads never wait for writes.

    A read sees every write that was durable when it was called.
    """

    async def session(self, session_id: SessionId) -> SessionRow | None: ...
    async def sessions(
        self,
        *,
        limit: int,
        offset: int = 0,
        q: str = "",
        platform: str = "",
        include_subagents: bool = False,
        where: SessionFilter = ALL_SESSIONS,
    ) -> list[SessionRow]:
        """Most recently active first; `q`: a substring of the title. Sessions of subagents are
        included only on request."""
        ...

    async def route(self, key: SessionKey) -> SessionId | None: ...
    async def route_target(self, key: SessionKey) -> RouteTarget | None:
        """The session of the route, even where it cannot continue there."""
        ...

    async def visible_sessions(
        self, *, route: SessionKey, principal: PrincipalId | None, limit: int
    ) -> list[SessionRow]:
        """The sessions of a route, and of a person if one is named; most recently active first."""
        ...

    async def visible_session(
        self, session_id: SessionId, *, route: SessionKey, principal: PrincipalId | None
    ) -> SessionRow | None:
        """A session by its id, if it is one of those."""
        ...

    async def last_turn(self, session_id: SessionId) -> TurnRow | None: ...
    async def session_usage(self, session_id: SessionId) -> Usage: ...
    async def visible_usage(self, *, route: SessionKey, principal: PrincipalId | None) -> Usage:
        """Of all the sessions that `reached` would list."""
        ...

    async def session_previews(self, session_ids: Sequence[SessionId]) -> list[SessionPreview]: ...
    async def session_usage_by_model(self, session_id: SessionId) -> Mapping[str, Usage]:
        """The usage of its turns by model, from all their steps; "": auxiliary calls."""
        ...

    async def transcript_stats(
        self, session_id: SessionId, *, first: int, last: int, priced: bool
    ) -> TranscriptStats:
        """Of the records from `first` to `last`; without `priced`, nothing is read for `used`."""
        ...

    async def transcript(self, session_id: SessionId) -> list[TranscriptRecord]: ...
    async def context(self, session_id: SessionId) -> tuple[int, list[TranscriptRecord]]:
        """The transcript without the records that its last compaction covers, and their number."""
        ...

    async def auxiliary_usage(self, session_id: SessionId) -> Mapping[AuxiliaryTask, Usage]:
        """The usage outside the session's turns."""
        ...

    async def records(
        self,
        session_id: SessionId,
        *,
        limit: int,
        after: int | None = None,
        before: int | None = None,
    ) -> list[TranscriptRecord]:
        """Part of a transcript, in order: the first after a seq, else the last (before one)."""
        ...

    async def search(self, query: SearchQuery) -> list[SearchMatch]:
        """Messages that contain all the words, best match first. It covers everything that was
        durable at the call, unless the index is being rebuilt and that takes long."""
        ...

    async def search_state(self) -> SearchIndexStatus: ...
    async def check(self) -> list[str]:
        """The damage found in the store's file; empty: none. Reads the whole file. Where there is
        damage, nothing is written any more."""
        ...

    async def expiring_sessions(
        self, *, expires_at: ExpiryRule, limit: int
    ) -> list[ExpiringSession]:
        """The active sessions that will expire, soonest first. Reads all sessions."""
        ...

    async def sessions_unused_since(self, *, before: float, limit: int) -> list[SessionId]:
        """Sessions unused since then, longest unused first."""
        ...

    async def session_inbox_ids(self, session_id: SessionId) -> list[InboxId]:
        """Every message that a session ever received. Reads the whole inbox."""
        ...

    async def last_source(self, session_id: SessionId) -> Source | None:
        """The source of the message that was last answered in it; None: unknown."""
        ...

    async def turn(self, turn_id: TurnId) -> TurnRow | None: ...
    async def steps(self, turn_id: TurnId) -> list[StepRow]: ...
    async def turns(
        self, session_id: SessionId, *, limit: int, before: TurnId | None = None
    ) -> list[TurnOutline]:
        """Newest first; `before`: only turns that began before that one."""
        ...

    async def recent_turns(self, query: TurnQuery) -> list[TurnOutline]:
        """Of all sessions, including those of subagents."""
        ...

    async def turn_details(self, turn_id: TurnId, *, after: int, limit: int) -> TurnDetails | None:
        """So many steps behind that seq, and what surrounds them."""
        ...

    async def turn_usage_by_model(self, turn_id: TurnId) -> Mapping[str, Usage]:
        """What its steps have used, by model; "": what was used beside those of the agent. A long
        one is read in several pieces, so that nobody waits long behind it."""
        ...

    async def open_turns(self) -> list[OpenTurn]: ...
    async def approval(self, approval_id: ApprovalId) -> Approval | None: ...
    async def approvals(
        self, *, limit: int, pending: bool = False, session_id: SessionId | None = None
    ) -> list[Approval]:
        """The newest first."""
        ...

    async def approval_rules(
        self, *, principal: PrincipalId | None = None, rule: str | None = None
    ) -> list[ApprovalRule]:
        """What was allowed for a person, and by which rule of the judge, oldest first."""
        ...

    async def queued_messages(self) -> list[InboxRow]:
        """Rows that no turn has taken yet, in the order of acceptance."""
        ...

    async def inbox(
        self, *, state: InboxState | None, offset: int, limit: int
    ) -> list[InboxSummary]:
        """The newest first; None: those that have not ended."""
        ...

    async def inbox_row(self, inbox_id: InboxId) -> InboxRow | None: ...
    async def deliveries_for_message(self, inbox_id: InboxId) -> list[DeliveryRow]:
        """What was owed to the sender of this message, oldest first."""
        ...

    async def delivery(self, delivery_id: DeliveryId) -> DeliveryRow | None: ...
    async def outbox(
        self,
        *,
        state: DeliveryState | None,
        before: int | None,
        limit: int,
        unsent: bool = False,
        platform: str = "",
    ) -> list[DeliveryRow]:
        """The newest first, without their parts; `before` is a `seq`, `unsent` leaves out what
        has arrived."""
        ...

    async def undelivered_rows(self) -> list[DeliveryRow]:
        """Pending, sending and unknown rows, in the order in which they were committed."""
        ...

    async def inbox_counts(self) -> Mapping[InboxState, int]: ...
    async def open_messages(self, *, before: float) -> Mapping[InboxId, float]:
        """Those that were accepted before then and have not ended, each with when that was."""
        ...

    async def outbox_counts(self) -> Mapping[DeliveryState, int]: ...
    async def workload(self) -> Workload: ...
    async def runners(self) -> list[RunnerRow]: ...
    async def processes(self, session_id: SessionId) -> list[ProcessRow]: ...
    async def subagent(self, session_id: SessionId) -> Subagent | None:
        """None: this session is a conversation, or there is none of that id."""
        ...

    async def subagents_below(self, session_id: SessionId) -> list[Subagent]:
        """The session's subagents and theirs, oldest first."""
        ...

    async def subagents_usage(self, session_id: SessionId) -> Usage:
        """What all of those have used in turns that ended."""
        ...

    async def running_subagents(self) -> list[tuple[InboxRow, bool]]:
        """Those whose work has not ended, and whether a turn or a conversation still wants it."""
        ...

    async def cursor(self, platform: str, account: str, name: str) -> str | None: ...
    async def busy_mode(self, session_id: SessionId) -> BusyMode | None:
        """What /busy chose for a session; None: nothing."""
        ...

    async def turns_superseded_between(
        self, session_id: SessionId, *, reason: str, since: float, until: float
    ) -> list[TurnId]:
        """The turns of a session that were superseded for this reason, in that time."""
        ...

    async def recently_active_sessions(self, *, since: float) -> list[SessionId]:
        """The sessions that can be gone on with, are not marked to be, and have no open turn."""
        ...

    async def open_stops(self) -> list[StopRow]:
        """The ends of processes that no successor has followed yet, the last first."""
        ...

    async def last_stops(self, *, limit: int, before: str | None = None) -> list[StopRow]:
        """The last first; `before`: those that were asked for before the one of that id."""
        ...

    async def home_channels(self) -> list[HomeChannel]:
        """The home channels that people have set; those of the configuration are not here."""
        ...

    async def quiet_chats(self) -> list[QuietChat]:
        """Those of which people have said whether they are quiet."""
        ...

    async def pairings(self) -> Pairings: ...
    async def job(self, job_id: JobId) -> Job | None: ...
    async def jobs(
        self, *, principal: PrincipalId | None = None, limit: int, offset: int = 0
    ) -> list[Job]:
        """A person's, or all; the oldest first."""
        ...

    async def due_jobs(self, *, by: float, limit: int) -> list[Job]: ...
    async def next_due_job(self) -> int | None:
        """When the next job is due."""
        ...

    async def waiting_runs(self, *, busy: Sequence[JobId], limit: int) -> list[WaitingRun]:
        """The oldest run that waits of each job that is not busy, the oldest of those first."""
        ...

    async def count_waiting_runs(self, job_id: JobId) -> int: ...
    async def running_runs(self) -> list[InboxRow]:
        """The messages of runs that have begun and not ended."""
        ...

    async def runs(self, job_id: JobId, *, limit: int) -> list[JobRun]:
        """The newest first."""
        ...

    async def job_run(self, run_id: str) -> JobRun | None: ...
    async def meta(self, key: str) -> str | None: ...
    async def audit(self, where: AuditFilter, *, limit: int) -> list[AuditRow]:
        """The newest first; with `after`, those that follow that one, in their order."""
        ...

    async def verify_audit(self) -> AuditCheckResult:
        """Whether the rows of the audit are as they were written. It reads all of them, in
        pieces, so that nobody waits long behind it."""
        ...

    async def configurations(self, *, before: int | None = None, limit: int) -> list[ConfigVersion]:
        """Those that were in force, the newest first, or those before a number."""
        ...

    async def configuration(self, number: int) -> ConfigVersion | None: ...
    async def minute_stats(self, *, since: int) -> list[MinuteStats]:
        """Those in which something happened, in order."""
        ...

    async def notebook(self, owner: OwnerId) -> Notebook:
        """An owner that nobody heard of has an empty one."""
        ...

    async def notebooks(self, *, limit: int, offset: int = 0) -> list[Notebook]:
        """Those that hold something or are off, by their owners' names."""
        ...

    async def memory_owners(self) -> dict[OwnerId, bool]:
        """Everyone who ever had a notebook, and whether it is off."""
        ...

    async def unsynced_turns(self, provider: str) -> list[AnsweredTurn]:
        """The turns that a memory provider is owed, in the order in which they were answered."""
        ...

    async def memory_owner(self, session_id: SessionId) -> OwnerId | None:
        """Whose memory an enrolled session has."""
        ...


class DataErasure(Protocol):
    """Secure deletion: deleted text must also be gone from the disk."""

    async def unindex_session(self, session_id: SessionId) -> None:
        """Remove everything of the session from the search index."""
        ...

    async def erase_deleted(self) -> None:
        """Afterwards nothing that was deleted before can be read from the store's files. While
        a reader still uses an older snapshot of them, this takes effect when that reader ends."""
        ...

    async def rebuild_search_index(self) -> SearchIndexStatus:
        """Delete the search index and build it again from the store."""
        ...


class Store(StoreWriter, StoreReader, DataErasure, Protocol):
    """Open while its context is; entering raises `StoreUnusable` and writes nothing if the
    file is damaged, foreign, newer than the program or cannot be written."""

    async def __aenter__(self) -> "Store": ...
    async def __aexit__(self, *exc: object) -> None: ...

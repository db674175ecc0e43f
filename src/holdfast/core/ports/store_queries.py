"""The queries of the store: what can be read. A read sees every write that was durable when it was
requested."""

from collections.abc import Mapping, Sequence

from holdfast.core.config.versions import ConfigVersion
from holdfast.core.ids import (
    ApprovalId,
    DeliveryId,
    InboxId,
    PrincipalId,
    SessionId,
    SessionKey,
    TurnId,
)
from holdfast.core.jobs.job import Job, JobId, JobRun, WaitingRun
from holdfast.core.messages.inbox import (
    BusyMode,
    InboxRow,
    InboxState,
    InboxSummary,
    RouteTarget,
)
from holdfast.core.messages.outbox import (
    DeliveryRow,
    DeliveryState,
    QuietChat,
)
from holdfast.core.messages.source import Source
from holdfast.core.messages.transcript import (
    TranscriptRecord,
)
from holdfast.core.ops.stats import MinuteStats
from holdfast.core.ops.status import Failures, Workload
from holdfast.core.people.approval import Approval, ApprovalRule
from holdfast.core.people.audit import (
    AuditCheckResult,
    AuditFilter,
    AuditRow,
)
from holdfast.core.people.memory import AnsweredTurn, Notebook, OwnerId, SessionEnd
from holdfast.core.people.pairing import Pairings
from holdfast.core.ports.command import Query
from holdfast.core.sessions.reset import EarliestExpiry, ExpiringSession, ExpiryRule
from holdfast.core.sessions.search import SearchIndexStatus
from holdfast.core.sessions.session import (
    ALL_SESSIONS,
    ProcessRow,
    RunnerRow,
    SessionFilter,
    SessionRow,
)
from holdfast.core.turns.model import AuxiliaryTask
from holdfast.core.turns.stop import HomeChannel, StopRow
from holdfast.core.turns.subagent import Subagent
from holdfast.core.turns.timeline import (
    ModelUsage,
    SessionPreview,
    TranscriptStats,
    TurnDetails,
    TurnOutline,
)
from holdfast.core.turns.turn import OpenTurn, StepRow, TurnRow, Usage


class GetSession(Query[SessionRow | None], frozen=True, kw_only=True):
    session_id: SessionId


class ListSessions(Query[list[SessionRow]], frozen=True, kw_only=True):
    """Most recently active first; `q` is a substring of the title. Sessions of subagents are
    included only on request."""

    limit: int
    offset: int = 0
    q: str = ""
    platform: str = ""
    include_subagents: bool = False
    where: SessionFilter = ALL_SESSIONS


class GetRouteSession(Query[SessionId | None], frozen=True, kw_only=True):
    key: SessionKey


class GetRouteTarget(Query[RouteTarget | None], frozen=True, kw_only=True):
    """The session of the route, even where it cannot continue there."""

    key: SessionKey


class ListVisibleSessions(Query[list[SessionRow]], frozen=True, kw_only=True):
    """The sessions of a route, and of a person if one is named; most recently active first."""

    route: SessionKey
    principal: PrincipalId | None
    limit: int


class GetVisibleSession(Query[SessionRow | None], frozen=True, kw_only=True):
    """A session by its id, if it is one of those."""

    session_id: SessionId
    route: SessionKey
    principal: PrincipalId | None


class GetLastTurn(Query[TurnRow | None], frozen=True, kw_only=True):
    session_id: SessionId


class GetSessionUsage(Query[Usage], frozen=True, kw_only=True):
    session_id: SessionId


class GetVisibleUsage(Query[Usage], frozen=True, kw_only=True):
    """The usage of all sessions that `ListVisibleSessions` would list."""

    route: SessionKey
    principal: PrincipalId | None


class ListSessionPreviews(Query[list[SessionPreview]], frozen=True, kw_only=True):
    session_ids: Sequence[SessionId]


class GetSessionUsageByModel(Query[ModelUsage], frozen=True, kw_only=True):
    """The usage of all its turns by model; of an open turn, the steps so far."""

    session_id: SessionId


class GetTranscriptStats(Query[TranscriptStats], frozen=True, kw_only=True):
    """Statistics of the records from `first` to `last`; without `priced`, nothing is read for
    `used`."""

    session_id: SessionId
    first: int
    last: int
    priced: bool


class GetTranscript(Query[list[TranscriptRecord]], frozen=True, kw_only=True):
    session_id: SessionId


class GetContext(Query[tuple[int, list[TranscriptRecord]]], frozen=True, kw_only=True):
    """The transcript without the records that its last compaction covers, and their number."""

    session_id: SessionId


class GetAuxiliaryUsage(Query[Mapping[AuxiliaryTask, Usage]], frozen=True, kw_only=True):
    """The usage outside the session's turns."""

    session_id: SessionId


class ListRecords(Query[list[TranscriptRecord]], frozen=True, kw_only=True):
    """Part of a transcript, in order: the first records after a seq, or the last ones (before
    one)."""

    session_id: SessionId
    limit: int
    after: int | None = None
    before: int | None = None


class GetSearchStatus(Query[SearchIndexStatus], frozen=True, kw_only=True):
    pass


class CheckIntegrity(Query[list[str]], frozen=True, kw_only=True):
    """The damage found in the store's file; empty if there is none. Reads the whole file. After
    damage was found, nothing more is written."""


class ListExpiringSessions(Query[list[ExpiringSession]], frozen=True, kw_only=True):
    """The active sessions that will expire, soonest first. Reads the longest idle ones, until none
    of the others can expire sooner."""

    expires_at: ExpiryRule
    earliest: EarliestExpiry
    limit: int


class ListUnusedSessions(Query[list[SessionId]], frozen=True, kw_only=True):
    """Sessions unused since then, longest unused first."""

    before: float
    limit: int


class GetLastSource(Query[Source | None], frozen=True, kw_only=True):
    """The source of the message that was last answered in the session; None if unknown."""

    session_id: SessionId


class GetTurn(Query[TurnRow | None], frozen=True, kw_only=True):
    turn_id: TurnId


class ListSteps(Query[list[StepRow]], frozen=True, kw_only=True):
    turn_id: TurnId


class ListTurns(Query[list[TurnOutline]], frozen=True, kw_only=True):
    """Newest first; with `before`, only turns that began before that one."""

    session_id: SessionId
    limit: int
    before: TurnId | None = None


class GetTurnDetails(Query[TurnDetails | None], frozen=True, kw_only=True):
    """That many steps after the seq, with the surrounding data."""

    turn_id: TurnId
    after: int
    limit: int


class GetTurnUsageByModel(Query[Mapping[str, Usage]], frozen=True, kw_only=True):
    """The usage of its steps by model; "" is auxiliary usage. A long turn is read in several
    pieces, so that other readers do not wait long."""

    turn_id: TurnId


class ListOpenTurns(Query[list[OpenTurn]], frozen=True, kw_only=True):
    pass


class GetApproval(Query[Approval | None], frozen=True, kw_only=True):
    approval_id: ApprovalId


class ListApprovals(Query[list[Approval]], frozen=True, kw_only=True):
    """Newest first."""

    limit: int
    pending: bool = False
    session_id: SessionId | None = None


class ListApprovalRules(Query[list[ApprovalRule]], frozen=True, kw_only=True):
    """What was allowed for a person, and by which rule of the judge, oldest first."""

    principal: PrincipalId | None = None
    rule: str | None = None


class ListQueuedMessages(Query[list[InboxRow]], frozen=True, kw_only=True):
    """Rows that no turn has taken yet, in the order of acceptance."""


class ListInbox(Query[list[InboxSummary]], frozen=True, kw_only=True):
    """Newest first; None: those that have not ended."""

    state: InboxState | None
    offset: int
    limit: int


class GetInboxRow(Query[InboxRow | None], frozen=True, kw_only=True):
    inbox_id: InboxId


class ListDeliveriesForMessage(Query[list[DeliveryRow]], frozen=True, kw_only=True):
    """The deliveries to the sender of this message, oldest first."""

    inbox_id: InboxId


class GetDelivery(Query[DeliveryRow | None], frozen=True, kw_only=True):
    delivery_id: DeliveryId


class ListOutbox(Query[list[DeliveryRow]], frozen=True, kw_only=True):
    """Newest first, without their parts; `before` is a `seq`, `unsent` omits those that have
    arrived."""

    state: DeliveryState | None
    before: int | None
    limit: int
    unsent: bool = False
    platform: str = ""


class ListUndelivered(Query[list[DeliveryRow]], frozen=True, kw_only=True):
    """Pending, sending and unknown rows, in the order in which they were committed."""


class CountInbox(Query[Mapping[InboxState, int]], frozen=True, kw_only=True):
    pass


class ListOpenMessages(Query[Mapping[InboxId, float]], frozen=True, kw_only=True):
    """Messages that were accepted before then and have not ended, with their time of acceptance."""

    before: float


class CountOutbox(Query[Mapping[DeliveryState, int]], frozen=True, kw_only=True):
    pass


class GetWorkload(Query[Workload], frozen=True, kw_only=True):
    pass


class GetFailures(Query[Failures], frozen=True, kw_only=True):
    """Jobs whose last run failed, and deliveries that failed since then. A paused job is left out,
    and so is one without further runs that failed earlier."""

    since: float


class ListRunners(Query[list[RunnerRow]], frozen=True, kw_only=True):
    pass


class ListProcesses(Query[list[ProcessRow]], frozen=True, kw_only=True):
    session_id: SessionId


class GetSubagent(Query[Subagent | None], frozen=True, kw_only=True):
    """None if this session is a conversation, or no session has that id."""

    session_id: SessionId


class ListSubagentsBelow(Query[list[Subagent]], frozen=True, kw_only=True):
    """The session's subagents and their subagents, oldest first."""

    session_id: SessionId


class GetSubagentsUsage(Query[Usage], frozen=True, kw_only=True):
    """The usage of their ended turns."""

    session_id: SessionId


class ListRunningSubagents(Query[list[tuple[InboxRow, bool]]], frozen=True, kw_only=True):
    """Subagents whose work has not ended, and whether a turn or a conversation still needs the
    result."""


class GetCursor(Query[str | None], frozen=True, kw_only=True):
    platform: str
    account: str
    name: str


class GetBusyMode(Query[BusyMode | None], frozen=True, kw_only=True):
    """The mode that /busy set for a session; None if it set none."""

    session_id: SessionId


class ListSupersededTurns(Query[list[TurnId]], frozen=True, kw_only=True):
    """The turns of a session that were superseded for this reason, in that time."""

    session_id: SessionId
    reason: str
    since: float
    until: float


class ListRecentlyActiveSessions(Query[list[SessionId]], frozen=True, kw_only=True):
    """Sessions that were active recently, are neither suspended nor marked, and have no open
    turn."""

    since: float


class ListOpenStops(Query[list[StopRow]], frozen=True, kw_only=True):
    """Stops that no successor has followed yet, newest first."""


class ListLastStops(Query[list[StopRow]], frozen=True, kw_only=True):
    """Newest first; with `before`, those requested before the one with that id."""

    limit: int
    before: str | None = None


class ListHomeChannels(Query[list[HomeChannel]], frozen=True, kw_only=True):
    """The home channels that people have set, without those of the configuration."""


class ListQuietChats(Query[list[QuietChat]], frozen=True, kw_only=True):
    """The chats for which people have set whether they are quiet."""


class GetPairings(Query[Pairings], frozen=True, kw_only=True):
    pass


class GetJob(Query[Job | None], frozen=True, kw_only=True):
    job_id: JobId


class ListJobs(Query[list[Job]], frozen=True, kw_only=True):
    """A person's jobs, or all; oldest first."""

    principal: PrincipalId | None = None
    limit: int
    offset: int = 0


class ListLastRuns(Query[Mapping[JobId, JobRun]], frozen=True, kw_only=True):
    """The last run of each of these jobs that has ended. Skipped runs do not count."""

    job_ids: Sequence[JobId]


class ListDueJobs(Query[list[Job]], frozen=True, kw_only=True):
    by: float
    limit: int


class GetNextDueTime(Query[int | None], frozen=True, kw_only=True):
    """When the next job is due."""


class ListWaitingRuns(Query[list[WaitingRun]], frozen=True, kw_only=True):
    """The oldest waiting run of each job that is not busy, oldest first."""

    busy: Sequence[JobId]
    limit: int


class CountWaitingRuns(Query[int], frozen=True, kw_only=True):
    job_id: JobId


class ListRunningRuns(Query[list[InboxRow]], frozen=True, kw_only=True):
    """The messages of runs that have begun and not ended."""


class ListJobRuns(Query[list[JobRun]], frozen=True, kw_only=True):
    """Newest first."""

    job_id: JobId
    limit: int


class GetJobRun(Query[JobRun | None], frozen=True, kw_only=True):
    run_id: str


class GetMeta(Query[str | None], frozen=True, kw_only=True):
    key: str


class ListAudit(Query[list[AuditRow]], frozen=True, kw_only=True):
    """Newest first; with `after`, the rows that follow that one, in order."""

    where: AuditFilter
    limit: int


class VerifyAudit(Query[AuditCheckResult], frozen=True, kw_only=True):
    """Whether the rows of the audit are unchanged. It reads all of them, in pieces, so that other
    readers do not wait long."""


class ListConfigurations(Query[list[ConfigVersion]], frozen=True, kw_only=True):
    """Versions that were in effect, newest first, or those before a number."""

    before: int | None = None
    limit: int


class GetConfiguration(Query[ConfigVersion | None], frozen=True, kw_only=True):
    number: int


class ListMinuteStats(Query[list[MinuteStats]], frozen=True, kw_only=True):
    """Minutes in which something happened, in order."""

    since: int


class GetNotebook(Query[Notebook], frozen=True, kw_only=True):
    """The notebook of an owner; empty if there is none."""

    owner: OwnerId


class ListNotebooks(Query[list[Notebook]], frozen=True, kw_only=True):
    """Notebooks that have notes or are off, by the names of their owners."""

    limit: int
    offset: int = 0


class ListMemoryOwners(Query[dict[OwnerId, bool]], frozen=True, kw_only=True):
    """Everyone who ever had a notebook, and whether it is off."""


class ListUnsyncedTurns(Query[list[AnsweredTurn]], frozen=True, kw_only=True):
    """The turns of which a memory provider must still be notified, in the order in which they were
    answered."""

    provider: str


class ListUnreportedEnds(Query[list[SessionEnd]], frozen=True, kw_only=True):
    """The ends of sessions that a memory provider has not processed, the oldest first."""

    provider: str


class ListUnendedMemory(Query[list[tuple[SessionId, float]]], frozen=True, kw_only=True):
    """The sessions that may have messages after the last end that was requested for memory
    providers, and when each was last active, the longest idle first."""

    limit: int


class GetMemoryOwner(Query[OwnerId | None], frozen=True, kw_only=True):
    """The memory owner of a session; None if no provider is notified of it."""

    session_id: SessionId

"""The status of a running gateway, the same for every client."""

from enum import StrEnum
from typing import Self

import msgspec

from holdfast.core.config.versions import ConfigStatus
from holdfast.core.ops.account import AccountState
from holdfast.core.text.translatable import Translatable
from holdfast.core.text.translation import _
from holdfast.core.turns.stop import HomeChannel, StopOrder, StopRow

MAX_FAILING_JOBS = 20  # in a status
FAILURES_SHOWN_FOR = 86_400.0  # seconds for which a failed delivery is a problem
ALIVE_SECONDS = 90.0  # seconds for which a round trip proves that a platform is connected


class ProblemLevel(StrEnum):
    WARNING = "warning"  # it works, but needs attention
    PROBLEM = "problem"  # it does not work


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """A problem and its remedy. `code` is for programs."""

    level: ProblemLevel
    code: str
    what: str
    remedy: str = ""


class AccountStatus(msgspec.Struct, frozen=True, kw_only=True):
    """An account of a platform. `built_in`: this process serves it, so it is always connected. Of
    any other, only a round trip proves the connection."""

    name: str
    account: str
    backlog: str  # what the platform stores while we are not connected
    built_in: bool = False
    last_ok_at: float | None = None  # its last round trip; None: there was none yet
    heartbeat_interval: float = 0.0  # how often a round trip is due; 0: not declared
    state: AccountState = AccountState.CONNECTED
    since: float = 0.0  # when it entered this state
    error: str = ""  # why it is not connected; in English, unless this is `for_person`
    remedy: str = ""  # what a person can do about that; likewise
    error_text: Translatable | msgspec.UnsetType = msgspec.UNSET  # as `error`, to be translated
    remedy_text: Translatable | msgspec.UnsetType = msgspec.UNSET
    next_attempt_at: float | None = None  # when it is retried automatically
    failures: int = 0  # in a row
    missing_grants: tuple[str, ...] = ()  # what its vendor has not granted, with what to do
    grant_texts: tuple[Translatable, ...] | msgspec.UnsetType = msgspec.UNSET

    def for_person(self) -> "AccountStatus":
        """The same, with its texts in the language of the current context."""
        error, remedy, grants = self.error, self.remedy, self.missing_grants
        if self.error_text is not msgspec.UNSET:
            error = self.error_text.for_person()
        if self.remedy_text is not msgspec.UNSET:
            remedy = self.remedy_text.for_person()
        if self.grant_texts is not msgspec.UNSET:
            grants = tuple(each.for_person() for each in self.grant_texts)
        return msgspec.structs.replace(
            self,
            error=error,
            remedy=remedy,
            missing_grants=grants,
            error_text=msgspec.UNSET,
            remedy_text=msgspec.UNSET,
            grant_texts=msgspec.UNSET,
        )

    def connected(self, now: float) -> bool:
        if self.state is not AccountState.CONNECTED or self.error:
            return False
        if self.built_in:
            return True
        within = max(ALIVE_SECONDS, self.heartbeat_interval)
        return self.last_ok_at is not None and now - self.last_ok_at <= within


class TurnStatus(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A turn that is open here: running, waiting for a person, or parked."""

    session: str
    turn: str
    state: str
    platform: str
    chat: str
    started_at: float
    step: int  # which model reply it is at
    tools: tuple[str, ...] = ()  # running now
    queued: int = 0  # messages waiting behind it


class AgentCacheStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The agents that are cached between turns, and the limits of the cache."""

    cached: int = 0
    max_agents: int = 0
    bytes: int = 0
    max_bytes: int = 0
    mid_turn: int = 0
    hits: int = 0
    misses: int = 0


class StoreStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the store's writer; times are seconds before this status was made."""

    schema: int = 0
    commits: int = 0
    waiting: int = 0  # queued writes
    committed_ago: float | None = None
    commit_seconds: float = 0.0  # duration of the last commit
    slowest: float = 0.0
    failures: int = 0
    error: str = ""  # the last failure
    failed_ago: float | None = None

    @property
    def failing(self) -> bool:
        """Nothing has been committed since the last failure."""
        if self.failed_ago is None:
            return False
        return self.committed_ago is None or self.committed_ago > self.failed_ago


class BackupStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The last verified backup. `problem`: why the last attempt failed."""

    name: str = ""
    made_at: float | None = None
    bytes: int = 0
    next_at: float | None = None  # None: no automatic backups
    problem: str = ""


class FailingJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job whose last run failed, with the reason of the failure."""

    id: int
    name: str
    reason: str
    ended_at: float


class Failures(msgspec.Struct, frozen=True, kw_only=True):
    """Work that failed and needs attention. `deliveries`: failed ones of the last day; the chat and
    the error are those of the last one."""

    jobs: tuple[FailingJob, ...] = ()  # at most `MAX_FAILING_JOBS`, the last failure first
    deliveries: int = 0
    delivery_chat: str = ""
    delivery_error: str = ""


class HourStats(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of the last hour. Latencies are the mean and the worst, in seconds."""

    turns: tuple[int, ...] = ()  # ended turns per minute; the last is the current minute
    failed: int = 0
    first_token_mean: float | None = None  # from the start of a turn; None: no turn
    first_token_worst: float = 0.0
    duration_mean: float | None = None  # of answered turns
    duration_worst: float = 0.0
    input_tokens: int = 0
    cached_tokens: int = 0  # of those
    output_tokens: int = 0
    cost: float | None = None  # None: some model has no price


class GatewaySnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The status as the event loop last published it."""

    state: str = "starting"
    since: float = 0.0  # when it entered this state
    phase: str = ""  # the current phase of a start or a stop
    phase_since: float = 0.0
    order: StopOrder | None = None  # why it stops
    pending_restart: StopOrder | None = None  # a restart that waits until no turn runs
    address: str = ""
    supervisor: str = ""
    turns: dict[str, int] = {}  # live sessions by state
    open_turns: tuple[TurnStatus, ...] = ()  # oldest first
    more_turns: int = 0  # open turns that are not listed
    in_flight: int = 0  # messages that have not ended
    queued: int = 0  # of those, not taken by a turn yet
    queued_since: float | None = None
    outbox: int = 0
    outbox_since: float | None = None  # since when the oldest delivery is next
    undeliverable: dict[str, int] = {}  # of those, for accounts that are not configured
    failures: Failures = Failures()
    last_hour: HourStats = HourStats()
    currency: str = ""  # of its cost, and of all others; "": none is known
    agents: AgentCacheStatus = AgentCacheStatus()
    subagents: dict[str, int] = {}
    runs: int = 0  # job runs in progress
    next_job: float | None = None  # when the next job is due
    runners: int = 0
    sandboxed: bool | None = None
    why_unsandboxed: str = ""
    sandbox_remedy: str = ""  # what to do where no command may run; "": commands run
    model: dict[str, str] = {}
    model_why: Translatable | msgspec.UnsetType = msgspec.UNSET  # as in `model`, to be translated
    platforms: tuple[AccountStatus, ...] = ()
    home_channels: tuple[HomeChannel, ...] = ()
    restarts: tuple[StopRow, ...] = ()  # newest first
    inbox_counts: dict[str, int] = {}
    orphaned: int = 0  # open messages in the store that no lane here works on
    orphaned_since: float | None = None  # when the oldest of those was accepted
    store: StoreStatus = StoreStatus()
    last_backup: BackupStatus = BackupStatus()
    configuration: ConfigStatus = ConfigStatus()

    def for_person(self) -> Self:
        """The same, with its texts in the language of the current context."""
        platforms = tuple(each.for_person() for each in self.platforms)
        model = self.model
        if self.model_why is not msgspec.UNSET:
            model = model | {"why": self.model_why.for_person()}
        return msgspec.structs.replace(
            self,
            platforms=platforms,
            model=model,
            model_why=msgspec.UNSET,
            why_unsandboxed=_(self.why_unsandboxed),
            sandbox_remedy=_(self.sandbox_remedy),
        )


class EventLoopStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How late the event loop is, in seconds."""

    age: float  # seconds since its last iteration
    lag: float
    worst_minute: float
    worst: float


class MachineStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Resources of the machine, read on request. None: not available on this system."""

    disk_free: int | None = None
    disk_size: int | None = None
    database: int = 0  # bytes; so are `wal` and `search`
    wal: int = 0
    search: int = 0
    memory: int | None = None  # resident bytes
    files: int | None = None  # open files
    max_files: int | None = None
    unit_drift: tuple[str, ...] = ()  # where an installed unit disagrees with the configuration
    drift_texts: tuple[Translatable, ...] | msgspec.UnsetType = msgspec.UNSET  # to be translated

    def for_person(self) -> "MachineStatus":
        """The same, with its texts in the language of the current context."""
        if self.drift_texts is msgspec.UNSET:
            return self
        drift = tuple(each.for_person() for each in self.drift_texts)
        return msgspec.structs.replace(self, unit_drift=drift, drift_texts=msgspec.UNSET)


class StatusReport(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of the status socket. Everything but the snapshot is read outside the event loop
    and therefore current; the snapshot is `snapshot_age` seconds old."""

    state: str
    pid: int
    version: str
    home: str
    started_at: float
    uptime: float
    snapshot_age: float = 0.0
    loop: EventLoopStatus | None = None
    machine: MachineStatus = MachineStatus()
    problems: tuple[Problem, ...] = ()
    snapshot: GatewaySnapshot = GatewaySnapshot()


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """What waits and works besides turns. Each count comes from an index, so frequent reads are
    cheap."""

    approvals: int = 0  # waiting for a person
    processes: int = 0  # background processes of live runners
    jobs: int = 0
    paused_jobs: int = 0  # of those
    waiting_runs: int = 0  # job runs waiting for an earlier one or for a free slot

"""The status of a running gateway, the same wherever it is asked for."""

from enum import StrEnum

import msgspec

from holdfast.core.config.versions import ConfigStatus
from holdfast.core.ops.account import AccountState
from holdfast.core.turns.stop import HomeChannel, StopOrder, StopRow

ALIVE_SECONDS = 90.0  # seconds for which a round trip proves that a platform is connected


class ProblemLevel(StrEnum):
    WARNING = "warning"  # it works, and somebody should look
    PROBLEM = "problem"  # it does not do its work


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is wrong: what, and what to do about it. `code` is for programs."""

    level: ProblemLevel
    code: str
    what: str
    remedy: str = ""


class AccountStatus(msgspec.Struct, frozen=True, kw_only=True):
    """An account of a platform. `here`: it is served by this very process, so that nothing lies
    between; of any other, only a round trip proves that it is connected."""

    name: str
    account: str
    backlog: str  # what it keeps for us while we are away
    built_in: bool = False
    last_ok_at: float | None = None  # its last round trip; None: there was none yet
    heartbeat_interval: float = 0.0  # what its door says of how often one is due; 0: nothing
    state: AccountState = AccountState.CONNECTED
    since: float = 0.0  # when it came to be so
    error: str = ""  # why it is not connected
    remedy: str = ""  # what a person can do about that
    next_attempt_at: float | None = None  # when it is tried again by itself
    failures: int = 0  # in a row
    missing_grants: tuple[str, ...] = ()  # what its vendor has not granted, with what to do

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
    tools: tuple[str, ...] = ()  # those that run now
    queued: int = 0  # messages that wait behind it


class AgentCacheStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The agents that are kept between turns, with their bounds."""

    cached: int = 0
    max_agents: int = 0
    bytes: int = 0
    max_bytes: int = 0
    mid_turn: int = 0
    hits: int = 0
    misses: int = 0


class StoreStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How the store's writer does; times are seconds before these facts were told."""

    schema: int = 0
    commits: int = 0
    waiting: int = 0  # writes that no commit has taken yet
    committed_ago: float | None = None
    commit_seconds: float = 0.0  # what the last commit took
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
    """The last backup that was verified. `problem`: why the last attempt made none."""

    name: str = ""
    made_at: float | None = None
    bytes: int = 0
    next_at: float | None = None  # None: the gateway makes none by itself
    problem: str = ""


class HourStats(msgspec.Struct, frozen=True, kw_only=True):
    """What was done in the last hour. Latencies are the mean and the worst, in seconds."""

    turns: tuple[int, ...] = ()  # that ended, by the minute; the last is the present one so far
    failed: int = 0
    first_token_mean: float | None = (
        None  # from the beginning of a turn to its first word; None: no turn
    )
    first_token_worst: float = 0.0
    duration_mean: float | None = None  # to the end of those that were answered
    duration_worst: float = 0.0
    input_tokens: int = 0
    cached_tokens: int = 0  # of those
    output_tokens: int = 0
    cost: float | None = None  # None: some model has no price


class GatewaySnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """What the event loop says: true when it was told, and as old as that."""

    state: str = "starting"
    since: float = 0.0  # when it came to be so
    phase: str = ""  # how far a start or a stop has come
    phase_since: float = 0.0
    order: StopOrder | None = None  # why it stops
    pending_restart: StopOrder | None = None  # a restart that waits until nothing runs
    address: str = ""
    supervisor: str = ""
    turns: dict[str, int] = {}  # live sessions by state
    open_turns: tuple[TurnStatus, ...] = ()  # the oldest first
    more_turns: int = 0  # those that are not listed
    in_flight: int = 0  # messages that have not ended
    queued: int = 0  # of those, what no turn has taken yet
    queued_since: float | None = None
    outbox: int = 0
    outbox_since: float | None = None  # since when the oldest delivery has been in front
    undeliverable: dict[str, int] = {}  # of those, what waits for accounts that are not configured
    last_hour: HourStats = HourStats()
    agents: AgentCacheStatus = AgentCacheStatus()
    subagents: dict[str, int] = {}
    runs: int = 0  # of jobs, at work now
    next_job: float | None = None  # when the next is due
    runners: int = 0
    sandboxed: bool | None = None
    why_unsandboxed: str = ""
    model: dict[str, str] = {}
    platforms: tuple[AccountStatus, ...] = ()
    home_channels: tuple[HomeChannel, ...] = ()
    restarts: tuple[StopRow, ...] = ()  # the last first
    inbox_counts: dict[str, int] = {}
    orphaned: int = 0  # open in the store, and nobody here brings them to an end
    orphaned_since: float | None = None  # when the oldest of those was accepted
    store: StoreStatus = StoreStatus()
    last_backup: BackupStatus = BackupStatus()
    configuration: ConfigStatus = ConfigStatus()


class EventLoopStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How late the event loop is, in seconds."""

    age: float  # since it was last seen turning
    lag: float
    worst_minute: float
    worst: float


class MachineStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What the process stands on, read when it was asked for. None: this system does not say."""

    disk_free: int | None = None
    disk_size: int | None = None
    database: int = 0  # bytes of the file, of its log, and of the search index
    wal: int = 0
    search: int = 0
    memory: int | None = None  # bytes that are resident
    files: int | None = None  # open ones
    max_files: int | None = None
    unit_drift: tuple[str, ...] = ()  # where an installed unit disagrees with the configuration


class StatusReport(msgspec.Struct, frozen=True, kw_only=True):
    """What the status socket says. All but the snapshot is from outside the event loop, and so
    of this very instant; the snapshot is `seen` seconds old."""

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
    """Counts of one moment, each from an index: whoever asks every few seconds costs little."""

    approvals: int = 0  # that wait for a person
    processes: int = 0  # in the background, of runners that live
    jobs: int = 0
    paused_jobs: int = 0  # of those
    waiting_runs: int = 0  # of jobs: for an earlier one, or for a free place

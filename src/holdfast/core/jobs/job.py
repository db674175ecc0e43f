"""Jobs (scheduled work of an agent), their runs, and the planning of runs."""

from collections.abc import Sequence
from enum import StrEnum
from typing import NewType, Protocol

import msgspec

from holdfast.core.ids import CallId, InboxId, PrincipalId, SessionId, TurnId
from holdfast.core.jobs.schedule import JobError, Schedule
from holdfast.core.messages.outbox import Address
from holdfast.core.messages.source import Source
from holdfast.core.ports.command import Command, Scope, person_scope
from holdfast.core.text.translation import N_

JobId = NewType("JobId", int)  # a number that people type; never reused

# The account of the internal platform that carries runs, and replies that are sent to no chat.
JOBS_ACCOUNT = "jobs"
SCHEDULE_TOOL = "schedule"  # the tool that manages jobs, and its toolset
SILENT_REPLY = "[SILENT]"  # the reply of a silent job's run that has nothing to report

MAX_JOB_TEXT = 8000  # characters of a job's task

ORIGIN = "origin"  # the chat in which the job was created
HOME = "home"  # the home channel of that platform, else the first home channel
NOWHERE = "nowhere"  # only the job's history


class JobRefused(JobError):
    """A job cannot be created, changed or found; the text says why, and what to do."""


class MissedRunPolicy(StrEnum):
    """What happens with due times that passed while the gateway did not run."""

    SKIP = "skip"
    ONCE = "once"  # one run for all of them
    ALL = "all"


class OverlapPolicy(StrEnum):
    """What happens with a run that is due while the previous one is still running."""

    SKIP = "skip"
    QUEUE = "queue"
    REPLACE = "replace"  # the running one is stopped


class RunSession(StrEnum):
    """The session of a run."""

    FRESH = "fresh"  # its own session
    HERE = "here"  # the conversation of the chat in which it was created


class RunCause(StrEnum):
    DUE = "due"
    MISSED = "missed"
    REQUESTED = "asked"  # by a person, now


class RunState(StrEnum):
    WAITING = "waiting"  # for an earlier run, or for a free slot
    RUNNING = "running"
    ANSWERED = "answered"
    FAILED = "failed"
    STOPPED = "stopped"
    SKIPPED = "skipped"
    SESSION_DELETED = "forgotten"  # its session was deleted


class JobSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The definition of a job, as last requested; a run keeps the one with which it started."""

    name: str
    text: str
    schedule: Schedule
    source: Source  # where it was created, and by whom
    to: str = ORIGIN
    address: Address | None = None  # of a chat that was named
    runs_in: RunSession = RunSession.FRESH
    silent: bool = False
    missed: MissedRunPolicy = MissedRunPolicy.ONCE
    overlap: OverlapPolicy = OverlapPolicy.SKIP
    limit: float = 0.0  # seconds that a run may take; 0: no limit


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A stored job. `next_due` None: it is not due again."""

    id: JobId
    principal: PrincipalId  # its owner
    spec: JobSpec
    paused: bool
    next_due: int | None
    made_at: float


class NewJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job to store. `key` is the idempotency key of the request: with the same key it is the same
    job, in every process."""

    key: str
    principal: PrincipalId
    spec: JobSpec
    next_due: int
    at: float


class JobChangeKind(StrEnum):
    PAUSE = "pause"
    RESUME = "resume"
    REMOVE = "remove"
    UPDATE = "rewrite"  # it keeps its number and its history


class JobChange(Command[bool], frozen=True, kw_only=True):
    """False: the job no longer exists."""

    job_id: JobId
    principal: PrincipalId  # whose job it is
    kind: JobChangeKind
    next_due: int | None = None  # of a job that is resumed, or that gets another schedule
    spec: JobSpec | None = None  # of a job that is updated

    @property
    def scope(self) -> Scope:
        return person_scope(self.principal)


class NewRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run to store, which waits to start; `skip_reason`: why it never starts."""

    id: str
    job_id: JobId
    cause: RunCause
    due_at: int
    skip_reason: str | None = None


class RunPlan(Command[bool], frozen=True, kw_only=True):
    """New runs of a job and its next due time, in one commit. False, and nothing is written, if the
    job is no longer due at `was_due`."""

    job_id: JobId
    principal: PrincipalId  # whose job it is
    runs: tuple[NewRun, ...]
    was_due: int | None = None  # None: these runs do not follow from its schedule
    next_due: int | None = None
    drop_waiting_reason: str = ""  # why waiting runs are dropped; "": they are kept
    at: float

    @property
    def scope(self) -> Scope:
        return person_scope(self.principal)


class WaitingRun(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    job: Job
    cause: RunCause
    due_at: int


class JobRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run as its history shows it."""

    id: str
    job_id: JobId
    cause: RunCause
    due_at: int
    state: RunState
    reason: str
    text: str  # its answer
    made_at: float
    ended_at: float | None
    inbox_id: InboxId | None
    session_id: SessionId | None
    turn_id: TurnId | None


class RunRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The run in the inbox row that starts it."""

    id: str
    job_id: JobId
    name: str
    due_at: int
    address: Address | None = None  # where its answer goes; None: it is not sent
    silent: bool = False
    limit: float = 0.0
    asked_in: SessionId | None = None  # the conversation whose people are asked for approval
    memory_owner: str = ""  # "": that of the session

    def is_silent_reply(self, answer: str) -> bool:
        return self.silent and answer.strip().strip("`*_.").upper() in (
            "",
            SILENT_REPLY,
            SILENT_REPLY[1:-1],
        )


class JobRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job as it is requested; None and "": the default."""

    when: str
    text: str
    name: str = ""
    zone: str = ""
    to: str = ""
    runs_in: RunSession | None = None
    silent: bool = False
    missed: MissedRunPolicy = MissedRunPolicy.ONCE
    overlap: OverlapPolicy = OverlapPolicy.SKIP
    limit: float | None = None


class JobUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of a job; None: unchanged. `zone` is the time zone of `when`."""

    when: str | None = None
    zone: str = ""
    text: str | None = None
    name: str | None = None
    to: str | None = None
    silent: bool | None = None
    missed: MissedRunPolicy | None = None
    overlap: OverlapPolicy | None = None
    limit: float | None = None


class JobPort(Protocol):
    """Jobs for a turn, on behalf of the person it works for. The texts are for the model; each
    method raises `JobRefused` if it is not possible."""

    async def add(self, call_id: CallId, request: JobRequest) -> str:
        """A repeated call, in any process, finds the job that it has already created."""
        ...

    async def list_jobs(self) -> str: ...
    async def change_job(self, job_id: int, kind: JobChangeKind) -> str: ...


MAX_MISSED_RUNS = 100  # of one job that are caught up on
MAX_WAITING_RUNS = 100  # of one job
_FEW_DUE_TIMES = 10  # due times that are read if not all are caught up on

SKIPPED_BUSY = N_("an earlier run was still running")
SKIPPED_QUEUE_FULL = N_("100 earlier runs are waiting already")
SKIPPED_REPLACED = N_("a later run replaced it")


def due_times_needed(missed: MissedRunPolicy) -> int:
    """How many of the last due times the policy needs."""
    return MAX_MISSED_RUNS if missed is MissedRunPolicy.ALL else _FEW_DUE_TIMES


def run_id(job: Job, due_at: int) -> str:
    """The same in every process that finds the job due, so that the run exists once."""
    return f"{job.id}.{due_at}"


def plan_runs(
    job: Job, times: Sequence[int], *, more: bool, now: float, late_after: float
) -> list[NewRun]:
    """A run for each due time that gets one, oldest first; all others are one skipped run. `more`:
    there were others before these."""
    selected = _select_times(job.spec.missed, times, now=now, late_after=late_after)
    left_out = [at for at in times if at not in selected]
    runs = [_new_run(job, at, now=now, late_after=late_after) for at in selected]
    if job.spec.missed is MissedRunPolicy.ONCE:
        return runs  # one run for all of them
    if left_out or more:
        many = "1 due time" if len(left_out) == 1 else f"{len(left_out)} due times"
        count = many if left_out else "earlier due times"
        at = left_out[-1] if left_out else times[0] - 1
        runs.insert(
            0, _new_run(job, at, now=now, late_after=late_after, skip_reason=f"{count} missed")
        )
    return runs


def apply_overlap_policy(
    job: Job, runs: Sequence[NewRun], *, waiting: int, busy: bool
) -> list[NewRun]:
    """The runs after the overlap policy, with earlier ones running or waiting: some are skipped."""
    room = MAX_WAITING_RUNS - waiting if job.spec.overlap is OverlapPolicy.QUEUE else len(runs)
    why = SKIPPED_QUEUE_FULL
    if job.spec.overlap is OverlapPolicy.SKIP and (busy or waiting):
        room, why = 0, SKIPPED_BUSY
    to_start = [run for run in runs if run.skip_reason is None]
    late = {run.id for run in to_start[max(0, room) :]}
    return [_skip_run(run, why) if run.id in late else run for run in runs]


def _select_times(
    missed: MissedRunPolicy, times: Sequence[int], *, now: float, late_after: float
) -> Sequence[int]:
    match missed:
        case MissedRunPolicy.ALL:
            return times
        case MissedRunPolicy.ONCE:
            return times[-1:]
        case MissedRunPolicy.SKIP:
            return [at for at in times if now - at <= late_after]


def _new_run(
    job: Job, at: int, *, now: float, late_after: float, skip_reason: str | None = None
) -> NewRun:
    cause = RunCause.MISSED if now - at > late_after else RunCause.DUE
    return NewRun(
        id=run_id(job, at), job_id=job.id, cause=cause, due_at=at, skip_reason=skip_reason
    )


def _skip_run(run: NewRun, why: str) -> NewRun:
    return NewRun(id=run.id, job_id=run.job_id, cause=run.cause, due_at=run.due_at, skip_reason=why)

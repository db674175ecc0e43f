"""A job (something an agent does at certain times), its runs, and the planning of runs."""

from collections.abc import Sequence
from enum import StrEnum
from typing import NewType, Protocol

import msgspec

from holdfast.core.errors import HoldfastError
from holdfast.core.ids import CallId, InboxId, PrincipalId, SessionId, TurnId
from holdfast.core.jobs.schedule import Schedule
from holdfast.core.messages.outbox import Address
from holdfast.core.messages.source import Source
from holdfast.core.ports.command import Command, Scope, person_scope

JobId = NewType("JobId", int)  # a number that people type; never reused

# The account of the internal platform that carries runs, and replies that are sent to no chat.
JOBS_ACCOUNT = "jobs"
SCHEDULE_TOOL = "schedule"  # the tool that manages jobs, and its toolset
SILENT_REPLY = "[SILENT]"  # what a run of a silent job answers where there is nothing to tell

MAX_JOB_TEXT = 8000  # characters of what a job is to do

ORIGIN = "origin"  # where the job was made
HOME = "home"  # the home channel of that platform, else the first there is
NOWHERE = "nowhere"  # what it says is in its history


class JobRefused(HoldfastError):
    """A job that cannot be had, changed or found; the text says why, and what to do."""


class MissedRunPolicy(StrEnum):
    """What becomes of due times that passed while nobody could run them."""

    SKIP = "skip"
    ONCE = "once"  # one run for all of them
    ALL = "all"


class OverlapPolicy(StrEnum):
    """What becomes of a run that is due while the last one is still at work."""

    SKIP = "skip"
    QUEUE = "queue"
    REPLACE = "replace"  # the old one is stopped


class RunSession(StrEnum):
    """The session of a run."""

    FRESH = "fresh"  # one of its own
    HERE = "here"  # the conversation of the chat it was made in


class RunCause(StrEnum):
    DUE = "due"
    MISSED = "missed"
    REQUESTED = "asked"  # by a person, now


class RunState(StrEnum):
    WAITING = "waiting"  # for an earlier run, or for a free place
    RUNNING = "running"
    ANSWERED = "answered"
    FAILED = "failed"
    STOPPED = "stopped"
    SKIPPED = "skipped"
    SESSION_DELETED = "forgotten"  # its conversation was deleted


class JobSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a job is, as it was asked for last; a run keeps what it began with."""

    name: str
    text: str
    schedule: Schedule
    source: Source  # where it was made, and by whom
    to: str = ORIGIN
    address: Address | None = None  # of a chat that was named
    runs_in: RunSession = RunSession.FRESH
    silent: bool = False
    missed: MissedRunPolicy = MissedRunPolicy.ONCE
    overlap: OverlapPolicy = OverlapPolicy.SKIP
    limit: float = 0.0  # seconds that a run may take; 0: as long as it likes


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """`next_due` None: it is over."""

    id: JobId
    principal: PrincipalId  # whose it is
    spec: JobSpec
    paused: bool
    next_due: int | None
    made_at: float


class NewJob(msgspec.Struct, frozen=True, kw_only=True):
    """A row to be. `key`: what asked for it; asked again by whatever process, it is the same."""

    key: str
    principal: PrincipalId
    spec: JobSpec
    next_due: int
    at: float


class JobChangeKind(StrEnum):
    PAUSE = "pause"
    RESUME = "resume"
    REMOVE = "remove"
    UPDATE = "rewrite"  # it is another from now on, with its number and its history


class JobChange(Command[bool], frozen=True, kw_only=True):
    """False: the job no longer exists."""

    job_id: JobId
    principal: PrincipalId  # whose job it is
    kind: JobChangeKind
    next_due: int | None = None  # of one that is resumed, or rewritten with other times
    spec: JobSpec | None = None  # of one that is rewritten

    @property
    def scope(self) -> Scope:
        return person_scope(self.principal)


class NewRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run to be stored, which waits to begin; `skip_reason`: why it never will."""

    id: str
    job_id: JobId
    cause: RunCause
    due_at: int
    skip_reason: str | None = None


class RunPlan(Command[bool], frozen=True, kw_only=True):
    """The runs that a job is to have, and when it is next due, in one commit. False, and nothing is
    written, where the job is no longer due at that time."""

    job_id: JobId
    principal: PrincipalId  # whose job it is
    runs: tuple[NewRun, ...]
    was_due: int | None = None  # None: these runs have nothing to do with its times
    next_due: int | None = None
    drop_waiting_reason: str = ""  # why those that wait already are not begun; "": they are
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
    text: str  # what was answered
    made_at: float
    ended_at: float | None
    inbox_id: InboxId | None
    session_id: SessionId | None
    turn_id: TurnId | None


class RunRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What travels in the inbox row by which a run comes in."""

    id: str
    job_id: JobId
    name: str
    due_at: int
    address: Address | None = None  # where its answer goes; None: nobody is sent it
    silent: bool = False
    limit: float = 0.0
    asked_in: SessionId | None = None  # the conversation whose people are asked for approval

    def is_silent_reply(self, answer: str) -> bool:
        return self.silent and answer.strip().strip("`*_.").upper() in (
            "",
            SILENT_REPLY,
            SILENT_REPLY[1:-1],
        )


class JobRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What somebody asks for, in their own words; None and "": as it is usual there."""

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
    """What is to be another of a job; None: it stays as it is. `zone` is one of `when`."""

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
    """What a turn may ask of jobs, for the person it works for. The texts are for the model;
    each method raises `JobRefused` where it cannot be done."""

    async def add(self, call_id: CallId, request: JobRequest) -> str:
        """A call that is made again, by whatever process, finds the job it already has."""
        ...

    async def list_jobs(self) -> str: ...
    async def change_job(self, job_id: int, kind: JobChangeKind) -> str: ...


MAX_MISSED_RUNS = 100  # runs that are made up for, of one job
MAX_WAITING_RUNS = 100  # runs of one job
_FEW_DUE_TIMES = 10  # due times that are looked at where they are not all made up for

SKIPPED_BUSY = "an earlier run was still at work"
SKIPPED_QUEUE_FULL = f"{MAX_WAITING_RUNS} earlier runs wait already"
SKIPPED_REPLACED = "a later run took its place"


def due_times_needed(missed: MissedRunPolicy) -> int:
    """How many of the last due times the choice needs to know."""
    return MAX_MISSED_RUNS if missed is MissedRunPolicy.ALL else _FEW_DUE_TIMES


def run_id(job: Job, due_at: int) -> str:
    """The same for whoever finds that it is due, so that it is there once."""
    return f"{job.id}.{due_at}"


def plan_runs(
    job: Job, times: Sequence[int], *, more: bool, now: float, late_after: float
) -> list[NewRun]:
    """A run for each due time that is to have one, oldest first; the others are one row that says
    so. `more`: there were others before these."""
    selected = _select_times(job.spec.missed, times, now=now, late_after=late_after)
    left_out = [at for at in times if at not in selected]
    runs = [_new_run(job, at, now=now, late_after=late_after) for at in selected]
    if job.spec.missed is MissedRunPolicy.ONCE:
        return runs  # which stand for the others, too
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
    """The same runs where earlier ones are at work or wait: some are then not to begin."""
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

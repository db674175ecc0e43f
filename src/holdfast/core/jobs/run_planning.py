"""Which runs a job gets for the due times that have passed. Pure: whoever asks brings the time."""

from collections.abc import Sequence

from holdfast.core.jobs.job import Job, MissedRunPolicy, NewRun, OverlapPolicy, RunCause

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
    wanted = _select_times(job.spec.missed, times, now=now, late_after=late_after)
    left_out = [at for at in times if at not in wanted]
    runs = [_new_run(job, at, now=now, late_after=late_after) for at in wanted]
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
    wanted = [run for run in runs if run.skip_reason is None]
    late = {run.id for run in wanted[max(0, room) :]}
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

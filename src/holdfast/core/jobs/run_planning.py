"""Which runs a job gets for the due times that have passed. Pure: whoever asks brings the time."""

from collections.abc import Sequence

from holdfast.core.jobs.job import Cause, Job, Missed, NewRun, Overlap

MOST_MISSED = 100  # runs that are made up for, of one job
MOST_WAITING = 100  # runs of one job
_FEW = 10  # due times that are looked at where they are not all made up for

BUSY = "an earlier run was still at work"
FULL = f"{MOST_WAITING} earlier runs wait already"
REPLACED = "a later run took its place"


def looked_at(missed: Missed) -> int:
    """How many of the last due times the choice needs to know."""
    return MOST_MISSED if missed is Missed.ALL else _FEW


def run_id(job: Job, due_at: int) -> str:
    """The same for whoever finds that it is due, so that it is there once."""
    return f"{job.id}.{due_at}"


def runs_due(
    job: Job, times: Sequence[int], *, more: bool, now: float, late_after: float
) -> list[NewRun]:
    """A run for each due time that is to have one, oldest first; the others are one row that says
    so. `more`: there were others before these."""
    wanted = _wanted(job.spec.missed, times, now=now, late_after=late_after)
    left_out = [at for at in times if at not in wanted]
    runs = [_new(job, at, now=now, late_after=late_after) for at in wanted]
    if job.spec.missed is Missed.ONCE:
        return runs  # which stand for the others, too
    if left_out or more:
        many = "1 due time" if len(left_out) == 1 else f"{len(left_out)} due times"
        count = many if left_out else "earlier due times"
        at = left_out[-1] if left_out else times[0] - 1
        runs.insert(0, _new(job, at, now=now, late_after=late_after, skipped=f"{count} missed"))
    return runs


def behind(job: Job, runs: Sequence[NewRun], *, waiting: int, busy: bool) -> list[NewRun]:
    """The same runs where earlier ones are at work or wait: some are then not to begin."""
    room = MOST_WAITING - waiting if job.spec.overlap is Overlap.QUEUE else len(runs)
    why = FULL
    if job.spec.overlap is Overlap.SKIP and (busy or waiting):
        room, why = 0, BUSY
    wanted = [run for run in runs if run.skipped is None]
    late = {run.id for run in wanted[max(0, room) :]}
    return [_skipped(run, why) if run.id in late else run for run in runs]


def _wanted(
    missed: Missed, times: Sequence[int], *, now: float, late_after: float
) -> Sequence[int]:
    match missed:
        case Missed.ALL:
            return times
        case Missed.ONCE:
            return times[-1:]
        case Missed.SKIP:
            return [at for at in times if now - at <= late_after]


def _new(job: Job, at: int, *, now: float, late_after: float, skipped: str | None = None) -> NewRun:
    cause = Cause.MISSED if now - at > late_after else Cause.DUE
    return NewRun(id=run_id(job, at), job_id=job.id, cause=cause, due_at=at, skipped=skipped)


def _skipped(run: NewRun, why: str) -> NewRun:
    return NewRun(id=run.id, job_id=run.job_id, cause=run.cause, due_at=run.due_at, skipped=why)

"""Invariants of jobs: each due time has one run, runs start once, one at a time, and end once.

Each invariant yields a sentence for every violation.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

import apsw
from tests.state_machine.home import Home
from tests.state_machine.home_contents import HomeContents, Invariant, StepInvariant

from holdfast.core.jobs.job import Job, JobId, JobRun, MissedRunPolicy, RunCause, RunState
from holdfast.core.messages.inbox import InboxState

_OPEN = (RunState.WAITING, RunState.RUNNING)


def runs_end_once(home: Home) -> Iterator[str]:
    """J4: what has ended stays ended, as it was."""
    for job in home.jobs():
        for run in home.job_runs(job.id):
            ended = home.runs_ended.get(run.id)
            if run.state not in _OPEN:
                ended = home.runs_ended.setdefault(run.id, run.state)
            if ended not in (None, run.state):
                yield f"run {run.id} was {ended} and is {run.state}"


def each_job_has_one_run_at_a_time(home: Home) -> Iterator[str]:
    """J4: a job has at most one active run, whatever its overlap policy says."""
    if home.current_run is None or not home.current_run.store.reader.open:
        return
    for job_id, number in home.current_run.store.look(_active_runs):
        if number > 1:
            yield f"job {job_id} has {number} active runs"


def paused_jobs_start_no_runs(home: Home) -> Iterator[str]:
    """J4: while a job is paused its times make no runs."""
    for job in home.jobs():
        if not job.paused:
            home.runs_when_paused.pop(job.id, None)
            continue
        due = {run.id for run in home.job_runs(job.id) if run.cause is not RunCause.REQUESTED}
        if due - home.runs_when_paused.setdefault(job.id, due):
            yield f"job {job.id} is paused, and has new runs"


def _active_runs(cursor: apsw.Cursor) -> list[tuple[JobId, int]]:
    found = cursor.execute(
        "SELECT json_extract(body, '$.run.job_id'), count(*) FROM inbox WHERE ended_at IS NULL"
        " AND json_extract(body, '$.run') IS NOT NULL GROUP BY 1"
    )
    return [(JobId(int(str(row[0]))), int(str(row[1]))) for row in found]


ALWAYS: Sequence[StepInvariant] = (
    runs_end_once,
    each_job_has_one_run_at_a_time,
    paused_jobs_start_no_runs,
)


def runs_have_ended(contents: HomeContents) -> Iterator[str]:
    """J4: except runs that wait for a paused job."""
    for job, run in _each_run(contents):
        waits = job.paused and run.cause is not RunCause.REQUESTED
        if run.state in _OPEN and not (run.state is RunState.WAITING and waits):
            yield f"run {run.id} of job {job.id} is {run.state}"


def a_run_begins_once(contents: HomeContents) -> Iterator[str]:
    """J4, G2: as one message, which it names; a run that was skipped has none."""
    began = Counter(row.inbound.run.id for row in contents.inbox.values() if row.inbound.run)
    for run_id, times in began.items():
        if times != 1:
            yield f"run {run_id} began {times} times"
    for _, run in _each_run(contents):
        if began[run.id] != (run.inbox_id is not None):
            yield f"run {run.id} is {run.state}, and began {began[run.id]} times"


def runs_end_as_their_messages_end(contents: HomeContents) -> Iterator[str]:
    """J4: how a run ended is how its message ended."""
    ends = {InboxState.ANSWERED: RunState.ANSWERED, InboxState.FAILED: RunState.FAILED}
    for _, run in _each_run(contents):
        if run.inbox_id is None:
            continue
        ended = ends.get(contents.inbox[run.inbox_id].state, RunState.STOPPED)
        if run.state is not ended:
            yield f"run {run.id} is {run.state}, and its message {ended}"


def missed_runs_follow_their_policy(contents: HomeContents) -> Iterator[str]:
    """J4: of what is planned at one time, `once` begins one run, and `skip` none that is late."""
    for job in contents.jobs.values():
        due = [run for run in contents.runs[job.id] if run.cause is not RunCause.REQUESTED]
        begins = [run for run in due if run.state is not RunState.SKIPPED]
        at_once = Counter(run.made_at for run in due)
        if job.spec.missed is MissedRunPolicy.ONCE and max(at_once.values(), default=0) > 1:
            yield f"job {job.id} makes up for what it missed more than once: {due}"
        late = [run.id for run in begins if run.cause is RunCause.MISSED]
        if job.spec.missed is MissedRunPolicy.SKIP and late:
            yield f"job {job.id} skips what it missed, and has run {late}"


def due_times_are_those_of_the_schedule(contents: HomeContents) -> Iterator[str]:
    """J4: an interval is counted from its start, whatever run planned it and however late."""
    for job, run in _each_run(contents):
        schedule = job.spec.schedule
        between = run.state is RunState.SKIPPED  # one row covers several due times
        if run.cause is RunCause.REQUESTED or between or not schedule.every:
            continue
        if (run.due_at - schedule.start) % schedule.every:
            yield f"run {run.id} is due at {run.due_at}, which is no time of its job"


def _each_run(contents: HomeContents) -> Iterator[tuple[Job, JobRun]]:
    for job in contents.jobs.values():
        for run in contents.runs[job.id]:
            yield job, run


AT_THE_END: Sequence[Invariant] = (
    runs_have_ended,
    a_run_begins_once,
    runs_end_as_their_messages_end,
    missed_runs_follow_their_policy,
    due_times_are_those_of_the_schedule,
)

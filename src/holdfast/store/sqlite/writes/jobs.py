"""Jobs and their runs: added, changed, planned, begun, skipped and pruned."""

import apsw
import msgspec

from holdfast.core.errors import StoreError
from holdfast.core.ids import PrincipalId, SessionKey
from holdfast.core.jobs.job import Job, JobChange, JobChangeKind, JobId, NewJob, RunPlan, RunRequest
from holdfast.core.messages.inbox import Accepted, Inbound
from holdfast.core.people.audit import AuditEntry, AuditKind
from holdfast.store.sqlite.reads.jobs import JOB_COLUMNS, WAITING_RUNS, decode_job
from holdfast.store.sqlite.writes import audit_log, inbox

_PRUNE_BATCH = 500  # rows in one request: other writes must not wait long for it


def add_job(cursor: apsw.Cursor, *, new: NewJob, most: int) -> Job | None:
    """Adds a job; None: its person has the maximum already. A repeated request returns the existing
    job."""
    if (known := _job_by_key(cursor, new.key)) is not None:
        return known
    (count,) = cursor.execute(
        "SELECT count(*) FROM jobs WHERE principal = ? AND next_due IS NOT NULL", (new.principal,)
    ).fetchall()[0]
    if int(str(count)) >= most:
        return None
    cursor.execute(
        "INSERT INTO jobs (key, principal, next_due, made_at, body) VALUES (?, ?, ?, ?, ?)",
        (new.key, new.principal, new.next_due, new.at, msgspec.json.encode(new.spec).decode()),
    )
    job = _job_by_key(cursor, new.key)
    assert job is not None, "it was made in the line above"
    _record_job_added(cursor, job, at=new.at)
    return job


def _record_job_added(cursor: apsw.Cursor, job: Job, *, at: float) -> None:
    audit_log.record(
        cursor,
        AuditEntry(
            kind=AuditKind.JOB_ADDED,
            actor=job.principal,
            at=at,
            subject=str(job.id),  # which has its words, and they go with it
        ),
    )


def _job_by_key(cursor: apsw.Cursor, key: str) -> Job | None:
    found = cursor.execute(f"SELECT {JOB_COLUMNS} FROM jobs j WHERE key = ?", (key,)).fetchone()
    return None if found is None else decode_job(found)


def change_job(cursor: apsw.Cursor, *, change: JobChange) -> bool:
    """False: there is no such job any more."""
    match change.kind:
        case JobChangeKind.REMOVE:
            return _remove_job(cursor, change.job_id)
        case JobChangeKind.PAUSE:
            cursor.execute("UPDATE jobs SET paused = 1 WHERE id = ?", (change.job_id,))
        case JobChangeKind.RESUME:
            cursor.execute(
                "UPDATE jobs SET paused = 0, next_due = ? WHERE id = ?",
                (change.next_due, change.job_id),
            )
        case JobChangeKind.UPDATE:
            cursor.execute(
                "UPDATE jobs SET body = ?, next_due = coalesce(?, next_due) WHERE id = ?",
                (msgspec.json.encode(change.spec).decode(), change.next_due, change.job_id),
            )
    return bool(cursor.connection.changes())


def _remove_job(cursor: apsw.Cursor, job_id: JobId) -> bool:
    """Removes a job with its history. A run that has begun continues to its end."""
    cursor.execute("DELETE FROM job_runs WHERE job_id = ?", (job_id,))
    cursor.execute("DELETE FROM jobs WHERE id = ?", (job_id,))
    return bool(cursor.connection.changes())


def plan_runs(cursor: apsw.Cursor, *, plan: RunPlan) -> bool:
    """Plans the due runs; False, and nothing is written: the job is not due any more. A run that
    exists already, for example after a commit whose caller died, stays unchanged."""
    if plan.was_due is not None and not _advance_next_due(cursor, plan):
        return False
    if plan.drop_waiting_reason:
        skip_runs(cursor, job_id=plan.job_id, why=plan.drop_waiting_reason)
    for run in plan.runs:
        cursor.execute(
            "INSERT INTO job_runs (id, job_id, cause, due_at, made_at, skipped)"
            " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            (run.id, run.job_id, run.cause.value, run.due_at, plan.at, run.skip_reason),
        )
    return True


def _advance_next_due(cursor: apsw.Cursor, plan: RunPlan) -> bool:
    cursor.execute(
        "UPDATE jobs SET next_due = ? WHERE id = ? AND next_due = ? AND paused = 0",
        (plan.next_due, plan.job_id, plan.was_due),
    )
    return bool(cursor.connection.changes())


def skip_runs(cursor: apsw.Cursor, *, job_id: JobId, why: str, run_id: str | None = None) -> int:
    """Skips the waiting runs of a job, or one of them, and returns their number."""
    cursor.execute(
        f"UPDATE job_runs SET skipped = ?1 WHERE job_id = ?2 AND {WAITING_RUNS}"
        " AND (?3 IS NULL OR id = ?3)",
        (why, job_id, run_id),
    )
    return cursor.connection.changes()


def accept_run(
    cursor: apsw.Cursor,
    run: RunRequest,
    *,
    inbound: Inbound,
    route: SessionKey,
    principal: PrincipalId,
    at: float,
) -> Accepted:
    """Begins a run: adds its message to the inbox, and the id of that row to the run."""
    accepted = inbox.accept_message(
        cursor, inbound=inbound, route=route, principal=principal, at=at
    )
    cursor.execute(
        f"UPDATE job_runs SET inbox_id = ? WHERE id = ? AND {WAITING_RUNS}",
        (accepted.row.id, run.id),
    )
    if not cursor.connection.changes() and not accepted.duplicate:
        raise StoreError("run {run_id} is no longer waiting: nothing was started", run_id=run.id)
    return accepted


def prune_runs(cursor: apsw.Cursor, *, before: float) -> int:
    """Deletes the oldest runs that had ended by then, and finished jobs that have none left;
    returns the number of runs."""
    cursor.execute(
        "DELETE FROM job_runs WHERE id IN (SELECT r.id FROM job_runs r"
        " LEFT JOIN inbox i ON i.id = r.inbox_id WHERE r.made_at < ?1 AND (r.skipped IS NOT NULL"
        " OR (r.inbox_id IS NOT NULL AND (i.id IS NULL OR i.ended_at < ?1)))"
        " ORDER BY r.made_at LIMIT ?2)",
        (before, _PRUNE_BATCH),
    )
    deleted = cursor.connection.changes()
    cursor.execute(
        "DELETE FROM jobs WHERE next_due IS NULL AND made_at < ?"
        " AND NOT EXISTS (SELECT 1 FROM job_runs r WHERE r.job_id = jobs.id)",
        (before,),
    )
    return deleted

"""Queries about jobs and their runs, and the counts of work that is pending or running besides
turns."""

from collections.abc import Mapping
from typing import Any

import apsw
import msgspec

from holdfast.core.ids import InboxId, PrincipalId, SessionId
from holdfast.core.jobs.job import Job, JobId, JobRun, JobSpec, RunCause, RunState, WaitingRun
from holdfast.core.messages.inbox import InboxRow, InboxState
from holdfast.core.messages.transcript import AssistantMessage
from holdfast.core.ops.status import MAX_FAILING_JOBS, FailingJob, Workload
from holdfast.store.sqlite import rows

Row = tuple[Any, ...]

JOB_COLUMNS = "j.id, j.principal, j.paused, j.next_due, j.made_at, j.body"
WAITING_RUNS = "inbox_id IS NULL AND skipped IS NULL"
_RUNNING_RUNS = "i.ended_at IS NULL"

_spec_decoder = msgspec.json.Decoder(JobSpec)
_STATES = {
    InboxState.QUEUED: RunState.WAITING,
    InboxState.RUNNING: RunState.RUNNING,
    InboxState.ANSWERED: RunState.ANSWERED,
    InboxState.FAILED: RunState.FAILED,
}

# The last is the body of what the run's turn said last.
_RUN_COLUMNS = """r.id, r.job_id, r.cause, r.due_at, r.made_at, r.skipped, r.inbox_id,
    i.state, i.reason, i.ended_at, i.session_id, i.turn_id, (
        SELECT m.body FROM steps p
        JOIN messages m ON m.session_id = p.session_id AND m.seq = p.message_seq
        WHERE p.turn_id = i.turn_id AND p.kind = 'model'
        ORDER BY p.seq DESC LIMIT 1
    )"""
_RUNS_QUERY = f"SELECT {_RUN_COLUMNS} FROM job_runs r LEFT JOIN inbox i ON i.id = r.inbox_id"


def decode_job(row: Row) -> Job:
    return Job(
        id=JobId(row[0]),
        principal=PrincipalId(row[1]),
        paused=bool(row[2]),
        next_due=row[3],
        made_at=row[4],
        spec=_spec_decoder.decode(row[5]),
    )


def job(cursor: apsw.Cursor, job_id: JobId) -> Job | None:
    found = cursor.execute(f"SELECT {JOB_COLUMNS} FROM jobs j WHERE id = ?", (job_id,)).fetchone()
    return None if found is None else decode_job(found)


def jobs(
    cursor: apsw.Cursor, *, principal: PrincipalId | None, limit: int, offset: int
) -> list[Job]:
    """All jobs, the oldest first."""
    found = cursor.execute(
        f"SELECT {JOB_COLUMNS} FROM jobs j WHERE (?1 IS NULL OR principal = ?1) ORDER BY id"
        " LIMIT ?2 OFFSET ?3",
        (principal, limit, offset),
    )
    return [decode_job(row) for row in found]


def due_jobs(cursor: apsw.Cursor, *, by: float, limit: int) -> list[Job]:
    found = cursor.execute(
        f"SELECT {JOB_COLUMNS} FROM jobs j INDEXED BY jobs_due"
        " WHERE next_due IS NOT NULL AND paused = 0 AND next_due <= ?"
        " ORDER BY next_due, id LIMIT ?",
        (by, limit),
    )
    return [decode_job(row) for row in found]


def next_due_job(cursor: apsw.Cursor) -> int | None:
    found = cursor.execute(
        "SELECT next_due FROM jobs INDEXED BY jobs_due"
        " WHERE next_due IS NOT NULL AND paused = 0 ORDER BY next_due LIMIT 1"
    ).fetchone()
    return None if found is None else int(str(found[0]))


def waiting_runs(cursor: apsw.Cursor, *, busy: tuple[JobId, ...], limit: int) -> list[WaitingRun]:
    """The oldest waiting run of each job that is not busy, the oldest first. Runs of a paused job
    keep waiting, except those that a person requested."""
    found = cursor.execute(
        f"SELECT r.id, r.cause, min(r.due_at), {JOB_COLUMNS}"
        " FROM job_runs r INDEXED BY job_runs_waiting JOIN jobs j ON j.id = r.job_id"
        f" WHERE {WAITING_RUNS} AND r.job_id NOT IN (SELECT value FROM json_each(?))"
        " AND (j.paused = 0 OR r.cause = 'asked')"
        " GROUP BY r.job_id ORDER BY min(r.due_at), r.job_id LIMIT ?",
        (msgspec.json.encode(busy).decode(), limit),
    )
    return [
        WaitingRun(id=row[0], cause=RunCause(row[1]), due_at=row[2], job=decode_job(row[3:]))
        for row in found
    ]


def count_waiting_runs(cursor: apsw.Cursor, job_id: JobId) -> int:
    found = cursor.execute(
        f"SELECT count(*) FROM job_runs WHERE job_id = ? AND {WAITING_RUNS}", (job_id,)
    ).fetchone()
    return 0 if found is None else int(str(found[0]))


def running_runs(cursor: apsw.Cursor) -> list[InboxRow]:
    """The inbox rows of runs that have begun and not ended."""
    found = cursor.execute(
        f"SELECT {', '.join(f'i.{each.strip()}' for each in rows.INBOX_COLUMNS.split(','))}"
        " FROM inbox i INDEXED BY inbox_open JOIN job_runs r ON r.inbox_id = i.id"
        f" WHERE {_RUNNING_RUNS} ORDER BY i.id"
    )
    return [rows.decode_inbox_row(row) for row in found]


def runs(cursor: apsw.Cursor, job_id: JobId, *, limit: int) -> list[JobRun]:
    """The runs of a job, the newest first."""
    found = cursor.execute(
        f"{_RUNS_QUERY} WHERE r.job_id = ?"
        " ORDER BY r.due_at DESC, r.made_at DESC, r.id DESC LIMIT ?",
        (job_id, limit),
    )
    return [_decode_run(row) for row in found]


# Skipped runs have no message.
_LAST_ENDED_RUN = """(SELECT r.id FROM job_runs r JOIN inbox i ON i.id = r.inbox_id
    WHERE r.job_id = {job} AND i.ended_at IS NOT NULL
    ORDER BY r.due_at DESC, r.made_at DESC, r.id DESC LIMIT 1)"""


def last_runs(cursor: apsw.Cursor, job_ids: tuple[JobId, ...]) -> Mapping[JobId, JobRun]:
    found = cursor.execute(
        f"{_RUNS_QUERY} WHERE r.id IN"
        f" (SELECT {_LAST_ENDED_RUN.format(job='x.value')} FROM json_each(?) x)",
        (msgspec.json.encode(job_ids).decode(),),
    )
    return {run.job_id: run for run in map(_decode_run, found)}


def failing_jobs(cursor: apsw.Cursor, *, since: float) -> tuple[FailingJob, ...]:
    found = cursor.execute(
        "SELECT j.id, j.body ->> '$.name', i.reason, i.ended_at FROM jobs j"
        f" JOIN job_runs l ON l.id = {_LAST_ENDED_RUN.format(job='j.id')}"
        " JOIN inbox i ON i.id = l.inbox_id"
        " WHERE j.paused = 0 AND i.state = 'failed' AND (j.next_due IS NOT NULL OR i.ended_at > ?)"
        " ORDER BY i.ended_at DESC LIMIT ?",
        (since, MAX_FAILING_JOBS),
    )
    return tuple(
        FailingJob(id=row[0], name=row[1], reason=row[2] or "", ended_at=row[3]) for row in found
    )


def job_run(cursor: apsw.Cursor, run_id: str) -> JobRun | None:
    found = cursor.execute(f"{_RUNS_QUERY} WHERE r.id = ?", (run_id,)).fetchone()
    return None if found is None else _decode_run(found)


def _decode_run(row: Row) -> JobRun:
    message = None if row[12] is None else rows.decode_message(row[12])
    return JobRun(
        id=row[0],
        job_id=JobId(row[1]),
        cause=RunCause(row[2]),
        due_at=row[3],
        made_at=row[4],
        state=_run_state(skipped=row[5], inbox_id=row[6], inbox_state=row[7]),
        reason=row[5] or row[8] or "",
        text=message.text if isinstance(message, AssistantMessage) else "",
        ended_at=row[9],
        inbox_id=None if row[6] is None else InboxId(row[6]),
        session_id=None if row[10] is None else SessionId(row[10]),
        turn_id=row[11],
    )


def _run_state(*, skipped: str | None, inbox_id: int | None, inbox_state: str | None) -> RunState:
    if skipped is not None:
        return RunState.SKIPPED
    if inbox_id is None:
        return RunState.WAITING
    if inbox_state is None:
        return RunState.SESSION_DELETED
    return _STATES.get(InboxState(inbox_state), RunState.STOPPED)


# Only processes of live runners: scanning all processes that ever ran would be slow.
_WORKLOAD_QUERY = """SELECT
    (SELECT count(*) FROM approvals INDEXED BY approvals_pending WHERE state = 'pending'),
    (SELECT count(*) FROM runners r JOIN processes p ON p.session_id = r.session_id
        WHERE p.ended_at IS NULL),
    (SELECT count(*) FROM jobs),
    (SELECT count(*) FROM jobs WHERE paused),
    (SELECT count(*) FROM job_runs INDEXED BY job_runs_waiting
        WHERE inbox_id IS NULL AND skipped IS NULL)"""


def workload(cursor: apsw.Cursor) -> Workload:
    for approvals, processes, jobs, paused, waiting in cursor.execute(_WORKLOAD_QUERY):
        return Workload(
            approvals=approvals,
            processes=processes,
            jobs=jobs,
            paused_jobs=paused,
            waiting_runs=waiting,
        )
    raise AssertionError("a row of counts is always there")

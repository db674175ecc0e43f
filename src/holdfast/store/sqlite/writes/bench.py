"""The workbench's rows: runners with their identity, and background processes."""

import apsw

from holdfast.core.ids import SessionId
from holdfast.core.sessions.session import ProcessRow, RunnerRow
from holdfast.store.sqlite import rows


def save_runner(cursor: apsw.Cursor, runner: RunnerRow) -> None:
    cursor.execute(
        f"INSERT OR REPLACE INTO runners ({rows.RUNNER_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)",
        (
            runner.session_id,
            runner.pid,
            runner.start_time,
            runner.outer_pid,
            runner.sandboxed,
            runner.started_at,
        ),
    )


def end_runner(cursor: apsw.Cursor, session_id: SessionId) -> None:
    cursor.execute("DELETE FROM runners WHERE session_id = ?", (session_id,))


def save_process(cursor: apsw.Cursor, process: ProcessRow) -> None:
    cursor.execute(
        f"INSERT OR REPLACE INTO processes ({rows.PROCESS_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            process.session_id,
            process.id,
            process.command,
            process.started_at,
            process.ended_at,
            process.exit_code,
            process.note,
        ),
    )

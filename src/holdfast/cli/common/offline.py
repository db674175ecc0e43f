"""Answers read commands from the store when no gateway runs, in the types of the API.

Holds the lock of the home while it reads.

Imports the store: import this module inside functions only.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import time
from typing import TypeVar

import msgspec

from holdfast.cli.common.connection import SESSION_LOOKUP_LIMIT, match_session
from holdfast.cli.search import SearchRequest
from holdfast.config import load
from holdfast.core.errors import HoldfastError
from holdfast.core.ids import SessionId
from holdfast.core.jobs.job import JobId
from holdfast.core.people.approval import OPERATOR
from holdfast.core.people.audit import AuditEntry, AuditFilter, AuditKind, AuditRow
from holdfast.core.people.memory import Notebook
from holdfast.core.ports.store import Store
from holdfast.core.ports.store_commands import RecordAudit
from holdfast.core.ports.store_queries import (
    GetJob,
    GetSession,
    GetTranscript,
    GetTurn,
    ListAudit,
    ListJobRuns,
    ListJobs,
    ListNotebooks,
    ListSessions,
    VerifyAudit,
)
from holdfast.core.sessions.search import SearchMatch, SearchQuery
from holdfast.core.turns.subagent import platform_from_label
from holdfast.server.api.views.audit import (
    AuditPage,
    AuditVerificationView,
    audit_verification_view,
    audit_view,
)
from holdfast.server.api.views.gateway import SearchHitView, SearchIndexView, search_index_view
from holdfast.server.api.views.jobs import JobRunView, JobView, job_view, run_view
from holdfast.server.api.views.memory import NotebookView, NoteView
from holdfast.server.api.views.sessions import (
    SessionDetail,
    SessionList,
    record_view,
    session_view,
    turn_view,
)
from holdfast.store.backup.restore_plan import PLAN_FILE
from holdfast.store.sqlite.file_check import has_wal
from holdfast.store.sqlite.store import SqliteStore
from holdfast.system.lock import HomeLock
from holdfast.system.paths import Paths

T = TypeVar("T")


def query_store(home: Path, query: Callable[[Store], Awaitable[T]], *, purpose: str) -> T | None:
    """What `ask` finds in the store; None: nothing was ever stored in this home.

    Raises `HomeInUse` when somebody else owns the data after all.
    """
    if not (_exists(Paths(home).db) or has_wal(Paths(home).db) or _exists(home / PLAN_FILE)):
        return None

    async def read() -> T:
        async with SqliteStore(Paths(home).db) as store:
            return await query(store)

    with HomeLock(home, purpose=purpose):
        return asyncio.run(read())


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except PermissionError:
        raise HoldfastError(
            "{path} may not be read by this user; ask as the user who runs the gateway.", path=path
        ) from None


_SESSIONS_PURPOSE = "holdfast sessions"


def read_stored_sessions(home: Path, *, limit: int, offset: int, subagents: bool) -> SessionList:
    async def ask(store: Store) -> SessionList:
        rows = await store.read(
            ListSessions(limit=limit + 1, offset=offset, include_subagents=subagents)
        )
        return SessionList(sessions=[*map(session_view, rows[:limit])], more=len(rows) > limit)

    return query_store(home, ask, purpose=_SESSIONS_PURPOSE) or SessionList(sessions=[], more=False)


def read_stored_session(home: Path, name: str) -> SessionDetail:
    """The session of that id or name; raises an error that says what to look at."""
    detail = query_store(
        home, lambda store: _read_session_detail(store, name), purpose=_SESSIONS_PURPOSE
    )
    if detail is None:
        raise HoldfastError(
            "There is no session {name}; `holdfast sessions list` has all.", name=name
        )
    return detail


async def _read_session_detail(store: Store, name: str) -> SessionDetail:
    row = await store.read(GetSession(session_id=SessionId(name)))
    if row is None:
        views = [*map(session_view, await store.read(ListSessions(limit=SESSION_LOOKUP_LIMIT)))]
        row = await store.read(GetSession(session_id=SessionId(match_session(name, views).id)))
    assert row is not None, "what is listed is there"
    records = await store.read(GetTranscript(session_id=row.id))
    turns = dict.fromkeys(record.turn_id for record in records if record.turn_id is not None)
    return SessionDetail(
        session=session_view(row),
        turns=[
            turn_view(turn)
            for turn_id in turns
            if (turn := await store.read(GetTurn(turn_id=turn_id)))
        ],
        records=[record_view(record) for record in records],
        more=False,
        live=None,
    )


_AUDIT_PURPOSE = "holdfast audit"
_AUDIT_EXPORT_BATCH = 500


def read_stored_audit(home: Path, query: dict[str, str | int | float], *, limit: int) -> AuditPage:
    async def ask(store: Store) -> AuditPage:
        rows = await store.read(
            ListAudit(where=msgspec.convert(query, AuditFilter), limit=limit + 1)
        )
        return AuditPage(rows=[audit_view(row) for row in rows[:limit]], more=len(rows) > limit)

    return _query_audit(home, ask) or AuditPage(rows=[], more=False)


def verify_stored_audit(home: Path) -> AuditVerificationView:
    async def ask(store: Store) -> AuditVerificationView:
        return audit_verification_view(await store.read(VerifyAudit()))

    nothing = AuditVerificationView(rows=0, first=1, last=0, head="", texts_deleted=0, broken=[])
    return _query_audit(home, ask) or nothing


def export_stored_audit(
    home: Path, *, as_format: str, write: Callable[[list[AuditRow]], None]
) -> None:
    """As `GET /api/v1/audit/export` does it: that it was taken along is the last row."""

    async def ask(store: Store) -> None:
        last = 0
        while rows := await store.read(
            ListAudit(where=AuditFilter(after=last), limit=_AUDIT_EXPORT_BATCH)
        ):
            last = rows[-1].seq
            write(rows)
        kind, facts = AuditKind.AUDIT_EXPORTED, {"format": as_format}
        await store.write(
            RecordAudit(entry=AuditEntry(kind=kind, actor=OPERATOR, at=time(), facts=facts))
        )

    _query_audit(home, ask)


def _query_audit(home: Path, query: Callable[[Store], Awaitable[T]]) -> T | None:
    return query_store(home, query, purpose=_AUDIT_PURPOSE)


_ALL_JOBS = 1_000_000
_JOBS_PURPOSE = "reading the jobs"


def read_stored_jobs(home: Path) -> list[JobView]:
    async def read(store: Store) -> list[JobView]:
        return [job_view(job, running=False) for job in await store.read(ListJobs(limit=_ALL_JOBS))]

    return query_store(home, read, purpose=_JOBS_PURPOSE) or []


def read_stored_job(home: Path, number: int) -> JobView:
    async def read(store: Store) -> JobView | None:
        job = await store.read(GetJob(job_id=JobId(number)))
        return None if job is None else job_view(job, running=False)

    return _read_known_job(home, number, read)


def read_stored_job_runs(home: Path, number: int, limit: int) -> list[JobRunView]:
    async def read(store: Store) -> list[JobRunView] | None:
        if await store.read(GetJob(job_id=JobId(number))) is None:
            return None
        return [
            run_view(run)
            for run in await store.read(ListJobRuns(job_id=JobId(number), limit=limit))
        ]

    return _read_known_job(home, number, read)


def _read_known_job(home: Path, number: int, read: Callable[[Store], Awaitable[T | None]]) -> T:
    found = query_store(home, read, purpose=_JOBS_PURPOSE)
    if found is None:
        raise HoldfastError(
            "There is no job {number}; `holdfast jobs list` has all.", number=number
        )
    return found


_ALL_NOTEBOOKS = 1_000_000


def read_stored_notebooks(home: Path) -> list[NotebookView]:
    room = load(home).settings.memory.max_chars

    async def read(store: Store) -> list[Notebook]:
        return await store.read(ListNotebooks(limit=_ALL_NOTEBOOKS))

    found = query_store(home, read, purpose="reading the notes")
    return [_notebook_view(notebook, room) for notebook in found or ()]


def _notebook_view(notebook: Notebook, max_chars: int) -> NotebookView:
    notes = [
        NoteView(id=note.id, topic=note.topic, text=note.text, changed_at=note.changed_at)
        for note in notebook.notes
    ]
    return NotebookView(
        owner=notebook.owner, off=notebook.off, used=notebook.used, max_chars=max_chars, notes=notes
    )


_SEARCH_PURPOSE = "holdfast search"


def search_stored_messages(
    home: Path, request: SearchRequest, *, since: float
) -> list[SearchHitView]:
    named = read_stored_session(home, request.session).session.id if request.session else None
    query = SearchQuery(
        words=request.words,
        limit=request.limit,
        session_id=SessionId(named) if named else None,
        platform=platform_from_label(request.platform),
        since=since,
    )

    async def ask(store: Store) -> list[SearchHitView]:
        return [_search_result_view(each) for each in await store.read(query)]

    return query_store(home, ask, purpose=_SEARCH_PURPOSE) or []


def rebuild_stored_index(home: Path) -> SearchIndexView:
    async def ask(store: Store) -> SearchIndexView:
        return search_index_view(await store.rebuild_search_index())

    nothing = SearchIndexView(messages=0, pending_sessions=0, bytes=0)
    return query_store(home, ask, purpose=_SEARCH_PURPOSE) or nothing


def _search_result_view(found: SearchMatch) -> SearchHitView:
    return SearchHitView(
        session=session_view(found.session),
        seq=found.seq,
        role=found.role,
        at=found.created_at,
        snippet=found.snippet,
        parts=list(found.pieces),
    )

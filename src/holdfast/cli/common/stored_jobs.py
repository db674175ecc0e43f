"""Jobs read from the store, where no gateway is running."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from holdfast.cli.common.offline import query_store
from holdfast.core.errors import HoldfastError
from holdfast.core.jobs.job import JobId
from holdfast.core.ports.protocols import Store
from holdfast.server.api.views.jobs import JobRunView, JobView, job_view, run_view

T = TypeVar("T")

_ALL_JOBS = 1_000_000
_JOBS_PURPOSE = "reading the jobs"


def read_stored_jobs(home: Path) -> list[JobView]:
    async def read(store: Store) -> list[JobView]:
        return [job_view(job, running=False) for job in await store.jobs(limit=_ALL_JOBS)]

    return query_store(home, read, purpose=_JOBS_PURPOSE) or []


def read_stored_job(home: Path, number: int) -> JobView:
    async def read(store: Store) -> JobView | None:
        job = await store.job(JobId(number))
        return None if job is None else job_view(job, running=False)

    return _read_known_job(home, number, read)


def read_stored_job_runs(home: Path, number: int, limit: int) -> list[JobRunView]:
    async def read(store: Store) -> list[JobRunView] | None:
        if await store.job(JobId(number)) is None:
            return None
        return [run_view(run) for run in await store.runs(JobId(number), limit=limit)]

    return _read_known_job(home, number, read)


def _read_known_job(home: Path, number: int, read: Callable[[Store], Awaitable[T | None]]) -> T:
    found = query_store(home, read, purpose=_JOBS_PURPOSE)
    if found is None:
        raise HoldfastError(f"There is no job {number}; `holdfast jobs list` has all.")
    return found

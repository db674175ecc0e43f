"""Jobs read from the store, where no gateway is running."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from holdfast.cli.common.offline import ask_store
from holdfast.core.errors import HoldfastError
from holdfast.core.jobs.job import JobId
from holdfast.core.ports.protocols import Store
from holdfast.server.api.views.jobs import JobView, RunView, job_view, run_view

T = TypeVar("T")

_ALL = 1_000_000
_PURPOSE = "reading the jobs"


def stored_jobs(home: Path) -> list[JobView]:
    async def read(store: Store) -> list[JobView]:
        return [job_view(job, running=False) for job in await store.jobs(limit=_ALL)]

    return ask_store(home, read, purpose=_PURPOSE) or []


def stored_job(home: Path, number: int) -> JobView:
    async def read(store: Store) -> JobView | None:
        job = await store.job(JobId(number))
        return None if job is None else job_view(job, running=False)

    return _there(home, number, read)


def stored_runs(home: Path, number: int, limit: int) -> list[RunView]:
    async def read(store: Store) -> list[RunView] | None:
        if await store.job(JobId(number)) is None:
            return None
        return [run_view(run) for run in await store.runs(JobId(number), limit=limit)]

    return _there(home, number, read)


def _there(home: Path, number: int, read: Callable[[Store], Awaitable[T | None]]) -> T:
    found = ask_store(home, read, purpose=_PURPOSE)
    if found is None:
        raise HoldfastError(f"There is no job {number}; `holdfast jobs list` has all.")
    return found

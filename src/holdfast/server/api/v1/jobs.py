"""Jobs over HTTP: made, listed, changed, run, stopped, and what became of their runs."""

import asyncio
from typing import Annotated

import msgspec
from aiohttp import web

from holdfast.core.jobs.job import (
    ChangeKind,
    Job,
    JobChange,
    JobId,
    JobRefused,
    RewrittenJob,
    WantedJob,
)
from holdfast.core.jobs.schedule import BadSchedule
from holdfast.core.messages.source import Source
from holdfast.core.people.approval import OPERATOR
from holdfast.core.people.audit import Act, AuditKind
from holdfast.gateway.inbound.authorise import principal_of
from holdfast.gateway.jobs.destinations import Person
from holdfast.gateway.jobs.jobs import Jobs
from holdfast.server.api.endpoint import Call, NoQuery
from holdfast.server.api.errors import bad, conflict, not_found
from holdfast.server.api.room import Room
from holdfast.server.api.views.jobs import JobChanged, JobList, NewJob, job_view, run_view
from holdfast.server.api.views.message_views import Stopped


class JobsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 50
    offset: Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)] = 0


class RunsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 20


async def list_jobs(room: Room, call: Call[JobsQuery, None]) -> web.Response:
    """Everybody's, the oldest first."""
    asked = call.query
    found = await room.store.jobs(limit=asked.limit + 1, offset=asked.offset)
    busy, shown = frozenset(_jobs(room).busy), found[: asked.limit]
    # In a thread: when a thousand jobs are due next is worked out by the calendar.
    views = await asyncio.to_thread(lambda: [job_view(j, running=j.id in busy) for j in shown])
    return room.say(JobList(jobs=views, more=len(found) > asked.limit))


async def add_job(room: Room, call: Call[NoQuery, NewJob]) -> web.Response:
    given = call.body
    wanted = WantedJob(
        when=given.when,
        text=given.text,
        name=given.name,
        zone=given.zone,
        to=given.to,
        silent=given.silent,
        missed=given.missed,
        overlap=given.overlap,
        limit=given.limit,
    )
    try:
        job = await _jobs(room).add(wanted, _operator(), key=room.new_id("job"))
    except BadSchedule as error:
        raise bad(str(error), param="when") from None
    except JobRefused as error:
        raise bad(str(error)) from None
    return room.say(job_view(job, running=False), status=201)


async def read_job(room: Room, call: Call[NoQuery, None]) -> web.Response:
    return _said(room, await _job(room, call.part("id")))


async def change_job(room: Room, call: Call[NoQuery, JobChanged]) -> web.Response:
    """One whose time has passed meanwhile cannot go on."""
    job = await _job(room, call.part("id"))
    if (wanted := call.body.rewritten) is not None:
        await _rewrite(room, job, wanted)
    if call.body.paused is not None:
        await _change(room, job, ChangeKind.PAUSE if call.body.paused else ChangeKind.RESUME)
    return _said(room, await _job(room, call.part("id")))


async def remove_job(room: Room, call: Call[NoQuery, None]) -> web.Response:
    await _change(room, await _job(room, call.part("id")), ChangeKind.REMOVE)
    return web.Response(status=204)


async def run_job(room: Room, call: Call[NoQuery, None]) -> web.Response:
    job = await _job(room, call.part("id"))
    try:
        run_id = await _jobs(room).run_now(job.id, _operator(), key=room.new_id("asked"))
    except JobRefused as error:
        raise conflict(str(error), code="at_work") from None
    run = await room.store.job_run(run_id)
    if run is None:
        raise not_found(f"job {job.id} was removed meanwhile.")
    return room.say(run_view(run), status=202)


async def stop_job(room: Room, call: Call[NoQuery, None]) -> web.Response:
    job = await _job(room, call.part("id"))
    return room.say(Stopped(stopped=await _jobs(room).stop_run(job.id, _operator())))


async def list_runs(room: Room, call: Call[RunsQuery, None]) -> web.Response:
    """The newest first."""
    job = await _job(room, call.part("id"))
    runs = await room.store.runs(job.id, limit=call.query.limit)
    return room.say([run_view(run) for run in runs])


async def _change(room: Room, job: Job, kind: ChangeKind) -> None:
    try:
        _, change = await _jobs(room).change(job.id, kind, _operator())
    except BadSchedule as error:
        raise conflict(str(error), code="over") from None
    except JobRefused as error:
        raise not_found(str(error)) from None
    await _commit(room, change)


async def _rewrite(room: Room, job: Job, wanted: RewrittenJob) -> None:
    if wanted.zone and wanted.when is None:
        raise bad("a zone is that of `when`: say both.", param="zone")
    try:
        change = await _jobs(room).rewrite(job.id, wanted, _operator())
    except BadSchedule as error:
        raise bad(str(error), param="when") from None
    except JobRefused as error:
        raise bad(str(error)) from None
    await _commit(room, change)


async def _commit(room: Room, change: JobChange) -> None:
    act = Act(
        kind=AuditKind.JOB_CHANGED,
        actor=OPERATOR,
        at=room.clock.now(),
        subject=str(change.job_id),
        facts={"change": change.kind.value},
    )
    await room.store.acting(act).change_job(change)
    _jobs(room).stirred()


async def _job(room: Room, name: str) -> Job:
    known = name.isascii() and name.isdigit() and len(name) <= 9
    job = await room.store.job(JobId(int(name))) if known else None
    if job is None:
        raise not_found(f"there is no job {name!r}; GET /api/v1/jobs lists them.")
    return job


def _said(room: Room, job: Job) -> web.Response:
    return room.say(job_view(job, running=job.id in _jobs(room).busy))


def _jobs(room: Room) -> Jobs:
    return room.gateway.house.jobs


def _operator() -> Person:
    """Whoever has the gateway's own token runs it; there is no chat to answer in."""
    source = Source(platform="api", chat_id="jobs", user_id="owner")
    principal = principal_of(source).id
    return Person(source=source, principal=principal, operates=True, has_chat=False)

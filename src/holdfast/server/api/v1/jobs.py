"""Jobs over HTTP: add, list, change, run, stop, and the history of their runs."""

import asyncio
from typing import Annotated

import msgspec
from aiohttp import web

from holdfast.core.jobs.job import (
    Job,
    JobChange,
    JobChangeKind,
    JobId,
    JobRefused,
    JobRequest,
    JobUpdate,
)
from holdfast.core.jobs.schedule import InvalidSchedule
from holdfast.core.messages.source import Source
from holdfast.core.people.approval import OPERATOR
from holdfast.core.people.audit import AuditEntry, AuditKind
from holdfast.core.ports.store_queries import GetJob, GetJobRun, ListJobRuns, ListJobs, ListLastRuns
from holdfast.gateway.access import principal_of
from holdfast.gateway.jobs.service import JobRequester, JobService
from holdfast.server.api.context import ApiContext
from holdfast.server.api.endpoint import ApiCall, Endpoint, NoQuery
from holdfast.server.api.errors import bad_request, conflict, not_found
from holdfast.server.api.views.jobs import (
    JobList,
    JobParams,
    JobPatch,
    JobRunView,
    JobView,
    job_view,
    run_view,
)
from holdfast.server.api.views.sessions import StopResult


class JobsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 50
    offset: Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)] = 0


class JobRunsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 20


async def list_jobs(context: ApiContext, call: ApiCall[JobsQuery, None]) -> web.Response:
    """Of all users, the oldest first."""
    asked = call.query
    found = await context.store.read(ListJobs(limit=asked.limit + 1, offset=asked.offset))
    busy, shown = frozenset(_job_service(context).running.ids), found[: asked.limit]
    last = await context.store.read(ListLastRuns(job_ids=[job.id for job in shown]))
    # In a thread: computing the next times of a thousand jobs takes long.
    views = await asyncio.to_thread(
        lambda: [job_view(j, running=j.id in busy, last_run=last.get(j.id)) for j in shown]
    )
    return context.respond(JobList(jobs=views, more=len(found) > asked.limit))


async def add_job(context: ApiContext, call: ApiCall[NoQuery, JobParams]) -> web.Response:
    given = call.body
    request = JobRequest(
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
        job = await _job_service(context).add(
            request, _operator(), key=context.runtime.new_id("job")
        )
    except InvalidSchedule as error:
        raise bad_request(error, param="when") from None
    except JobRefused as error:
        raise bad_request(error) from None
    return context.respond(job_view(job, running=False, last_run=None), status=201)


async def read_job(context: ApiContext, call: ApiCall[NoQuery, None]) -> web.Response:
    return await _job_response(context, await _find_job(context, call.path_param("id")))


async def change_job(context: ApiContext, call: ApiCall[NoQuery, JobPatch]) -> web.Response:
    """A job without a next time cannot be resumed."""
    job = await _find_job(context, call.path_param("id"))
    if (update := call.body.as_update) is not None:
        await _update_job(context, job, update)
    if call.body.paused is not None:
        await _change_state(
            context, job, JobChangeKind.PAUSE if call.body.paused else JobChangeKind.RESUME
        )
    return await _job_response(context, await _find_job(context, call.path_param("id")))


async def remove_job(context: ApiContext, call: ApiCall[NoQuery, None]) -> web.Response:
    await _change_state(
        context, await _find_job(context, call.path_param("id")), JobChangeKind.REMOVE
    )
    return web.Response(status=204)


async def run_job(context: ApiContext, call: ApiCall[NoQuery, None]) -> web.Response:
    job = await _find_job(context, call.path_param("id"))
    try:
        run_id = await _job_service(context).run_now(
            job.id, _operator(), key=context.runtime.new_id("asked")
        )
    except JobRefused as error:
        raise conflict(error, code="already_running") from None
    run = await context.store.read(GetJobRun(run_id=run_id))
    if run is None:
        raise not_found("Job {job} was removed meanwhile.", job=job.id)
    return context.respond(run_view(run), status=202)


async def stop_job(context: ApiContext, call: ApiCall[NoQuery, None]) -> web.Response:
    job = await _find_job(context, call.path_param("id"))
    return context.respond(
        StopResult(stopped=await _job_service(context).stop_run(job.id, _operator()))
    )


async def list_job_runs(context: ApiContext, call: ApiCall[JobRunsQuery, None]) -> web.Response:
    """The newest first."""
    job = await _find_job(context, call.path_param("id"))
    runs = await context.store.read(ListJobRuns(job_id=job.id, limit=call.query.limit))
    return context.respond([run_view(run) for run in runs])


async def _change_state(context: ApiContext, job: Job, kind: JobChangeKind) -> None:
    try:
        _, change = await _job_service(context).prepare_change(job.id, kind, _operator())
    except InvalidSchedule as error:
        raise conflict(error, code="job_over") from None
    except JobRefused as error:
        raise not_found(error) from None
    await _commit(context, change)


async def _update_job(context: ApiContext, job: Job, update: JobUpdate) -> None:
    if update.zone and update.when is None:
        raise bad_request("zone: a zone belongs to `when`. Give both.", param="zone")
    try:
        change = await _job_service(context).prepare_update(job.id, update, _operator())
    except InvalidSchedule as error:
        raise bad_request(error, param="when") from None
    except JobRefused as error:
        raise bad_request(error) from None
    await _commit(context, change)


async def _commit(context: ApiContext, change: JobChange) -> None:
    act = AuditEntry(
        kind=AuditKind.JOB_CHANGED,
        actor=OPERATOR,
        at=context.runtime.clock.now(),
        subject=str(change.job_id),
        facts={"change": change.kind.value},
    )
    await context.store.write(change, audit=act)


async def _find_job(context: ApiContext, name: str) -> Job:
    known = name.isascii() and name.isdigit() and len(name) <= 9
    job = await context.store.read(GetJob(job_id=JobId(int(name)))) if known else None
    if job is None:
        raise not_found("There is no job {job!r}; GET /api/v1/jobs lists them.", job=name)
    return job


async def _job_response(context: ApiContext, job: Job) -> web.Response:
    last = await context.store.read(ListLastRuns(job_ids=[job.id]))
    running = job.id in _job_service(context).running
    return context.respond(job_view(job, running=running, last_run=last.get(job.id)))


def _job_service(context: ApiContext) -> JobService:
    return context.gateway.jobs


def _operator() -> JobRequester:
    """The owner of the gateway; there is no chat to answer in."""
    source = Source(platform="api", chat_id="jobs", user_id="owner")
    principal = principal_of(source).id
    return JobRequester(source=source, principal=principal, is_operator=True, has_chat=False)


_JOB = "/jobs/{id}"

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/jobs",
        summary="All jobs, the oldest first.",
        handler=list_jobs,
        read_only=True,
        query=JobsQuery,
        response_type=JobList,
    ),
    Endpoint(
        method="POST",
        path="/jobs",
        summary="Add a job.",
        handler=add_job,
        read_only=False,
        request_type=JobParams,
        response_type=JobView,
        statuses=(201,),
    ),
    Endpoint(
        method="GET",
        path=_JOB,
        summary="One job.",
        handler=read_job,
        read_only=True,
        response_type=JobView,
    ),
    Endpoint(
        method="PATCH",
        path=_JOB,
        summary="Pause, resume or change a job.",
        handler=change_job,
        read_only=False,
        request_type=JobPatch,
        response_type=JobView,
        error_statuses=(409,),
    ),
    Endpoint(
        method="DELETE",
        path=_JOB,
        summary="Remove a job with its history; a running run continues to its end.",
        handler=remove_job,
        read_only=False,
        statuses=(204,),
    ),
    Endpoint(
        method="POST",
        path=f"{_JOB}/run",
        summary="Run a job now, as if it were due.",
        handler=run_job,
        read_only=False,
        response_type=JobRunView,
        statuses=(202,),
        error_statuses=(409,),
    ),
    Endpoint(
        method="POST",
        path=f"{_JOB}/stop",
        summary="Stop the run of a job, and drop the waiting ones.",
        handler=stop_job,
        read_only=False,
        response_type=StopResult,
    ),
    Endpoint(
        method="GET",
        path=f"{_JOB}/runs",
        summary="The runs of a job, the newest first.",
        handler=list_job_runs,
        read_only=True,
        query=JobRunsQuery,
        response_type=list[JobRunView],
    ),
)

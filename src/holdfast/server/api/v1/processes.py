"""Background processes over HTTP: a session's or everybody's, listed, looked at and ended."""

import asyncio
import logging
from itertools import chain

import msgspec
from aiohttp import web

from holdfast.core.errors import RunnerError
from holdfast.core.ids import SessionId
from holdfast.core.people.approval import OPERATOR
from holdfast.core.people.audit import ASKED, AuditEntry, AuditKind
from holdfast.core.ports.sandbox import ProcessInfo, SandboxRefused
from holdfast.core.sessions.session import ProcessRow
from holdfast.server.api.endpoint import ApiCall, NoQuery
from holdfast.server.api.errors import not_found
from holdfast.server.api.room import ApiContext
from holdfast.server.api.v1.process_views import ProcessListItem, ProcessView

log = logging.getLogger(__name__)

_MAX_CONCURRENT = 8  # workbenches that are asked at once
_TIMEOUT = 5.0  # seconds that each of them has
_LOG_EXTRA = {"action": "processes"}


async def list_processes(context: ApiContext, call: ApiCall[NoQuery, None]) -> web.Response:
    row = await context.find_session(call.path_param("id"))
    return context.respond(
        [_process_view(process) for process in await context.runners.processes(row.id)]
    )


async def list_all_processes(context: ApiContext, call: ApiCall[NoQuery, None]) -> web.Response:
    """Of the sessions that have a workbench now; one that says nothing in time is left out."""
    asked = asyncio.Semaphore(_MAX_CONCURRENT)

    async def those_of(session_id: SessionId) -> list[ProcessRow]:
        try:
            async with asked, asyncio.timeout(_TIMEOUT):
                return await context.runners.processes(session_id)
        except (RunnerError, TimeoutError, OSError) as error:
            log.warning("What runs in %s is not known: %s", session_id, error, extra=_LOG_EXTRA)
            return []

    known = await context.store.runners()
    found = await asyncio.gather(*(those_of(runner.session_id) for runner in known))
    rows = sorted(chain.from_iterable(found), key=lambda row: row.started_at, reverse=True)
    return context.respond([_list_item(row) for row in rows])


async def read_process(context: ApiContext, call: ApiCall[NoQuery, None]) -> web.Response:
    session_id, process = await _find_process(context, call)
    try:
        log = await context.runners.sandbox(session_id).read_process_log(process.id)
    except SandboxRefused as error:
        raise not_found(str(error)) from None
    return context.respond(_process_view(log.process, log.output))


async def end_process(context: ApiContext, call: ApiCall[NoQuery, None]) -> web.Response:
    session_id, process = await _find_process(context, call)
    if process.ended_at is not None:
        return context.respond(_process_view(process))
    await context.store.record_audit(
        AuditEntry(
            kind=AuditKind.PROCESS_KILLED,
            actor=OPERATOR,
            at=context.clock.now(),
            session_id=session_id,
            subject=process.id,
            outcome=ASKED,
            words={"command": process.command},
        )
    )
    try:
        return context.respond(
            _process_view(await context.runners.sandbox(session_id).kill_process(process.id))
        )
    except SandboxRefused as error:
        raise not_found(str(error)) from None


async def _find_process(
    context: ApiContext, call: ApiCall[NoQuery, None]
) -> tuple[SessionId, ProcessRow]:
    """Looked up before the workbench is asked, which would start one for a session without."""
    row, name = await context.find_session(call.path_param("id")), call.path_param("process")
    for process in await context.runners.processes(row.id):
        if process.id == name:
            return row.id, process
    raise not_found(f"session {row.id} has no process {name!r}.")


def _list_item(row: ProcessRow) -> ProcessListItem:
    fields = msgspec.structs.asdict(_process_view(row))
    return ProcessListItem(session_id=row.session_id, cpu=row.cpu, memory=row.memory, **fields)


def _process_view(process: ProcessInfo | ProcessRow, output: str = "") -> ProcessView:
    return ProcessView(
        id=process.id,
        command=process.command,
        running=process.ended_at is None,
        started_at=process.started_at,
        ended_at=process.ended_at,
        exit_code=process.exit_code,
        note=process.note,
        output=output,
    )

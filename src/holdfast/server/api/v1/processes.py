"""Background processes over HTTP: a session's or everybody's, listed, looked at and ended."""

import asyncio
import logging
from itertools import chain

import msgspec
from aiohttp import web

from holdfast.core.errors import RunnerError
from holdfast.core.ids import SessionId
from holdfast.core.people.approval import OPERATOR
from holdfast.core.people.audit import ASKED, Act, AuditKind
from holdfast.core.ports.sandbox import BenchRefused, ProcessInfo
from holdfast.core.sessions.session import ProcessRow
from holdfast.server.api.endpoint import Call, NoQuery
from holdfast.server.api.errors import not_found
from holdfast.server.api.room import Room
from holdfast.server.api.v1.process_views import ProcessLine, ProcessView

log = logging.getLogger(__name__)

_TOGETHER = 8  # workbenches that are asked at once
_PATIENCE = 5.0  # seconds that each of them has
_ABOUT = {"action": "processes"}


async def list_processes(room: Room, call: Call[NoQuery, None]) -> web.Response:
    row = await room.session(call.part("id"))
    return room.say([_view(process) for process in await room.runners.processes(row.id)])


async def list_all(room: Room, call: Call[NoQuery, None]) -> web.Response:
    """Of the sessions that have a workbench now; one that says nothing in time is left out."""
    asked = asyncio.Semaphore(_TOGETHER)

    async def those_of(session_id: SessionId) -> list[ProcessRow]:
        try:
            async with asked, asyncio.timeout(_PATIENCE):
                return await room.runners.processes(session_id)
        except (RunnerError, TimeoutError, OSError) as error:
            log.warning("What runs in %s is not known: %s", session_id, error, extra=_ABOUT)
            return []

    known = await room.store.runners()
    found = await asyncio.gather(*(those_of(runner.session_id) for runner in known))
    rows = sorted(chain.from_iterable(found), key=lambda row: row.started_at, reverse=True)
    return room.say([_line(row) for row in rows])


async def read_process(room: Room, call: Call[NoQuery, None]) -> web.Response:
    session_id, process = await _found(room, call)
    try:
        log = await room.runners.bench(session_id).read_process_log(process.id)
    except BenchRefused as error:
        raise not_found(str(error)) from None
    return room.say(_view(log.process, log.output))


async def end_process(room: Room, call: Call[NoQuery, None]) -> web.Response:
    session_id, process = await _found(room, call)
    if process.ended_at is not None:
        return room.say(_view(process))
    await room.store.record_act(
        Act(
            kind=AuditKind.PROCESS_KILLED,
            actor=OPERATOR,
            at=room.clock.now(),
            session_id=session_id,
            subject=process.id,
            outcome=ASKED,
            words={"command": process.command},
        )
    )
    try:
        return room.say(_view(await room.runners.bench(session_id).kill_process(process.id)))
    except BenchRefused as error:
        raise not_found(str(error)) from None


async def _found(room: Room, call: Call[NoQuery, None]) -> tuple[SessionId, ProcessRow]:
    """Looked up before the workbench is asked, which would start one for a session without."""
    row, name = await room.session(call.part("id")), call.part("process")
    for process in await room.runners.processes(row.id):
        if process.id == name:
            return row.id, process
    raise not_found(f"session {row.id} has no process {name!r}.")


def _line(row: ProcessRow) -> ProcessLine:
    fields = msgspec.structs.asdict(_view(row))
    return ProcessLine(session_id=row.session_id, cpu=row.cpu, memory=row.memory, **fields)


def _view(process: ProcessInfo | ProcessRow, output: str = "") -> ProcessView:
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

"""What runs in sandboxes, over HTTP: processes, running tool calls, files of a workspace."""

import asyncio
import logging
import mimetypes
import os
from collections.abc import Iterator
from itertools import chain
from typing import Annotated
from urllib.parse import quote

import msgspec
from aiohttp import web

from holdfast.core.errors import RunnerError
from holdfast.core.ids import SessionId, TurnId
from holdfast.core.messages.transcript import summarise_arguments
from holdfast.core.people.approval import OPERATOR
from holdfast.core.people.audit import ASKED, AuditEntry, AuditKind
from holdfast.core.ports.sandbox import ProcessInfo, SandboxRefused
from holdfast.core.ports.store_commands import RecordAudit
from holdfast.core.ports.store_queries import ListRunners
from holdfast.core.sessions.session import ProcessRow
from holdfast.gateway.live.live_step import RunningCall
from holdfast.runner.workspace import NoSuchFile, Workspace
from holdfast.server.api.context import ApiContext
from holdfast.server.api.endpoint import ApiCall, Endpoint, Media, NoQuery
from holdfast.server.api.errors import not_found

log = logging.getLogger(__name__)


class ProcessView(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    command: str
    running: bool
    started_at: float
    ended_at: float | None
    exit_code: int | None
    note: str = ""  # why there is no exit code although it ended
    output: str = ""  # its end, when one process is asked for


class ProcessListItem(ProcessView, frozen=True, kw_only=True):
    """A process with its session. `cpu`: seconds of processor time, `memory`: bytes, both with its
    child processes; null: it has ended, or its runner does not say."""

    session_id: str
    cpu: float | None
    memory: int | None


class RunningCallView(msgspec.Struct, frozen=True, kw_only=True):
    """A running tool call with its session and the end of its output. `summary`: its arguments in
    one line."""

    session_id: str
    turn_id: str
    call_id: str
    name: str
    summary: str
    started_at: float
    output: str


_MAX_CONCURRENT = 8  # sandboxes that are asked at once
_TIMEOUT = 5.0  # seconds that each of them has
_LOG_EXTRA = {"action": "processes"}


async def list_processes(context: ApiContext, call: ApiCall[NoQuery, None]) -> web.Response:
    row = await context.find_session(call.path_param("id"))
    return context.respond(
        [_process_view(process) for process in await context.runners.processes(row.id)]
    )


async def list_all_processes(context: ApiContext, call: ApiCall[NoQuery, None]) -> web.Response:
    """Of the sessions with a sandbox; one that does not answer in time is left out."""
    asked = asyncio.Semaphore(_MAX_CONCURRENT)

    async def processes_of(session_id: SessionId) -> list[ProcessRow]:
        try:
            async with asked, asyncio.timeout(_TIMEOUT):
                return await context.runners.processes(session_id)
        except (RunnerError, TimeoutError, OSError) as error:
            log.warning(
                "Could not list the processes of session %s: %s",
                session_id,
                error,
                extra=_LOG_EXTRA,
            )
            return []

    known = await context.store.read(ListRunners())
    found = await asyncio.gather(*(processes_of(runner.session_id) for runner in known))
    rows = sorted(chain.from_iterable(found), key=lambda row: row.started_at, reverse=True)
    return context.respond([_list_item(row) for row in rows])


async def read_process(context: ApiContext, call: ApiCall[NoQuery, None]) -> web.Response:
    session_id, process = await _find_process(context, call)
    try:
        log = await context.runners.sandbox(session_id).read_process_log(process.id)
    except SandboxRefused as error:
        raise not_found(error) from None
    return context.respond(_process_view(log.process, log.output))


async def end_process(context: ApiContext, call: ApiCall[NoQuery, None]) -> web.Response:
    session_id, process = await _find_process(context, call)
    if process.ended_at is not None:
        return context.respond(_process_view(process))
    await context.store.write(
        RecordAudit(
            entry=AuditEntry(
                kind=AuditKind.PROCESS_KILLED,
                actor=OPERATOR,
                at=context.runtime.clock.now(),
                session_id=session_id,
                subject=process.id,
                outcome=ASKED,
                words={"command": process.command},
            )
        )
    )
    try:
        return context.respond(
            _process_view(await context.runners.sandbox(session_id).kill_process(process.id))
        )
    except SandboxRefused as error:
        raise not_found(error) from None


async def _find_process(
    context: ApiContext, call: ApiCall[NoQuery, None]
) -> tuple[SessionId, ProcessRow]:
    """Looked up first, because asking the sandbox would start one for a session without."""
    row, name = await context.find_session(call.path_param("id")), call.path_param("process")
    for process in await context.runners.processes(row.id):
        if process.id == name:
            return row.id, process
    raise not_found("Session {session} has no process {process!r}.", session=row.id, process=name)


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


_MAX_CALLS = 100  # calls in one answer
_MAX_OUTPUT = 4000  # characters of what each has written


async def list_calls(context: ApiContext, call: ApiCall[NoQuery, None]) -> web.Response:
    """The oldest first, at most `_MAX_CALLS`."""
    running = sorted(_running_calls(context), key=lambda line: line.started_at)
    return context.respond(running[:_MAX_CALLS])


def _running_calls(context: ApiContext) -> Iterator[RunningCallView]:
    for lane in context.gateway.lanes:
        if (turn := lane.running_turn) is not None:
            yield from (
                _call_view(lane.session_id, turn.turn_id, each)
                for each in turn.context.output.live.calls
            )


def _call_view(session_id: SessionId, turn_id: TurnId, running: RunningCall) -> RunningCallView:
    return RunningCallView(
        session_id=session_id,
        turn_id=turn_id,
        call_id=running.id,
        name=running.name,
        summary=summarise_arguments(running.arguments),
        started_at=running.since,
        output=running.output[-_MAX_OUTPUT:],
    )


_CHUNK_SIZE = 256 * 1024
_IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


class FileView(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    size: int
    modified_at: float


class FilesQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: Annotated[str, msgspec.Meta(max_length=500)] = ""


async def read_files(context: ApiContext, call: ApiCall[FilesQuery, None]) -> web.StreamResponse:
    row, path = await context.find_session(call.path_param("id")), call.query.path
    try:
        found = await asyncio.to_thread(Workspace(context.home, row.id).list_or_open, path)
    except NoSuchFile as error:
        if not path:
            return context.respond([])  # the session has no workspace yet
        raise not_found("{error}.", error=error) from None
    if isinstance(found, int):
        return await _send_file(call.request, found, path)
    views = [FileView(path=e.path, size=e.size, modified_at=e.modified_at) for e in found]
    return context.respond(views)


async def _send_file(request: web.Request, fd: int, path: str) -> web.StreamResponse:
    """As many bytes as the file had at the start; it may grow or shrink meanwhile."""
    with os.fdopen(fd, "rb") as file:
        left = os.fstat(fd).st_size
        response = web.StreamResponse(headers=_headers(path))
        response.content_length = left
        await response.prepare(request)
        while left and (chunk := await asyncio.to_thread(file.read, min(left, _CHUNK_SIZE))):
            left -= len(chunk)
            await response.write(chunk)
        if left and request.transport is not None:
            request.transport.abort()  # shorter than announced
            return response
        await response.write_eof()
    return response


def _headers(path: str) -> dict[str, str]:
    # An agent may have written anything: downloaded, not opened, and sandboxed if opened.
    name = quote(path.rpartition("/")[2], safe="", errors="replace")
    return {
        "Content-Type": _content_type(path),
        "Content-Disposition": f"attachment; filename*=UTF-8''{name}",
        "Content-Security-Policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
        "Cache-Control": "no-store",
    }


def _content_type(path: str) -> str:
    guessed = mimetypes.guess_type(path)[0] or ""
    if guessed in _IMAGE_TYPES:
        return guessed
    return "text/plain; charset=utf-8" if guessed.startswith("text/") else Media.FILE


_SESSION = "/sessions/{id}"
_PROCESS = f"{_SESSION}/processes/{{process}}"

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path=f"{_SESSION}/processes",
        summary="The background processes of a conversation.",
        handler=list_processes,
        read_only=True,
        response_type=list[ProcessView],
    ),
    Endpoint(
        method="GET",
        path="/processes",
        summary="The background processes of all conversations, the newest first.",
        handler=list_all_processes,
        read_only=True,
        response_type=list[ProcessListItem],
    ),
    Endpoint(
        method="GET",
        path="/calls",
        summary="The tool calls that run now in all conversations, the oldest first.",
        handler=list_calls,
        read_only=True,
        response_type=list[RunningCallView],
    ),
    Endpoint(
        method="GET",
        path=_PROCESS,
        summary="One process, with the end of its output.",
        handler=read_process,
        read_only=True,
        response_type=ProcessView,
    ),
    Endpoint(
        method="DELETE",
        path=_PROCESS,
        summary="End a process with all that it started.",
        handler=end_process,
        read_only=False,
        response_type=ProcessView,
    ),
    Endpoint(
        method="GET",
        path=f"{_SESSION}/files",
        summary="The files of the workspace, or the content of the one that has this path.",
        handler=read_files,
        read_only=True,
        query=FilesQuery,
        response_type=list[FileView],
        response_media=(Media.JSON, Media.FILE),
    ),
)

"""Transcripts over HTTP: page by page, exported as JSON Lines, and imported from them."""

import asyncio
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
from aiohttp import web

from holdfast.core.ids import SessionId
from holdfast.core.messages.source import build_session_key
from holdfast.core.messages.transcript import TranscriptRecord
from holdfast.core.people.approval import OPERATOR
from holdfast.core.people.audit import AuditEntry, AuditKind
from holdfast.core.ports.store_commands import ImportSession
from holdfast.core.ports.store_queries import ListRecords
from holdfast.core.sessions.session import ImportedSession
from holdfast.platforms.web import platform as web_platform
from holdfast.server.api.context import ApiContext
from holdfast.server.api.endpoint import ApiCall, Endpoint, Media, NoQuery, Reach
from holdfast.server.api.errors import bad_request
from holdfast.server.api.views.sessions import RecordView, SessionView, TranscriptPage, record_view

PAGE_SIZE = 100  # records that are read and written at once

Seq = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
OutputLimit = Annotated[int, msgspec.Meta(ge=1, le=10_000_000)]
_record_decoder = msgspec.json.Decoder(RecordView)


class TranscriptQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The first after a seq, or the last before one; with neither, the newest. `max_tool_output`:
    the most characters of the output of each tool."""

    before: Seq | None = None
    after: Seq | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 200
    max_tool_output: OutputLimit | None = None


class _ExportHeader(msgspec.Struct, frozen=True):
    """The first line of an export, as far as an import uses it."""

    id: str
    title: Annotated[str, msgspec.Meta(max_length=1000)] = ""


async def read_transcript(
    context: ApiContext, call: ApiCall[TranscriptQuery, None]
) -> web.Response:
    row, asked = await context.find_session(call.path_param("id")), call.query
    if asked.after is not None and asked.before is not None:
        raise bad_request("before: give either before or after, not both.", param="before")
    records = await context.store.read(
        ListRecords(
            session_id=row.id, limit=asked.limit + 1, after=asked.after, before=asked.before
        )
    )
    more = len(records) > asked.limit
    if more:  # the one too many is at the far end
        records = records[:-1] if asked.after is not None else records[1:]
    views = [record_view(record, asked.max_tool_output) for record in records]
    return context.respond(TranscriptPage(records=views, more=more))


async def export_session(context: ApiContext, call: ApiCall[NoQuery, None]) -> web.StreamResponse:
    row = await context.find_session(call.path_param("id"))
    response = web.StreamResponse(
        headers={
            "Content-Type": Media.LINES,
            "Content-Disposition": f'attachment; filename="{row.id}.jsonl"',
            "Cache-Control": "no-store",
        }
    )
    await response.prepare(call.request)
    await response.write(context.encode(context.session_view(row)) + b"\n")
    seq = 0
    while records := await context.store.read(
        ListRecords(session_id=row.id, limit=PAGE_SIZE, after=seq)
    ):
        seq = records[-1].seq
        lines = (context.encode(record_view(record)) + b"\n" for record in records)
        await response.write(b"".join(lines))
    await response.write_eof()
    return response


async def import_session(context: ApiContext, call: ApiCall[NoQuery, None]) -> web.Response:
    body = await call.request.read()
    head, records = await asyncio.to_thread(_parse_export, body)
    session_id = SessionId(context.runtime.new_id("s"))
    kind, at = AuditKind.SESSION_IMPORTED, context.runtime.clock.now()
    act = AuditEntry(kind=kind, actor=OPERATOR, at=at, session_id=session_id, subject=session_id)
    imported = ImportedSession(
        id=session_id,
        route=build_session_key(web_platform.web_source(context.runtime.new_id("chat"))),
        title=head.title[:200],
        records=records,
        at=at,
    )
    await context.store.write(ImportSession(imported=imported), audit=act)
    return context.respond(await context.load_session_view(session_id), status=201)


def _parse_export(body: bytes) -> tuple[_ExportHeader, tuple[TranscriptRecord, ...]]:
    lines = ((number, line) for number, line in enumerate(body.split(b"\n"), 1) if line.strip())
    first = next(lines, None)
    if first is None:
        raise bad_request("The body is empty. It must be JSON Lines as /export returns them.")
    head = _decode_line(first[1], first[0], msgspec.json.Decoder(_ExportHeader))
    return head, tuple(_parse_records(lines))


def _parse_records(lines: Iterator[tuple[int, bytes]]) -> Iterator[TranscriptRecord]:
    for seq, (number, line) in enumerate(lines, 1):
        view: RecordView = _decode_line(line, number, _record_decoder)
        yield TranscriptRecord(seq=seq, turn_id=None, message=view.message, created_at=view.at)


def _decode_line(line: bytes, number: int, decoder: "msgspec.json.Decoder[Any]") -> Any:
    try:
        return decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise bad_request(
            "Line {number} is not the session as /export returns it: {error}"
            if number == 1
            else "Line {number} is not a record as /export returns it: {error}",
            number=number,
            error=error,
        ) from None


_SESSION = "/sessions/{id}"

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="POST",
        path="/sessions/import",
        summary="Import an exported conversation as a new session.",
        handler=import_session,
        read_only=False,
        request_type=str,
        request_media=Media.LINES,
        response_type=SessionView,
        statuses=(201,),
    ),
    Endpoint(
        method="GET",
        path=f"{_SESSION}/transcript",
        summary="A page of a transcript: after a seq, or before one.",
        handler=read_transcript,
        read_only=True,
        reach=Reach.SESSION,
        query=TranscriptQuery,
        response_type=TranscriptPage,
    ),
    Endpoint(
        method="GET",
        path=f"{_SESSION}/export",
        summary="JSON Lines: the session, then its records.",
        handler=export_session,
        read_only=True,
        response_type=str,
        response_media=(Media.LINES,),
    ),
)

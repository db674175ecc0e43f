"""Transcripts over HTTP: page by page, as JSON Lines, and taken in from JSON Lines."""

import asyncio
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
from aiohttp import web

from holdfast.core.ids import SessionId
from holdfast.core.messages.message import Record
from holdfast.core.messages.source import build_session_key
from holdfast.core.people.approval import OPERATOR
from holdfast.core.people.audit import Act, AuditKind
from holdfast.core.sessions.session import ImportedSession
from holdfast.platforms.web import platform as web_platform
from holdfast.server.api.endpoint import Call, Media, NoQuery
from holdfast.server.api.errors import bad
from holdfast.server.api.room import Room
from holdfast.server.api.views.session_views import RecordView, Transcript, record_view

PAGE = 100  # records that are read and written at once, while others wait

Seq = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
Cut = Annotated[int, msgspec.Meta(ge=1, le=10_000_000)]
_line = msgspec.json.Decoder(RecordView)


class PageQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The first after a seq, or the last before one; with neither, the last there are. `cut`: so
    many characters of what each tool has printed."""

    before: Seq | None = None
    after: Seq | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 200
    cut: Cut | None = None


class _Head(msgspec.Struct, frozen=True):
    """What is taken of an exported session's first line."""

    id: str
    title: Annotated[str, msgspec.Meta(max_length=1000)] = ""


async def read_transcript(room: Room, call: Call[PageQuery, None]) -> web.Response:
    row, asked = await room.session(call.part("id")), call.query
    if asked.after is not None and asked.before is not None:
        raise bad("before and after are two directions; give one of them.", param="before")
    records = await room.store.records(
        row.id, limit=asked.limit + 1, after=asked.after, before=asked.before
    )
    more = len(records) > asked.limit
    if more:  # the one too many is at the far end
        records = records[:-1] if asked.after is not None else records[1:]
    views = [record_view(record, asked.cut) for record in records]
    return room.say(Transcript(records=views, more=more))


async def export_session(room: Room, call: Call[NoQuery, None]) -> web.StreamResponse:
    row = await room.session(call.part("id"))
    response = web.StreamResponse(
        headers={
            "Content-Type": Media.LINES,
            "Content-Disposition": f'attachment; filename="{row.id}.jsonl"',
            "Cache-Control": "no-store",
        }
    )
    await response.prepare(call.request)
    await response.write(room.encode(room.view_of(row)) + b"\n")
    seq = 0
    while records := await room.store.records(row.id, limit=PAGE, after=seq):
        seq = records[-1].seq
        lines = (room.encode(record_view(record)) + b"\n" for record in records)
        await response.write(b"".join(lines))
    await response.write_eof()
    return response


async def import_session(room: Room, call: Call[NoQuery, None]) -> web.Response:
    body = await call.request.read()
    head, records = await asyncio.to_thread(_read, body)
    session_id = SessionId(room.new_id("s"))
    kind, at = AuditKind.SESSION_IMPORTED, room.clock.now()
    act = Act(kind=kind, actor=OPERATOR, at=at, session_id=session_id, subject=session_id)
    await room.store.acting(act).import_session(
        ImportedSession(
            id=session_id,
            route=build_session_key(web_platform.source(room.new_id("chat"))),
            title=head.title[:200],
            records=records,
            at=at,
        )
    )
    room.gateway.house.feeds.changed(session_id)
    return room.say(await room.view(session_id), status=201)


def _read(body: bytes) -> tuple[_Head, tuple[Record, ...]]:
    lines = ((number, line) for number, line in enumerate(body.split(b"\n"), 1) if line.strip())
    first = next(lines, None)
    if first is None:
        raise bad("the body is empty; it must be JSON Lines as /export gives them.")
    head = _decoded(first[1], first[0], msgspec.json.Decoder(_Head))
    return head, tuple(_records(lines))


def _records(lines: Iterator[tuple[int, bytes]]) -> Iterator[Record]:
    for seq, (number, line) in enumerate(lines, 1):
        view: RecordView = _decoded(line, number, _line)
        yield Record(seq=seq, turn_id=None, message=view.message, created_at=view.at)


def _decoded(line: bytes, number: int, decoder: "msgspec.json.Decoder[Any]") -> Any:
    try:
        return decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        what = "the session" if number == 1 else "a record"
        raise bad(f"line {number} is not {what} as /export gives it: {error}") from None

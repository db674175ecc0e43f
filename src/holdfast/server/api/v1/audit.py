"""The audit over HTTP: its rows page by page, all of them as a file, and whether they hold."""

from typing import Annotated, Literal

import msgspec
from aiohttp import web

from holdfast.core.people.approval import OPERATOR
from holdfast.core.people.audit import Act, AuditFilter, AuditKind, AuditRow
from holdfast.core.people.audit_csv import HEAD, csv_line
from holdfast.server.api.endpoint import Call, Media, NoQuery
from holdfast.server.api.errors import bad
from holdfast.server.api.room import Room
from holdfast.server.api.views.audit import AuditPage, AuditVerified, audit_view

_PIECE = 500  # rows of one write: what is encoded then holds the event loop up

Number = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Time = Annotated[float, msgspec.Meta(ge=0, le=1e12)]
Words = Annotated[str, msgspec.Meta(max_length=200)]


class AuditAsked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`kind`: a whole one (`tool.call`) or the part before the dot (`tool`). `actor`: those that
    have it in them. `text`: wherever it stands. `after`, `before`: by `seq`. `since`: by time."""

    kind: Words = ""
    actor: Words = ""
    session: Words = ""
    turn: Words = ""
    text: Words = ""
    since: Time | None = None
    after: Number | None = None
    before: Number | None = None

    @property
    def wanted(self) -> AuditFilter:
        return AuditFilter(
            kind=self.kind,
            actor=self.actor,
            session=self.session,
            turn=self.turn,
            text=self.text,
            since=self.since,
            after=self.after,
            before=self.before,
        )


class AuditQuery(AuditAsked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 100


class ExportQuery(AuditAsked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: Literal["jsonl", "csv"] = "jsonl"


async def list_audit(room: Room, call: Call[AuditQuery, None]) -> web.Response:
    asked = call.query
    if asked.after is not None and asked.before is not None:
        raise bad("before and after are two directions; give one of them.", param="before")
    rows = await room.store.audit(asked.wanted, limit=asked.limit + 1)
    views = [audit_view(row) for row in rows[: asked.limit]]
    return room.say(AuditPage(rows=views, more=len(rows) > asked.limit))


async def export_audit(room: Room, call: Call[ExportQuery, None]) -> web.StreamResponse:
    """All of it, the oldest first, as it was when this was asked for: that somebody took it along
    is a row of its own, behind those."""
    asked = call.query
    lines = asked.format == "jsonl"
    end = await _noted(room, asked)
    response = web.StreamResponse(
        headers={
            "Content-Type": Media.LINES if lines else f"{Media.CSV}; charset=utf-8",
            "Content-Disposition": f'attachment; filename="audit.{asked.format}"',
            "Cache-Control": "no-store",
        }
    )
    await response.prepare(call.request)
    if not lines:
        await response.write(HEAD.encode())
    wanted = msgspec.structs.replace(asked.wanted, before=end, after=asked.after or 0)
    while rows := await room.store.audit(wanted, limit=_PIECE):
        wanted = msgspec.structs.replace(wanted, after=rows[-1].seq)
        await response.write(b"".join(_line(room, row, lines=lines) for row in rows))
    await response.write_eof()
    return response


async def _noted(room: Room, asked: ExportQuery) -> int:
    """The seq of the row that says so, or the one where what is wanted ends before that."""
    facts = {"format": asked.format}
    kind, at = AuditKind.AUDIT_EXPORTED, room.clock.now()
    await room.store.record_act(Act(kind=kind, actor=OPERATOR, at=at, facts=facts))
    newest = await room.store.audit(AuditFilter(kind=kind), limit=1)
    return min(newest[0].seq, asked.before or newest[0].seq)


def _line(room: Room, row: AuditRow, *, lines: bool) -> bytes:
    if lines:
        return room.encode(audit_view(row)) + b"\n"
    return room.redact(csv_line(row)).encode()


async def verify_audit(room: Room, call: Call[NoQuery, None]) -> web.Response:
    """Reads every row."""
    found = await room.store.verify_audit()
    return room.say(AuditVerified(**msgspec.structs.asdict(found)))

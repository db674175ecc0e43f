"""The audit log over HTTP: pages, export, and verification of its hash chain."""

from typing import Annotated, Literal

import msgspec
from aiohttp import web

from holdfast.core.people.approval import OPERATOR
from holdfast.core.people.audit import (
    AuditEntry,
    AuditFilter,
    AuditKind,
    AuditRow,
    csv_header,
    format_csv_row,
)
from holdfast.core.ports.store_commands import RecordAudit
from holdfast.core.ports.store_queries import ListAudit, VerifyAudit
from holdfast.server.api.context import ApiContext
from holdfast.server.api.endpoint import ApiCall, Endpoint, Media, NoQuery
from holdfast.server.api.errors import bad_request
from holdfast.server.api.views.audit import (
    AuditPage,
    AuditVerificationView,
    audit_verification_view,
    audit_view,
)

_ROWS_PER_WRITE = 500  # rows of one write; encoding them blocks the event loop

Number = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Time = Annotated[float, msgspec.Meta(ge=0, le=1e12)]
ShortText = Annotated[str, msgspec.Meta(max_length=200)]


class AuditCriteria(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`kind`: a whole one (`tool.call`) or the part before the dot (`tool`). `actor`: those that
    have it in them. `text`: anywhere in the row. `after`, `before`: by `seq`. `since`: by time."""

    kind: ShortText = ""
    actor: ShortText = ""
    session: ShortText = ""
    turn: ShortText = ""
    text: ShortText = ""
    since: Time | None = None
    after: Number | None = None
    before: Number | None = None

    @property
    def as_filter(self) -> AuditFilter:
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


class AuditQuery(AuditCriteria, frozen=True, kw_only=True, forbid_unknown_fields=True):
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 100


class AuditExportQuery(AuditCriteria, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: Literal["jsonl", "csv"] = "jsonl"


async def list_audit(context: ApiContext, call: ApiCall[AuditQuery, None]) -> web.Response:
    asked = call.query
    if asked.after is not None and asked.before is not None:
        raise bad_request("before: give either before or after, not both.", param="before")
    rows = await context.store.read(ListAudit(where=asked.as_filter, limit=asked.limit + 1))
    views = [audit_view(row) for row in rows[: asked.limit]]
    return context.respond(AuditPage(rows=views, more=len(rows) > asked.limit))


async def export_audit(
    context: ApiContext, call: ApiCall[AuditExportQuery, None]
) -> web.StreamResponse:
    """All rows, the oldest first, as of the request. The export itself is a row after those."""
    asked = call.query
    lines = asked.format == "jsonl"
    end = await _record_export(context, asked)
    response = web.StreamResponse(
        headers={
            "Content-Type": Media.LINES if lines else f"{Media.CSV}; charset=utf-8",
            "Content-Disposition": f'attachment; filename="audit.{asked.format}"',
            "Cache-Control": "no-store",
        }
    )
    await response.prepare(call.request)
    if not lines:
        await response.write(csv_header().encode())
    audit_filter = msgspec.structs.replace(asked.as_filter, before=end, after=asked.after or 0)
    while rows := await context.store.read(ListAudit(where=audit_filter, limit=_ROWS_PER_WRITE)):
        audit_filter = msgspec.structs.replace(audit_filter, after=rows[-1].seq)
        await response.write(b"".join(_encode_row(context, row, jsonl=lines) for row in rows))
    await response.write_eof()
    return response


async def _record_export(context: ApiContext, asked: AuditExportQuery) -> int:
    """The seq of the row about the export, or `before` if that is earlier."""
    facts = {"format": asked.format}
    kind, at = AuditKind.AUDIT_EXPORTED, context.runtime.clock.now()
    await context.store.write(
        RecordAudit(entry=AuditEntry(kind=kind, actor=OPERATOR, at=at, facts=facts))
    )
    newest = await context.store.read(ListAudit(where=AuditFilter(kind=kind), limit=1))
    return min(newest[0].seq, asked.before or newest[0].seq)


def _encode_row(context: ApiContext, row: AuditRow, *, jsonl: bool) -> bytes:
    if jsonl:
        return context.encode(audit_view(row)) + b"\n"
    return context.gateway.redact(format_csv_row(row)).encode()


async def verify_audit(context: ApiContext, call: ApiCall[NoQuery, None]) -> web.Response:
    """Reads every row."""
    found = await context.store.read(VerifyAudit())
    return context.respond(audit_verification_view(found))


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/audit",
        summary="Who asked, who allowed it, what was done and with what effect, the newest first.",
        handler=list_audit,
        read_only=True,
        query=AuditQuery,
        response_type=AuditPage,
    ),
    Endpoint(
        method="GET",
        path="/audit/export",
        summary="The audit as a file, the oldest row first. The export is a row itself.",
        handler=export_audit,
        read_only=False,
        query=AuditExportQuery,
        response_type=str,
        response_media=(Media.LINES, Media.CSV),
    ),
    Endpoint(
        method="GET",
        path="/audit/verify",
        summary="Whether the rows of the audit are as they were written; every one is read.",
        handler=verify_audit,
        read_only=True,
        response_type=AuditVerificationView,
    ),
)

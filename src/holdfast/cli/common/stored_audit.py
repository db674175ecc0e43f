"""The audit with no gateway running: the store under the home's lock."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from time import time
from typing import TypeVar

import msgspec

from holdfast.cli.common.offline import query_store
from holdfast.core.people.approval import OPERATOR
from holdfast.core.people.audit import AuditEntry, AuditFilter, AuditKind, AuditRow
from holdfast.core.ports.protocols import Store
from holdfast.server.api.views.audit import AuditPage, AuditVerificationView, audit_view

_AUDIT_PURPOSE = "holdfast audit"
_AUDIT_EXPORT_BATCH = 500

T = TypeVar("T")


def read_stored_audit(home: Path, query: dict[str, str | int | float], *, limit: int) -> AuditPage:
    async def ask(store: Store) -> AuditPage:
        rows = await store.audit(msgspec.convert(query, AuditFilter), limit=limit + 1)
        return AuditPage(rows=[audit_view(row) for row in rows[:limit]], more=len(rows) > limit)

    return _query_audit(home, ask) or AuditPage(rows=[], more=False)


def verify_stored_audit(home: Path) -> AuditVerificationView:
    async def ask(store: Store) -> AuditVerificationView:
        return AuditVerificationView(**msgspec.structs.asdict(await store.verify_audit()))

    nothing = AuditVerificationView(rows=0, first=1, last=0, head="", texts_deleted=0, broken=[])
    return _query_audit(home, ask) or nothing


def export_stored_audit(
    home: Path, *, as_format: str, write: Callable[[list[AuditRow]], None]
) -> None:
    """As `GET /api/v1/audit/export` does it: that it was taken along is the last row."""

    async def ask(store: Store) -> None:
        last = 0
        while rows := await store.audit(AuditFilter(after=last), limit=_AUDIT_EXPORT_BATCH):
            last = rows[-1].seq
            write(rows)
        kind, facts = AuditKind.AUDIT_EXPORTED, {"format": as_format}
        await store.record_audit(AuditEntry(kind=kind, actor=OPERATOR, at=time(), facts=facts))

    _query_audit(home, ask)


def _query_audit(home: Path, query: Callable[[Store], Awaitable[T]]) -> T | None:
    return query_store(home, query, purpose=_AUDIT_PURPOSE)

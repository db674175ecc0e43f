"""The audit with no gateway running: the store under the home's lock."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from time import time
from typing import TypeVar

import msgspec

from holdfast.cli.common.offline import ask_store
from holdfast.core.people.approval import OPERATOR
from holdfast.core.people.audit import Act, AuditFilter, AuditKind, AuditRow
from holdfast.core.ports.protocols import Store
from holdfast.server.api.views.audit import AuditPage, AuditVerified, audit_view

PURPOSE = "holdfast audit"
_PIECE = 500

T = TypeVar("T")


def stored_page(home: Path, wanted: dict[str, str | int | float], *, limit: int) -> AuditPage:
    async def ask(store: Store) -> AuditPage:
        rows = await store.audit(msgspec.convert(wanted, AuditFilter), limit=limit + 1)
        return AuditPage(rows=[audit_view(row) for row in rows[:limit]], more=len(rows) > limit)

    return _asked(home, ask) or AuditPage(rows=[], more=False)


def stored_verified(home: Path) -> AuditVerified:
    async def ask(store: Store) -> AuditVerified:
        return AuditVerified(**msgspec.structs.asdict(await store.verify_audit()))

    nothing = AuditVerified(rows=0, first=1, last=0, head="", forgotten=0, broken=[])
    return _asked(home, ask) or nothing


def stored_export(home: Path, *, as_format: str, write: Callable[[list[AuditRow]], None]) -> None:
    """As `GET /api/v1/audit/export` does it: that it was taken along is the last row."""

    async def ask(store: Store) -> None:
        last = 0
        while rows := await store.audit(AuditFilter(after=last), limit=_PIECE):
            last = rows[-1].seq
            write(rows)
        kind, facts = AuditKind.AUDIT_EXPORTED, {"format": as_format}
        await store.record_act(Act(kind=kind, actor=OPERATOR, at=time(), facts=facts))

    _asked(home, ask)


def _asked(home: Path, ask: Callable[[Store], Awaitable[T]]) -> T | None:
    return ask_store(home, ask, purpose=PURPOSE)

"""Wire types of the audit log."""

import msgspec

from holdfast.core.people.audit import AuditCheckResult, AuditRow, AuditValue


class AuditView(msgspec.Struct, frozen=True, kw_only=True):
    """Who (`actor`) did what (`kind`, `subject`), with what effect (`outcome`), and details.
    `texts_deleted`: the texts were deleted with their session, `detail` has the rest. `hash`: over
    this row and the one before it."""

    seq: int
    at: float
    kind: str
    actor: str
    session_id: str | None
    turn_id: str | None
    subject: str
    outcome: str
    detail: dict[str, AuditValue]
    texts_deleted: bool
    hash: str


class AuditPage(msgspec.Struct, frozen=True, kw_only=True):
    """The newest first; with `after`, those that follow that row, in their order. `more`: there
    are others in that direction."""

    rows: list[AuditView]
    more: bool


class AuditVerificationView(msgspec.Struct, frozen=True, kw_only=True):
    """`head`: the hash of the last row; stored elsewhere, it proves later that no rows were removed
    from the end. `broken`: what is wrong, and where; empty: nothing."""

    rows: int
    first: int
    last: int
    head: str
    texts_deleted: int
    broken: list[str]


def audit_view(row: AuditRow) -> AuditView:
    return AuditView(
        seq=row.seq,
        at=row.at,
        kind=row.kind,
        actor=row.actor,
        session_id=row.session_id,
        turn_id=row.turn_id,
        subject=row.subject,
        outcome=row.outcome,
        detail={**row.facts, **(row.words or {})},
        texts_deleted=row.forgotten,
        hash=row.hash,
    )


def audit_verification_view(result: AuditCheckResult) -> AuditVerificationView:
    return AuditVerificationView(
        rows=result.rows,
        first=result.first,
        last=result.last,
        head=result.head,
        texts_deleted=result.forgotten,
        broken=list(result.broken),
    )

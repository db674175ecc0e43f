"""Denials: who was sent away without a word, in the audit, and only so many of them."""

import asyncio
import logging

from holdfast.core.errors import StoreError
from holdfast.core.people.audit import REFUSED, AuditEntry, AuditKind
from holdfast.core.ports.protocols import Clock, Store

log = logging.getLogger(__name__)

MAX_ROWS = 20  # rows of one place in a stretch of time; whoever knocks must not fill the disk
WINDOW = 3600.0  # seconds


class DeniedAccessAudit:
    """Owns who has a row already in the present stretch of time, by place. Each is in it once, and
    once there are too many the last row says that others are not."""

    def __init__(self, store: Store, *, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._since = clock.now()
        self._recorded: dict[str, set[str]] = {}

    async def record(self, kind: AuditKind, actor: str, *, account: str, subject: str = "") -> None:
        """Returns when it is durable, or is none of those that are kept. A store that fails keeps
        nobody from being sent away."""
        if (more := self._count(account, actor)) is None:
            return
        act = AuditEntry(
            kind=kind,
            actor=actor,
            at=self._clock.now(),
            subject=subject or account,
            outcome=REFUSED,
            facts={"others_not_listed": True} if more else {},
        )
        try:
            await asyncio.shield(self._store.record_audit(act))
        except StoreError as error:
            log.warning(
                "A refusal is not in the audit: %s",
                error,
                extra={"action": "denied_access_not_audited"},
            )

    def _count(self, account: str, actor: str) -> bool | None:
        """Whether this is the last one that has a row; None: it has none."""
        now = self._clock.now()
        if not 0 <= now - self._since < WINDOW:
            self._since = now
            self._recorded.clear()
        known = self._recorded.setdefault(account, set())
        if actor in known or len(known) >= MAX_ROWS:
            return None
        known.add(actor)
        return len(known) == MAX_ROWS

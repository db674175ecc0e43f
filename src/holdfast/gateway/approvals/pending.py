"""The approvals of one turn: pending, being decided or ended; wakes the lane that waits."""

import asyncio
from collections.abc import Callable, Iterable, Sequence

import msgspec

from holdfast.core.ids import ApprovalId, CallId, DeliveryId, SessionId
from holdfast.core.people.approval import (
    Approval,
    ApprovalDecision,
    ApprovalEnd,
    ApprovalState,
    approval_transition,
)
from holdfast.core.ports.runtime import Clock
from holdfast.core.ports.store import StoreWriter


class PendingApprovals:
    """Owns the approvals of one turn in this process, and wakes the lane that waits.

    An end is *claimed* in the instant of the decision, so that one of two simultaneous answers wins
    and the other gets a reply. It is *settled* when it is durable, and only then the turn may
    continue. An end that was claimed and could not be written is pending again.
    """

    def __init__(self, rows: Iterable[Approval] = ()) -> None:
        self._rows: dict[ApprovalId, Approval] = {row.id: row for row in rows}
        self._claimed: dict[ApprovalId, Approval] = {}
        self._wake = asyncio.Event()
        self._withdrawn = False
        # Approvals that ended before this process started are new to a turn that has not run since.
        self.changed = any(not row.pending for row in self._rows.values())

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def all(self) -> Sequence[Approval]:
        """All approvals in the order of their requests, with claimed ends."""
        return [self._claimed.get(row.id, row) for row in self._rows.values()]

    @property
    def pending(self) -> Sequence[Approval]:
        """Those that can still be decided."""
        return [approval for approval in self.all if approval.pending]

    def find(self, approval_id: ApprovalId) -> Approval | None:
        row = self._rows.get(approval_id)
        return None if row is None else self._claimed.get(approval_id, row)

    def for_call(self, call_id: CallId) -> Approval | None:
        """The approval of a call, as it is stored."""
        return next((row for row in self._rows.values() if row.call_id == call_id), None)

    def for_delivery(self, delivery_id: DeliveryId) -> Sequence[Approval]:
        return [row for row in self.pending if row.delivery_id == delivery_id]

    def add(self, approvals: Iterable[Approval], *, at: float) -> None:
        """Add durable requests; of a turn that has ended meanwhile, they are withdrawn."""
        self._rows |= {approval.id: approval for approval in approvals}
        if self._withdrawn:
            self.withdraw(at=at)

    def session_of(self, end: ApprovalEnd) -> SessionId:
        return self._rows[end.id].session_id

    def claim(self, ends: Iterable[ApprovalEnd], *, at: float) -> None:
        """Decide, now; each must be pending."""
        for end in ends:
            row = self._rows[end.id]
            self._claimed[end.id] = msgspec.structs.replace(
                row,
                state=approval_transition(self._claimed.get(end.id, row).state, end.state),
                scope=end.scope,
                by=end.by,
                comment=end.comment,
                ended_at=at,
            )

    def settle(self, decision: ApprovalDecision, *, durable: bool) -> None:
        """The claimed ends are durable, or their approvals are pending again."""
        for end in decision.ends:
            claimed = self._claimed.pop(end.id, None)
            if durable and claimed is not None:
                self._rows[end.id] = claimed
                self.changed = True
        self.wake()

    def withdraw(self, *, at: float) -> None:
        """Withdraw all requests; the commit that ends the turn ends the rows."""
        self._withdrawn = True
        if self._rows:  # most turns ask for nothing
            self.claim(
                [ApprovalEnd(id=row.id, state=ApprovalState.WITHDRAWN) for row in self.pending],
                at=at,
            )

    def restore_withdrawn(self) -> None:
        """The turn continues after all: what was withdrawn is pending again."""
        self._withdrawn = False
        withdrawn = [
            row.id for row in self._claimed.values() if row.state is ApprovalState.WITHDRAWN
        ]
        for approval_id in withdrawn:
            del self._claimed[approval_id]

    def ends_due(self, now: float) -> list[ApprovalEnd]:
        """The ends of approvals that cannot be answered any more: too late, or undeliverable."""
        ends = []
        for row in self.pending:
            if row.request_failed:
                ends.append(ApprovalEnd(id=row.id, state=ApprovalState.UNDELIVERABLE))
            elif row.deadline <= now:
                ends.append(ApprovalEnd(id=row.id, state=ApprovalState.EXPIRED))
        return ends

    def mark_resumed(self) -> None:
        """The turn runs again, and reads the approvals itself."""
        self.changed = False

    def wake(self) -> None:
        """Make the waiting lane check again."""
        self._wake.set()

    async def wait_for_change(self, *, now: float) -> None:
        """Returns when something has changed, or when the next deadline has come."""
        deadlines = [row.deadline for row in self.pending]
        wait = max(0.0, min(deadlines) - now) if deadlines else None
        try:
            async with asyncio.timeout(wait):
                await self._wake.wait()
        except TimeoutError:
            return
        finally:
            self._wake.clear()


async def wait_for_decision(
    approvals: PendingApprovals,
    *,
    writes: StoreWriter,
    clock: Clock,
    interrupted: Callable[[], bool],
) -> None:
    """Returns when the end of an approval is durable, or when `interrupted` says so, which is
    asked each time the lane is woken."""
    while not (interrupted() or approvals.changed):
        now = clock.now()
        if ends := approvals.ends_due(now):
            await end_approvals(approvals, ends, writes=writes, at=now)
        else:
            await approvals.wait_for_change(now=now)


async def end_approvals(
    approvals: PendingApprovals, ends: Sequence[ApprovalEnd], *, writes: StoreWriter, at: float
) -> None:
    """End approvals that no person has decided."""
    decision = ApprovalDecision(ends=tuple(ends), session_id=approvals.session_of(ends[0]), at=at)
    approvals.claim(ends, at=at)
    await writes.write(decision)

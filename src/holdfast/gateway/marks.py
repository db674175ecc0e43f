"""Marks: which messages bear our sign, because they came while a turn ran and wait for theirs."""

from collections.abc import Iterable

from holdfast.core.ids import InboxId
from holdfast.core.inbox import BusyMode, InboxRow
from holdfast.core.source import Author
from holdfast.gateway.delivery import Delivery
from holdfast.gateway.doors import Doors
from holdfast.gateway.mark import Mark
from holdfast.gateway.quiet import Quiet
from holdfast.gateway.replies import address_of


class Marks:
    """Owns the marks of the messages that wait, from the instant in which they do until they
    begin or end. One that was dropped on its way, or failed, is remembered and not tried again."""

    def __init__(self, doors: Doors, delivery: Delivery, *, quiet: Quiet) -> None:
        self._doors = doors
        self._delivery = delivery
        self._quiet = quiet
        self._marks: dict[InboxId, Mark] = {}

    def put(self, row: InboxRow, *, again: bool) -> None:
        """It waits. `again`: that was decided before, so that an earlier process may have marked
        it."""
        if row.id not in self._marks and self._wanted(row):
            mark = Mark(address_of(row), row.inbound.message_id, stands=again)
            self._marks[row.id] = mark
            self._delivery.show(mark, behind=True)

    def begun(self, rows: Iterable[InboxRow]) -> None:
        """Their turn begins. That one was decided about, and not here, is the one trace of a mark
        that an earlier process may have put there."""
        for row in rows:
            waited = row.decision in (BusyMode.QUEUE, BusyMode.STEER)
            if row.id not in self._marks and waited and self._wanted(row):
                mark = Mark(address_of(row), row.inbound.message_id, stands=True)
                self._marks[row.id] = mark
            self.ended(row.id)

    def ended(self, inbox_id: InboxId) -> None:
        """It waits no longer, whatever became of it."""
        if (mark := self._marks.pop(inbox_id, None)) is not None:
            mark.wanted = False
            self._delivery.take_back(mark)

    def _wanted(self, row: InboxRow) -> bool:
        """What a job or the operator says has no message there."""
        source = row.inbound.source
        can = self._doors.capabilities_of(source.platform, source.account)
        if row.inbound.run is not None or source.author is Author.OPERATOR:
            return False
        return can.reactions and not can.fetchable and not self._quiet.at(source)

"""Signs: which messages bear ours, because they came while a turn ran and wait for theirs."""

import asyncio
from collections.abc import Iterable

from holdfast.core.ids import InboxId
from holdfast.core.messages.inbox import BusyMode, InboxRow
from holdfast.core.messages.outbox import Address
from holdfast.core.messages.source import Author
from holdfast.core.ports.protocols import Clock, Reacting
from holdfast.gateway.accounts.registry import Doors
from holdfast.gateway.outbound.delivery import Delivery
from holdfast.gateway.outbound.quiet_chats import Quiet
from holdfast.gateway.outbound.replies import address_of
from holdfast.gateway.outbound.sign import Sign


class Signs:
    """Owns the signs of the messages that wait, from the instant in which they do until they begin
    or end, and until when an account is to have none."""

    def __init__(self, doors: Doors, delivery: Delivery, *, quiet: Quiet, clock: Clock) -> None:
        self._doors = doors
        self._delivery = delivery
        self._quiet = quiet
        self._clock = clock
        self._signs: dict[InboxId, Sign] = {}
        self._peace: dict[tuple[str, str], float] = {}

    def put(self, row: InboxRow, *, again: bool) -> None:
        """It waits. `again`: that was decided before, so that an earlier process may have put a
        sign on it. One that cannot be put at once is left out."""
        if row.id in self._signs or not self._wanted(row):
            return
        sign = self._add(row, stands=again)
        if self._delivery.at_leisure(sign.address) and not self._in_peace(sign.address):
            self._delivery.sign(sign)

    def found(self, row: InboxRow) -> None:
        """It waits, and no turn runs here. That something was decided about it is the one trace of
        a sign that an earlier process may have put there."""
        waited = row.decision in (BusyMode.QUEUE, BusyMode.STEER)
        if waited and row.id not in self._signs and self._is_theirs(row):
            self._add(row, stands=True)

    def begun(self, rows: Iterable[InboxRow]) -> None:
        """Their turn begins."""
        for row in rows:
            self.ended(row.id)

    def ended(self, inbox_id: InboxId) -> None:
        """It waits no longer, whatever became of it."""
        if (sign := self._signs.pop(inbox_id, None)) is not None:
            sign.wanted = False
            if sign.due:
                self._delivery.sign(sign)

    def _add(self, row: InboxRow, *, stands: bool) -> Sign:
        message_id = row.inbound.message_id
        sign = Sign(address_of(row), message_id, stands=stands, trouble=self._trouble)
        self._signs[row.id] = sign
        return sign

    def _trouble(self, sign: Sign, seconds: float) -> None:
        account = (sign.address.platform, sign.address.account)
        until = self._clock.monotonic() + seconds
        self._peace[account] = max(until, self._peace.get(account, 0.0))
        for each in self._signs.values():
            if self._in_peace(each.address):
                each.leave_out()
        if not sign.wanted and sign.due:  # who sees it takes it for a message that waits
            asyncio.get_running_loop().call_later(seconds, self._delivery.sign, sign)

    def _in_peace(self, address: Address) -> bool:
        until = self._peace.get((address.platform, address.account), 0.0)
        return self._clock.monotonic() < until

    def _wanted(self, row: InboxRow) -> bool:
        source = row.inbound.source
        can = self._doors.capabilities_of(source.platform, source.account)
        return can.reactions and self._is_theirs(row) and not self._quiet.at(source)

    def _is_theirs(self, row: InboxRow) -> bool:
        """A person has said it, in a message that can bear one: what a job, a child or the operator
        says has none there."""
        inbound = row.inbound
        if inbound.note or inbound.run is not None or inbound.source.author is Author.OPERATOR:
            return False
        door = self._doors.find(address_of(row))
        return isinstance(door, Reacting) and not door.capabilities.fetchable

"""Converts the end of a turn into the ends of its messages and deliveries. `Turn.end` ends a
turn."""

from collections.abc import Collection, Iterable, Iterator, Sequence

import msgspec

from holdfast.core.ids import InboxId
from holdfast.core.messages.inbox import OPEN_STATES, InboxEnd, InboxRow, InboxState
from holdfast.core.messages.outbox import NewDelivery
from holdfast.core.ports.store import StoreReader
from holdfast.core.ports.store_queries import GetInboxRow
from holdfast.core.turns.turn import EndTurn
from holdfast.gateway.outbound.stream_factory import stream_leftover

STOPPED_BY_USER = "stopped by its user"  # stored, and compared with stored reasons


def message_end(row: InboxRow, state: InboxState, reason: str = "") -> InboxEnd:
    return InboxEnd(inbox_id=row.id, state=state, reason=reason, ends_session=row.ends_session)


def superseded_ends(rows: Iterable[InboxRow]) -> Iterator[InboxEnd]:
    for row in rows:
        yield message_end(row, InboxState.SUPERSEDED, STOPPED_BY_USER)


def merged_ends(rows: Iterable[InboxRow], *, into: InboxId) -> Iterator[InboxEnd]:
    for row in rows:
        yield InboxEnd(inbox_id=row.id, state=InboxState.MERGED, merged_into=into)


def answered_ends(rows: Sequence[InboxRow]) -> Iterator[InboxEnd]:
    """Ends of an answered turn: the last message is answered, the others are merged into it."""
    yield from merged_ends(rows[:-1], into=rows[-1].id)
    yield message_end(rows[-1], InboxState.ANSWERED)


def failed_ends(rows: Sequence[InboxRow], why: str) -> Iterator[InboxEnd]:
    """Ends of a failed turn: the sender of the last message gets the reason, the others are merged
    into that message."""
    for row in rows[-1:]:
        yield from merged_ends(rows[:-1], into=row.id)
        yield message_end(row, InboxState.FAILED, why)


async def without_ended_messages(end: EndTurn, reads: StoreReader) -> EndTurn:
    """Return the end without the messages that a command such as /new has ended meanwhile, and
    without the replies to them. The store refuses to end a message twice, on every retry."""
    rows = [await reads.read(GetInboxRow(inbox_id=each.inbox_id)) for each in end.inbox_ends]
    ends = tuple(
        each
        for each, row in zip(end.inbox_ends, rows, strict=True)
        if row is not None and row.state in OPEN_STATES
    )
    ended_elsewhere = {each.inbox_id for each in end.inbox_ends} - {each.inbox_id for each in ends}
    deliveries = tuple(_deliveries_due(end, ended_elsewhere))
    return msgspec.structs.replace(end, inbox_ends=ends, deliveries=deliveries)


def _deliveries_due(end: EndTurn, ended_elsewhere: Collection[InboxId]) -> Iterator[NewDelivery]:
    for each in end.deliveries:
        if each.inbox_id not in ended_elsewhere:
            yield each
        elif each.started is not None:  # the chat shows a part of it, which needs an end
            yield stream_leftover(end, each.started, each.address)

"""Replies: the deliveries that answer a message, addressed to where it came from."""

from holdfast.core.ids import DeliveryId, SessionId, TurnId
from holdfast.core.jobs.job import JOBS
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.outbox import Address, DeliveryKind, DeliveryState, NewDelivery
from holdfast.core.messages.source import Author, ChatType
from holdfast.core.ports.protocols import NewId
from holdfast.core.turns.subagent import HOUSE
from holdfast.gateway.accounts.registry import Doors


class Replies:
    """Makes delivery rows; where committed means fetchable, a row is born sent."""

    def __init__(self, doors: Doors, *, new_id: NewId) -> None:
        self._doors = doors
        self._new_id = new_id

    def to(
        self,
        row: InboxRow,
        text: str | None,
        *,
        kind: DeliveryKind = DeliveryKind.REPLY,
        session_id: SessionId | None = None,
        turn_id: TurnId | None = None,
        quiet: bool = False,
    ) -> NewDelivery:
        """A delivery to the sender of `row`; `text` None: the final message of the turn.
        `quiet`: nobody is sent it, and whoever looks finds it."""
        run = row.inbound.run
        if run is not None and text is not None and kind is DeliveryKind.REPLY:
            text = f"Job {run.job_id} ({run.name}): {text}"  # nobody there has asked just now
        address = _kept_by_the_house(row) if quiet else address_of(row)
        fetchable = self._doors.capabilities(address).fetchable
        return NewDelivery(
            id=DeliveryId(self._new_id("dlv")),
            address=address,
            kind=kind,
            text=text,
            session_id=session_id,
            turn_id=turn_id,
            inbox_id=row.id,
            state=DeliveryState.SENT if fetchable else DeliveryState.PENDING,
        )

    def fetched(self, row: InboxRow) -> bool:
        """Whether its sender comes for the answer, and gets it in one piece."""
        return self._doors.capabilities(address_of(row)).fetchable

    def notice(
        self,
        row: InboxRow,
        text: str,
        *,
        session_id: SessionId | None = None,
        turn_id: TurnId | None = None,
        expires_at: float | None = None,
    ) -> NewDelivery:
        """Something the gateway says beside the answer to `row`, worth saying until then."""
        return NewDelivery(
            id=DeliveryId(self._new_id("dlv")),
            address=address_of(row),
            kind=DeliveryKind.NOTICE,
            text=text,
            session_id=session_id,
            turn_id=turn_id,
            expires_at=expires_at,
        )


def address_of(row: InboxRow) -> Address:
    source, run = row.inbound.source, row.inbound.run
    if run is not None and run.address is not None:
        return run.address
    # In a chat of two, everything answers the last message; quoting it would be noise. What the
    # operator says has no message there that could be quoted.
    alone = source.chat_type is ChatType.DM or source.author is Author.OPERATOR
    return Address(
        platform=source.platform,
        account=source.account,
        chat_id=source.chat_id,
        thread_id=source.thread_id,
        reply_to=None if alone else row.inbound.message_id,
    )


def _kept_by_the_house(row: InboxRow) -> Address:
    return Address(platform=HOUSE, account=JOBS, chat_id=str(row.id))

"""A parcel: a delivery on its way, as the one who delivers it carries it."""

import msgspec

from holdfast.core.ids import DeliveryId, InboxId, SessionId
from holdfast.core.messages.outbox import (
    Address,
    Button,
    DeliveryKind,
    DeliveryRow,
    DeliveryState,
    NewDelivery,
    PendingFile,
    StartedDelivery,
)


class QueuedDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """`doubtful`: an earlier attempt may have arrived."""

    id: DeliveryId
    address: Address
    text: str
    expires_at: float | None = None
    buttons: tuple[Button, ...] = ()
    file: PendingFile | None = None
    stale: bool = False  # it was worth saying only by the process that came to owe it
    started: StartedDelivery | None = (
        None  # some of it was sent before it was whole, or before this start
    )
    outcome_unknown: bool = False
    resent: bool = False  # it was already sent again once, marked
    session_id: SessionId | None = None
    inbox_id: InboxId | None = None  # the message that it answers
    failures: int = 0  # times in a row that its platform was not there


def queued_delivery(new: NewDelivery, *, final: str) -> QueuedDelivery:
    """Of a row that has just been committed; `final` is the text of one without."""
    return QueuedDelivery(
        id=new.id,
        address=new.address,
        text=final if new.text is None else new.text,
        expires_at=new.expires_at,
        buttons=new.buttons,
        file=new.file,
        started=new.started,
        session_id=new.session_id,
        inbox_id=new.inbox_id,
    )


def recovered_delivery(row: DeliveryRow) -> QueuedDelivery:
    """Of a row that an earlier process has left."""
    return QueuedDelivery(
        id=row.id,
        address=row.address,
        text=row.text,
        expires_at=row.expires_at,
        buttons=row.buttons,
        stale=row.kind is DeliveryKind.SHUTDOWN_NOTICE,
        # An attempt without an outcome was cut between the send and its receipt.
        outcome_unknown=row.outcome_unknown or row.state is DeliveryState.SENDING,
        resent=row.resends > 0,
        started=StartedDelivery(id=row.id, parts=row.parts) if row.parts else None,
        file=row.file,
        session_id=row.session_id,
        inbox_id=row.inbox_id,
    )

"""A parcel: a delivery on its way, as the one who delivers it carries it."""

import msgspec

from holdfast.core.ids import DeliveryId, InboxId, SessionId
from holdfast.core.messages.outbox import (
    Address,
    Begun,
    Choice,
    DeliveryKind,
    DeliveryRow,
    DeliveryState,
    NewDelivery,
    OwedFile,
)


class Parcel(msgspec.Struct, frozen=True, kw_only=True):
    """`doubtful`: an earlier attempt may have arrived."""

    id: DeliveryId
    address: Address
    text: str
    expires_at: float | None = None
    choices: tuple[Choice, ...] = ()
    file: OwedFile | None = None
    stale: bool = False  # it was worth saying only by the process that came to owe it
    begun: Begun | None = None  # some of it was sent before it was whole, or before this start
    doubtful: bool = False
    repeated: bool = False  # it was already sent again once, marked
    session_id: SessionId | None = None
    inbox_id: InboxId | None = None  # the message that it answers
    failures: int = 0  # times in a row that its platform was not there


def parcel_of(new: NewDelivery, *, final: str) -> Parcel:
    """Of a row that has just been committed; `final` is the text of one without."""
    return Parcel(
        id=new.id,
        address=new.address,
        text=final if new.text is None else new.text,
        expires_at=new.expires_at,
        choices=new.choices,
        file=new.file,
        begun=new.begun,
        session_id=new.session_id,
        inbox_id=new.inbox_id,
    )


def parcel_left(row: DeliveryRow) -> Parcel:
    """Of a row that an earlier process has left."""
    return Parcel(
        id=row.id,
        address=row.address,
        text=row.text,
        expires_at=row.expires_at,
        choices=row.choices,
        stale=row.kind is DeliveryKind.FAREWELL,
        # An attempt without an outcome was cut between the send and its receipt.
        doubtful=row.doubtful or row.state is DeliveryState.SENDING,
        repeated=row.resends > 0,
        begun=Begun(id=row.id, parts=row.parts) if row.parts else None,
        file=row.file,
        session_id=row.session_id,
        inbox_id=row.inbox_id,
    )

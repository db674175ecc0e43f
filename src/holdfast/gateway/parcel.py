"""A parcel: a delivery on its way, as the one who delivers it carries it."""

import msgspec

from holdfast.core.ids import DeliveryId, InboxId, SessionId
from holdfast.core.outbox import Address, Begun, Choice, OwedFile


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

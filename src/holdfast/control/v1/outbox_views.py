"""The views of the two boxes: what is owed to chats, and what was accepted from them."""

import msgspec

from holdfast.control.v1.sending_views import DeliveryView, delivery_view
from holdfast.core.inbox import InboxState
from holdfast.core.outbox import DeliveryKind, DeliveryRow

_SHOWN = 300  # characters of what it says


class OwedView(DeliveryView, frozen=True, kw_only=True):
    """A delivery with what it says, or the beginning of that. `doubtful`: it may have arrived
    without a receipt. `updated_at`: when what is known of it last changed."""

    seq: int
    kind: DeliveryKind
    text: str
    session_id: str | None
    turn_id: str | None
    doubtful: bool
    updated_at: float
    expires_at: float | None


class OwedList(msgspec.Struct, frozen=True, kw_only=True):
    """The newest first."""

    deliveries: list[OwedView]
    more: bool


class InboxLine(msgspec.Struct, frozen=True, kw_only=True):
    """A message that was accepted, with the beginning of its words."""

    id: int
    platform: str
    account: str
    principal: str
    state: InboxState
    session_id: str | None
    turn_id: str | None
    reason: str
    text: str
    accepted_at: float
    ended_at: float | None


class InboxList(msgspec.Struct, frozen=True, kw_only=True):
    """The newest first."""

    messages: list[InboxLine]
    more: bool


def owed_view(row: DeliveryRow) -> OwedView:
    code = row.kind is DeliveryKind.CODE  # for its person's eyes alone
    return OwedView(
        **msgspec.structs.asdict(delivery_view(row)),
        seq=row.seq,
        kind=row.kind,
        text="" if code else row.text[:_SHOWN],
        session_id=row.session_id,
        turn_id=row.turn_id,
        doubtful=row.doubtful,
        updated_at=row.updated_at,
        expires_at=row.expires_at,
    )

"""The views of the outbox: what is owed to chats, and what became of it."""

import msgspec

from holdfast.control.v1.sending_views import DeliveryView, delivery_view
from holdfast.core.outbox import DeliveryKind, DeliveryRow

_SHOWN = 300  # characters of what it says


class OwedView(DeliveryView, frozen=True, kw_only=True):
    """A delivery with what it says, or the beginning of that. `doubtful`: it may have arrived
    without a receipt. `updated_at`: when what is known of it last changed."""

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


def owed_view(row: DeliveryRow) -> OwedView:
    code = row.kind is DeliveryKind.CODE  # for its person's eyes alone
    return OwedView(
        **msgspec.structs.asdict(delivery_view(row)),
        kind=row.kind,
        text="" if code else row.text[:_SHOWN],
        session_id=row.session_id,
        turn_id=row.turn_id,
        doubtful=row.doubtful,
        updated_at=row.updated_at,
        expires_at=row.expires_at,
    )

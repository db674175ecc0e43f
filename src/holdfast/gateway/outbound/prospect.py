"""The prospect of a delivery: what stands between one that is owed and its next attempt."""

from collections.abc import Collection

from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import DeliveryBlocker, DeliveryStatus
from holdfast.gateway.outbound.parcel import QueuedDelivery
from holdfast.gateway.outbound.passing import BestEffortOutput


def delivery_status(
    delivery_id: DeliveryId,
    queue: Collection[QueuedDelivery | BestEffortOutput],
    *,
    connected: bool,
    until: float | None,
) -> DeliveryStatus | None:
    """`queue`: all that is owed to its chat, in order; `until`: when that may be sent to again.
    None: it is not owed there."""
    owed = [parcel.id for parcel in queue if isinstance(parcel, QueuedDelivery)]
    if delivery_id not in owed:
        return None
    if not connected:
        return DeliveryStatus(blocked_by=DeliveryBlocker.ACCOUNT)
    if owed[0] != delivery_id:
        return DeliveryStatus(blocked_by=DeliveryBlocker.CHAT)
    if until is not None:
        return DeliveryStatus(blocked_by=DeliveryBlocker.RATE_LIMIT, until=until)
    return DeliveryStatus(blocked_by=DeliveryBlocker.NOTHING)

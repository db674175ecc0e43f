"""The prospect of a delivery: what stands between one that is owed and its next attempt."""

from collections.abc import Collection

from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import Prospect, WaitsFor
from holdfast.gateway.outbound.parcel import Parcel
from holdfast.gateway.outbound.passing import Passing


def prospect_of(
    delivery_id: DeliveryId,
    queue: Collection[Parcel | Passing],
    *,
    connected: bool,
    until: float | None,
) -> Prospect | None:
    """`queue`: all that is owed to its chat, in order; `until`: when that may be sent to again.
    None: it is not owed there."""
    owed = [parcel.id for parcel in queue if isinstance(parcel, Parcel)]
    if delivery_id not in owed:
        return None
    if not connected:
        return Prospect(waits_for=WaitsFor.ACCOUNT)
    if owed[0] != delivery_id:
        return Prospect(waits_for=WaitsFor.CHAT)
    if until is not None:
        return Prospect(waits_for=WaitsFor.PACE, until=until)
    return Prospect(waits_for=WaitsFor.NOTHING)

"""Looking up: what became of a send that got no receipt, where the platform can be asked."""

from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import Address, Receipt
from holdfast.core.ports.protocols import LooksUp, Platform
from holdfast.gateway.outbound.door_edge import DoorEdge


async def looked_up(
    delivery_id: DeliveryId, address: Address, platform: Platform
) -> Receipt | None:
    """The message it was taken as; None: it was not, or this platform cannot be asked. Raises a
    `SendError`; nothing is sent by asking."""
    if platform.capabilities.lookup and isinstance(platform, LooksUp):
        with DoorEdge(platform):
            return await platform.find(delivery_id, address)
    return None

"""Looking up: what became of a send that got no receipt, where the platform can be asked."""

from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import Address, Receipt
from holdfast.core.ports.protocols import Platform, SupportsLookup
from holdfast.gateway.outbound.door_edge import PlatformErrorBoundary


async def look_up_receipt(
    delivery_id: DeliveryId, address: Address, platform: Platform
) -> Receipt | None:
    """The message it was taken as; None: it was not, or this platform cannot be asked. Raises a
    `SendError`; nothing is sent by asking."""
    if platform.capabilities.lookup and isinstance(platform, SupportsLookup):
        with PlatformErrorBoundary(platform):
            return await platform.find_delivery(delivery_id, address)
    return None

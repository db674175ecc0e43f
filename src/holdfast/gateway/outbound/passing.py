"""Passing: what is shown in a chat and owed to nobody, so that it may be left out."""

from typing import Protocol

from holdfast.core.messages.outbox import Address
from holdfast.core.ports.protocols import Platform
from holdfast.gateway.outbound.posting import Posting
from holdfast.gateway.outbound.way import Way


class Passing(Protocol):
    """Stands in the queue of its chat like anything that is sent there, when that is empty."""

    address: Address

    async def put(self, posting: Posting, platform: Platform, way: Way) -> None:
        """Show it, in one try. Raises no `SendError`: nobody could make it good."""
        ...

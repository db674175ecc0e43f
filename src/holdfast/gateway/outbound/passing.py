"""Passing: what is shown in a chat and owed to nobody, so that it may be left out."""

from typing import Protocol

from holdfast.core.messages.outbox import Address
from holdfast.core.ports.protocols import Platform
from holdfast.gateway.outbound.posting import PartSender
from holdfast.gateway.outbound.way import SendGate


class BestEffortOutput(Protocol):
    """Stands in the queue of its chat like anything that is sent there, when that is empty."""

    address: Address

    async def send(self, part_sender: PartSender, platform: Platform, send_gate: SendGate) -> None:
        """Show it, in one try. Raises no `SendError`: nobody could make it good."""
        ...

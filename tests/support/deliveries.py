"""Restarts a gateway with another chat service, and waits for what it delivers."""

import asyncio
from typing import Any

from tests.support.gateway_harness import GatewayHarness

from holdfast.core.messages.outbox import DeliveryRow, DeliveryState
from holdfast.gateway.outbound.resend import resend
from holdfast.testing.simulated.service import ChatService


async def among_editors(harness: GatewayHarness, **about: Any) -> None:
    """The gateway again, with a vendor whose messages can be edited."""
    await harness.stop()
    harness.service = ChatService(**{"edit": True, "edit_interval": 0.01, **about})
    await harness.start()


async def shown(harness: GatewayHarness, text: str, *, message: int = 0) -> None:
    """Until people read these words in that message."""
    async with asyncio.timeout(30):
        while True:
            sent = harness.service.ledger().sent
            if len(sent) > message and sent[message].text == text:
                return
            await asyncio.sleep(0.005)


async def ended(harness: GatewayHarness, state: DeliveryState, number: int = 1) -> None:
    async with asyncio.timeout(30):
        while (await harness.store.outbox_counts())[state] != number:
            await asyncio.sleep(0.005)


async def among(harness: GatewayHarness, **about: Any) -> None:
    """The gateway again, with a vendor that can do this."""
    await harness.stop()
    harness.service = ChatService(**about)
    await harness.start()


async def only(harness: GatewayHarness, state: DeliveryState) -> DeliveryRow:
    """The one delivery that ended so: a state on the way looks the same, but is still held."""
    async with asyncio.timeout(30):
        while True:
            rows = await harness.store.outbox(state=state, before=None, limit=10)
            if len(rows) == 1 and not harness.gateway.outbox.holds(rows[0].id):
                break
            await asyncio.sleep(0.005)
    (row,) = await harness.store.outbox(state=state, before=None, limit=10)
    return row


async def again(harness: GatewayHarness, row: DeliveryRow) -> DeliveryRow:
    return await resend(harness.gateway.services, harness.gateway.outbox, row)

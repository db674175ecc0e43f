"""Restarts a gateway with another chat service, and waits for what it delivers."""

import asyncio
from typing import Any

from tests.support.gateway_harness import GatewayHarness

from holdfast.core.messages.outbox import DeliveryRow, DeliveryState
from holdfast.core.ports.store_queries import CountOutbox, ListOpenTurns, ListOutbox
from holdfast.gateway.outbound import operator_resend
from holdfast.testing.simulated.service import ChatService


async def restart_with_edits(harness: GatewayHarness, **capabilities: Any) -> None:
    """Restart with a chat service whose messages can be edited."""
    await harness.stop()
    harness.service = ChatService(**{"edit": True, "edit_interval": 0.01, **capabilities})
    await harness.start()


async def wait_until_shown(harness: GatewayHarness, text: str, *, message: int = 0) -> None:
    """Wait until that message shows this text."""
    async with asyncio.timeout(30):
        while True:
            sent = harness.service.ledger().sent
            if len(sent) > message and sent[message].text == text:
                return
            await asyncio.sleep(0.005)


async def wait_for_deliveries(
    harness: GatewayHarness, state: DeliveryState, number: int = 1
) -> None:
    async with asyncio.timeout(30):
        while (await harness.store.read(CountOutbox()))[state] != number:
            await asyncio.sleep(0.005)


async def restart_with_chat_service(harness: GatewayHarness, **capabilities: Any) -> None:
    """Restart with a chat service that has these capabilities."""
    await harness.stop()
    harness.service = ChatService(**capabilities)
    await harness.start()


async def wait_for_only_delivery(harness: GatewayHarness, state: DeliveryState) -> DeliveryRow:
    """The only delivery with this final state: a delivery in flight is still held by the outbox."""
    async with asyncio.timeout(30):
        while True:
            rows = await harness.store.read(ListOutbox(state=state, before=None, limit=10))
            if len(rows) == 1 and not harness.gateway.outbox.holds(rows[0].id):
                break
            await asyncio.sleep(0.005)
    (row,) = await harness.store.read(ListOutbox(state=state, before=None, limit=10))
    return row


async def resend_delivery(harness: GatewayHarness, row: DeliveryRow) -> DeliveryRow:
    """As an operator does."""
    gateway = harness.gateway
    return await operator_resend.resend_delivery(
        row,
        gateway.outbox,
        writes=harness.store,
        platforms=gateway.platforms,
        clock=harness.clock,
    )


async def wait_for_streamed_message_id(harness: GatewayHarness) -> None:
    """Wait until the store has the platform's id of a message that is being streamed."""
    async with asyncio.timeout(30):
        while not await _streamed_message_id(harness):
            await asyncio.sleep(0.005)


async def _streamed_message_id(harness: GatewayHarness) -> str | None:
    streams = [turn.stream for turn in await harness.store.read(ListOpenTurns()) if turn.stream]
    parts = [part for stream in streams for part in stream.parts]
    return parts[0].platform_message_id if parts else None

"""Helpers that several tests of turns share."""

import asyncio
from collections.abc import Iterable

from tests.support.gateway_harness import GatewayHarness
from tests.support.stops import stop_gateway

from holdfast.core.messages.transcript import Message, ToolMessage
from holdfast.core.turns.stop import StopKind
from holdfast.gateway.lifespan import RunningGateway

LONG_TIMEOUT = 60.0  # seconds: no test waits that long


async def start_parking(
    harness: GatewayHarness, kind: StopKind = StopKind.RESTART
) -> asyncio.Task[RunningGateway]:
    """Begin a restart and return its task once it has told a running turn to park."""
    stopping = asyncio.create_task(stop_gateway(harness, kind))
    async with asyncio.timeout(30):
        while not any(
            lane.running_turn and lane.running_turn.context.parking
            for lane in harness.gateway.lanes
        ):
            await asyncio.sleep(0.005)
    return stopping


def tool_results(messages: Iterable[Message]) -> list[ToolMessage]:
    return [message for message in messages if isinstance(message, ToolMessage)]

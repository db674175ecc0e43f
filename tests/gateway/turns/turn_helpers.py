"""Helpers that several tests of turns share."""

import asyncio
from collections.abc import Iterable

from tests.support.gateway_harness import GatewayHarness
from tests.support.stops import stop_gateway

from holdfast.core.ids import SessionId, TurnId
from holdfast.core.messages.events import MessageEnded
from holdfast.core.messages.transcript import Message, ToolMessage
from holdfast.core.turns.stop import StopKind
from holdfast.gateway.app import Gateway
from holdfast.gateway.turns.lane import Lane
from holdfast.gateway.turns.turn import Turn

LONG_TIMEOUT = 60.0  # seconds: no test waits that long


async def start_parking(
    harness: GatewayHarness, kind: StopKind = StopKind.RESTART
) -> asyncio.Task[Gateway]:
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


def session_of(ended: MessageEnded) -> SessionId:
    assert ended.session_id is not None
    return ended.session_id


def turn_of(ended: MessageEnded) -> TurnId:
    assert ended.turn_id is not None
    return ended.turn_id


def running_turn(lane: Lane) -> Turn:
    assert lane.running_turn is not None
    return lane.running_turn

"""Stopping the gateway of a harness by an order, and what the next start finds."""

import asyncio
from asyncio import Future
from functools import partial
from typing import Any

import msgspec
from tests.support.gateway_harness import GatewayHarness

from holdfast.core.messages.transcript import Message, NoteMessage
from holdfast.core.ports.store_commands import RecordReady, RecordStop
from holdfast.core.ports.store_queries import GetSession, ListOpenTurns
from holdfast.core.sessions.session import SessionRow
from holdfast.core.turns.stop import StopKind, StopOrder, StopRequester, StopRow, TurnExitReason
from holdfast.core.turns.turn import OpenTurn
from holdfast.gateway.app import Gateway


def stop_order(harness: GatewayHarness, kind: StopKind, *, now: bool = False) -> StopOrder:
    return StopOrder(kind=kind, by=StopRequester.CLI, at=harness.clock.now(), now=now)


def set_stop_timeouts(
    harness: GatewayHarness, *, drain: float = 0, park: float = 0, rest: float = 25
) -> None:
    """Set for later starts how long a stop waits for turns to finish, and to park, and how long the
    rest of it takes."""
    gateway = msgspec.structs.replace(
        harness.settings.gateway, restart_drain_timeout=drain, park_timeout=park, stop_timeout=rest
    )
    harness.settings = msgspec.structs.replace(harness.settings, gateway=gateway)


async def restart_with_timeouts(
    harness: GatewayHarness, *, drain: float = 0, park: float = 0
) -> None:
    """Restart on the same home with these timeouts."""
    await harness.stop()
    set_stop_timeouts(harness, drain=drain, park=park)
    await harness.start()


def mark_running_turns(harness: GatewayHarness, reason: TurnExitReason) -> list[Future[Any]]:
    """Do what the phase `mark` does, now."""
    gateway = harness.gateway
    return gateway.lanes.leave(partial(gateway.sessions.mark_turn, reason=reason))


async def stop_gateway(harness: GatewayHarness, kind: StopKind, **order: Any) -> Gateway:
    """Stop by such an order and record it, as a process does; returns the stopped gateway."""
    requested = stop_order(harness, kind, **order)
    await harness.gateway.stop(requested)
    row = StopRow(
        id=harness.new_id("stop"), order=requested, version="test", stopped_at=requested.at + 1
    )
    await harness.store.write(RecordStop(row=row))
    await harness.stop()
    return harness.gateway


async def start_gateway(harness: GatewayHarness) -> None:
    await harness.start()
    await harness.store.write(RecordReady(deliveries=(), at=harness.clock.now()))


async def restart_gateway(
    harness: GatewayHarness, kind: StopKind = StopKind.RESTART, **order: Any
) -> Gateway:
    """Returns the stopped gateway; its successor runs then."""
    stopped = await stop_gateway(harness, kind, **order)
    await start_gateway(harness)
    return stopped


async def open_turn(harness: GatewayHarness) -> OpenTurn:
    [found] = await harness.store.read(ListOpenTurns())
    return found


async def wait_for_open_turns(harness: GatewayHarness, number: int = 1) -> None:
    """Wait for that many open turns in the store: a model request may precede the commit."""
    async with asyncio.timeout(30):
        while len(await harness.store.read(ListOpenTurns())) < number:
            await asyncio.sleep(0.005)


async def only_session_row(harness: GatewayHarness) -> SessionRow:
    found = await harness.store.read(GetSession(session_id=await harness.only_session()))
    assert found is not None
    return found


def note_texts(messages: list[Message] | tuple[Message, ...]) -> list[str]:
    return [message.text for message in messages if isinstance(message, NoteMessage)]

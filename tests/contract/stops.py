"""Stops of a world's gateway: by an order of some kind, and what the next start finds of it."""

import asyncio
from typing import Any

import msgspec
from tests.contract.conftest import World

from holdfast.core.messages.transcript import Message, NoteMessage
from holdfast.core.sessions.session import SessionRow
from holdfast.core.turns.stop import StopKind, StopOrder, StopRequester, StopRow
from holdfast.core.turns.turn import OpenTurn
from holdfast.gateway.lifespan import RunningGateway


def order_to(world: World, kind: StopKind, *, now: bool = False) -> StopOrder:
    return StopOrder(kind=kind, by=StopRequester.CLI, at=world.clock.now(), now=now)


def windows(world: World, *, drain: float = 0, park: float = 0) -> None:
    """For the starts that follow: how long a stop waits for turns to finish, and to park."""
    gateway = msgspec.structs.replace(
        world.settings.gateway, restart_drain_timeout=drain, park_timeout=park
    )
    world.settings = msgspec.structs.replace(world.settings, gateway=gateway)


async def with_windows(world: World, *, drain: float = 0, park: float = 0) -> None:
    """The same home, started again with these."""
    await world.stop()
    windows(world, drain=drain, park=park)
    await world.start()


async def leave(world: World, kind: StopKind, **order: Any) -> RunningGateway:
    """Stop by such an order, as a process does it, and say so in the store; the one that went."""
    wanted = order_to(world, kind, **order)
    await world.running.stop(wanted)
    row = StopRow(id=world.new_id("stop"), order=wanted, version="test", stopped_at=wanted.at + 1)
    await world.store.record_stop(row)
    await world.stop()
    return world.running


async def come_back(world: World) -> None:
    await world.start()
    await world.store.record_ready((), at=world.clock.now())


async def restart(world: World, kind: StopKind = StopKind.RESTART, **order: Any) -> RunningGateway:
    """The gateway that went; its successor is there when this returns."""
    went = await leave(world, kind, **order)
    await come_back(world)
    return went


async def open_turn(world: World) -> OpenTurn:
    [found] = await world.store.open_turns()
    return found


async def begun(world: World, number: int = 1) -> None:
    """Once so many turns are in the log: a model may be asked before its turn is."""
    async with asyncio.timeout(30):
        while len(await world.store.open_turns()) < number:
            await asyncio.sleep(0.005)


async def only(world: World) -> SessionRow:
    found = await world.store.session(await world.only_session())
    assert found is not None
    return found


def notes(messages: list[Message] | tuple[Message, ...]) -> list[str]:
    return [message.text for message in messages if isinstance(message, NoteMessage)]

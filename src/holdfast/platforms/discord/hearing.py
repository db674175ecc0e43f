"""Hearing: all that one connection of a bot listens with, put together."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from holdfast.core.errors import ConnectError, LineLost
from holdfast.core.ports.protocols import Intake
from holdfast.platforms.discord.ears import Ears
from holdfast.platforms.discord.events import Events
from holdfast.platforms.discord.order import Order
from holdfast.platforms.discord.places import Places
from holdfast.platforms.discord.pressing import Pressing
from holdfast.platforms.discord.reading import PLATFORM, Reader
from holdfast.platforms.discord.record import Record
from holdfast.platforms.discord.taking import Taking
from holdfast.platforms.discord.wire import User


class Held(Protocol):
    """A line, as `line.Line` is one."""

    async def hold(
        self, *, heard: Callable[[str], None], broken: Callable[[], None]
    ) -> ConnectError: ...


class Hearing:
    """Owns the tasks that what is heard begins, among those of the connection."""

    def __init__(
        self, ears: Ears, me: User, record: Record, *, intake: Intake, tasks: asyncio.TaskGroup
    ) -> None:
        self._account = ears.account
        self._record = record
        self._intake = intake
        self._order = Order(tasks)
        self._up = asyncio.Event()
        self._down = asyncio.Event()
        places = Places(me.id)
        reader = Reader(me, account=ears.account, roles=places.roles)
        taking = Taking(ears, reader, places, record, intake=intake, order=self._order)
        self._events = Events(
            taking,
            Pressing(ears.api, reader, places, record, intake=intake),
            places,
            record,
            order=self._order,
            up=self._up.set,
            down=self._down.set,
        )

    async def begun(self, holding: asyncio.Task[ConnectError]) -> ConnectError | None:
        """Returns when the line is whole, or why it never was."""
        up = asyncio.ensure_future(self._up.wait())
        try:
            await asyncio.wait({holding, up}, return_when=asyncio.FIRST_COMPLETED)
            return None if up.done() else holding.result()
        finally:
            up.cancel()

    async def hold(self, line: Held) -> ConnectError:
        """Until the line is gone for good, or never holds: what that means."""
        holding = asyncio.ensure_future(line.hold(heard=self._heard, broken=self._events.broken))
        hopeless = asyncio.ensure_future(self._down.wait())
        try:
            await asyncio.wait({holding, hopeless}, return_when=asyncio.FIRST_COMPLETED)
            return holding.result() if holding.done() else LineLost("the line never holds")
        finally:
            holding.cancel()
            hopeless.cancel()
            await asyncio.wait({holding, hopeless})

    async def leave(self) -> None:
        """Nothing more is taken. What is known of how far everything was looked at is written
        down, so that the next connection need not look again."""
        mark = self._events.mark
        self._order.leave()
        await self._record.move(mark)

    def _heard(self, frame: str) -> None:
        """Whatever comes is a sign of life, the answer to a heartbeat above all."""
        self._intake.proven(PLATFORM, self._account)
        self._events.heard(frame)

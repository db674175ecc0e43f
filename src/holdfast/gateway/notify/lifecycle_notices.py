"""Telling people that the gateway goes, and that it is back: who hears it, where, and once."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from holdfast.core.ids import DeliveryId
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.outbox import Address, DeliveryKind, NewDelivery
from holdfast.core.messages.source import Source
from holdfast.core.turns.stop import StopKind, StopOrder, StopRow
from holdfast.gateway.notify.home_channels import Homes
from holdfast.gateway.services import House
from holdfast.gateway.turns.lanes import Lanes

KEEPS = 60.0  # seconds that a farewell is worth saying; the next process never says it
CRASHES_APART = 600.0  # seconds between two that home channels hear of
_LOOKED_AT = 1000  # stops among which the last crash that was told is looked for

_GOES = {True: "The gateway is restarting.", False: "The gateway is shutting down."}
_INTERRUPTED = {
    True: "What I am working on here is interrupted; I will try to resume it in a moment.",
    False: "What I am working on here is interrupted; I will try to resume it when it is back.",
}

Place = tuple[str, str, str, str | None]  # a chat and thread, whoever speaks there


class Telling:
    """Owns which commands answer for a stop, or have; keeps nothing else.

    A chat and thread hears of a stop once, however many turns run there, and of the return of
    the gateway once, in the commit that says that it is back.
    """

    def __init__(self, house: House, lanes: Lanes, homes: Homes) -> None:
        self._house = house
        self._lanes = lanes
        self._homes = homes
        self._answering: dict[StopOrder, asyncio.Event] = {}
        self.said: StopOrder | None = None  # whose asker was told by the answer to the command

    @contextmanager
    def answering(self, order: StopOrder) -> Iterator[None]:
        """While this is open, somebody answers whoever gave the order in a chat: the farewell
        waits for that, so that nothing overtakes it and it goes out before the gateway does."""
        answered = self._answering[order] = asyncio.Event()
        try:
            yield
        finally:
            del self._answering[order]
            answered.set()

    @property
    def running(self) -> int:
        """Turns that a stop would cut or park; one that waits for a person is not among them."""
        return sum(lane.turn is not None for lane in self._lanes)

    async def farewell(self, order: StopOrder) -> None:
        """Owe each chat with a running turn the news, and each home channel where nobody in a
        chat asked for this. Returns when that is durable, and on its way."""
        if (answered := self._answering.get(order)) is not None:
            await answered.wait()
        at = self._house.clock.now()
        texts = self._farewells(order)
        notices = tuple(
            self._notice(address, text, kind=DeliveryKind.FAREWELL, expires_at=at + KEEPS)
            for address, text in texts
        )
        await self._owe(notices, at=at)

    def _farewells(self, order: StopOrder) -> list[tuple[Address, str]]:
        goes = _GOES[order.kind.restarts]
        working = f"{goes} {_INTERRUPTED[order.kind.restarts]}"
        told: dict[Place, tuple[Address, str]] = {}
        for address in self._at_work():
            told.setdefault(_place(address), (address, working))
        if order.address is None:
            for home in self._homes.all():
                told.setdefault(_place(home.address), (home.address, goes))
        elif order == self.said:
            told.pop(_place(order.address), None)
        return [(address, text) for address, text in told.values() if self._hears(address)]

    async def came_back(self, *, resumed: int = 0) -> None:
        """The gateway takes messages again: every open stop is over, and whoever is to hear of
        it is owed that in the same commit, so that it is told once, whatever happens next.
        `resumed`: the turns that it goes on with."""
        house, at = self._house, self._house.clock.now()
        deliveries = await self.back(await house.store.open_stops())
        await house.store.record_back(deliveries, at=at, resumed=resumed)
        house.announcer.messages((), deliveries)

    async def back(self, rows: Sequence[StopRow]) -> tuple[NewDelivery, ...]:
        """What is owed after these stops. Nobody waits for a gateway that was stopped to stay
        down, so a start after that tells nobody."""
        told: dict[Place, tuple[Address, str]] = {}
        for row in rows:
            if row.order.address is not None and row.order.kind.restarts:
                told[_place(row.order.address)] = row.order.address, _back(row)
        for row in await self._for_homes(rows):
            for home in self._homes.all():
                told.setdefault(_place(home.address), (home.address, _back(row)))
        return tuple(
            self._notice(address, text, kind=DeliveryKind.NOTICE)
            for address, text in told.values()
            if self._hears(address)
        )

    async def _for_homes(self, rows: Sequence[StopRow]) -> list[StopRow]:
        """Those that home channels hear of, the last first. Of crashes one in a while: a gateway
        that crashes in a loop must not fill the chats of its people besides."""
        outside = [r for r in rows if r.order.address is None and r.order.kind is not StopKind.STOP]
        if not any(row.order.kind is StopKind.CRASH for row in outside):
            return outside
        since = self._house.clock.now() - CRASHES_APART
        last = await self._house.store.last_stops(limit=_LOOKED_AT)
        if any(_told_of_crash(row) and (row.ready_at or 0.0) > since for row in last):
            return [row for row in outside if row.order.kind is not StopKind.CRASH]
        return outside

    def _at_work(self) -> Iterator[Address]:
        """Where the people are for whom a turn runs."""
        for lane in self._lanes:
            if lane.turn is not None:
                yield _where(lane.turn.rows[-1])

    def _hears(self, address: Address) -> bool:
        """Whether people there are told by message: not where they come and look by themselves,
        nor where the platform, or whoever set it up, does not want it."""
        door = self._house.doors.find(address)
        if door is None or door.capabilities.fetchable:
            return False
        if self._house.quiet.in_chat(address.platform, address.account, address.chat_id):
            return False
        wanted = self._house.settings.account(address.platform, address.account)
        return door.capabilities.restart_notices and (wanted is None or wanted.restart_notices)

    def _notice(
        self, address: Address, text: str, *, kind: DeliveryKind, expires_at: float | None = None
    ) -> NewDelivery:
        return NewDelivery(
            id=DeliveryId(self._house.new_id("dlv")),
            address=address,
            kind=kind,
            text=text,
            expires_at=expires_at,
        )

    async def _owe(self, notices: Sequence[NewDelivery], *, at: float) -> None:
        if notices:
            await self._house.store.add_deliveries(notices, at=at)
            self._house.announcer.messages((), notices)


def _back(row: StopRow) -> str:
    crashed = row.order.kind is StopKind.CRASH
    text = "The gateway was interrupted and is back" if crashed else "The gateway is back"
    left = row.parked + row.interrupted
    if not left:
        return f"{text}."
    return f"{text}; {left} conversation{' goes' if left == 1 else 's go'} on."


def _told_of_crash(row: StopRow) -> bool:
    return row.told and row.order.kind is StopKind.CRASH


def _where(row: InboxRow) -> Address:
    """The chat and thread of a message; of a child's work, those of whom it works for."""
    child = row.inbound.child
    source: Source = child.chat if child is not None else row.inbound.source
    return Address(
        platform=source.platform,
        account=source.account,
        chat_id=source.chat_id,
        thread_id=source.thread_id,
    )


def _place(address: Address) -> Place:
    return address.platform, address.account, address.chat_id, address.thread_id

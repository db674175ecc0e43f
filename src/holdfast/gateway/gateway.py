"""The gateway: everything above put together, with one way to start and one to stop."""

import asyncio
import logging
from contextlib import AsyncExitStack
from datetime import tzinfo
from functools import partial
from typing import Any, Self

import msgspec

from holdfast.agent.auxiliary import Auxiliary
from holdfast.core.admission import chosen_for_session
from holdfast.core.child import HOUSE, ChildKind
from holdfast.core.errors import HoldfastError
from holdfast.core.ids import DeliveryId, SessionId, TurnId
from holdfast.core.inbox import Accepted
from holdfast.core.ports import Platform
from holdfast.core.turn import LaneState
from holdfast.gateway import leaving
from holdfast.gateway.approvals import Approvals
from holdfast.gateway.authorise import Authority
from holdfast.gateway.children import Children, Ways
from holdfast.gateway.closing import Closing
from holdfast.gateway.commands.desk import CommandDesk
from holdfast.gateway.commands.every import every_command
from holdfast.gateway.commands.words import meant
from holdfast.gateway.delivery import Delivery
from holdfast.gateway.doors import Doors
from holdfast.gateway.expiry import Expiry
from holdfast.gateway.furnishing import Built, furnish
from holdfast.gateway.inner_door import InnerDoor
from holdfast.gateway.intake import Gatehouse
from holdfast.gateway.lanes import Lanes
from holdfast.gateway.parts import Parts
from holdfast.gateway.recovery import Recovery
from holdfast.gateway.redaction import Redaction
from holdfast.gateway.sessions import SessionStore
from holdfast.gateway.shutdown import Phase, run_phases

log = logging.getLogger(__name__)


class Broken(HoldfastError):
    """A bug of ours: the gateway has stopped, phase by phase, rather than go on without a part."""

    def __init__(self, error: Exception) -> None:
        super().__init__(
            f"an internal error stopped the gateway ({type(error).__name__}: {error}). Nothing "
            "that was accepted is lost: start it again. The log has the details; please report it"
        )


class Gateway:
    """Owns the life of the house: entered, it has recovered and takes messages; left, it has
    stopped phase by phase, and all that is owed is in the store."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._children = Children(
            parts.settings.delegate, store=parts.store, clock=parts.clock, new_id=parts.new_id
        )
        inner = [InnerDoor(kind, self._children) for kind in ChildKind]
        self._doors = Doors([*parts.platforms, *inner])
        self._redact = Redaction(parts.secrets)
        self._connected = AsyncExitStack()
        self._tasks = asyncio.TaskGroup()
        self._running: set[SessionId] = set()  # the sessions that had a lane when it began to stop
        self._watching: asyncio.Task[None] | None = None  # the expiry
        self._broken: Exception | None = None  # what ended a task that was never to fail
        self.delivery = Delivery(
            self._doors,
            journal=parts.store,
            clock=parts.clock,
            redact=self._redact,
            crash=parts.crash,
            failed=self._unheard,
        )
        self._auxiliary = Auxiliary(parts.settings, lease=parts.lease, model=parts.model.name)
        self.house = furnish(parts, self._built())
        self.closing = Closing(self.house.cache)
        self.closing.add([parts.runners, self.house.memory, self._auxiliary, *parts.holders])
        self.lanes = Lanes(self.house, tasks=self._tasks)
        self.sessions = SessionStore(
            self.house,
            self.lanes,
            zone=_zone(parts.settings.sessions.time_zone),
            processes=parts.runners.processes,
            close=self.closing.close,
            tasks=self._tasks,
        )
        self.expiry = Expiry(
            self.house,
            self.lanes,
            self.closing,
            policies=self.sessions.policies,
            processes=parts.runners.processes,
        )
        self.lanes.on_silence = self.expiry.stirred
        self.authority = authority = Authority(parts.settings.platforms)
        self.approvals = Approvals(self.house, self.lanes, authority=authority)
        self.desk = CommandDesk(self.house, self.lanes, authority=authority, tasks=self._tasks)
        self.intake = Gatehouse(self.house, authority=authority, admit=self._admit)
        self._settle_children_in()
        self.desk.add(
            every_command(
                self.house,
                self.lanes,
                desk=self.desk,
                sessions=self.sessions,
                approvals=self.approvals,
                authority=authority,
                close=self.closing.close,
            )
        )

    def _built(self) -> Built:
        return Built(
            doors=self._doors,
            redact=self._redact,
            delivery=self.delivery,
            children=self._children,
            auxiliary=self._auxiliary,
            tasks=self._tasks,
            close=self._close_session,
        )

    def _settle_children_in(self) -> None:
        house, lanes = self.house, self.lanes
        self._children.settle_in(
            Ways(
                keep=self.intake.keep,
                watchers=house.watchers,
                watch=self.intake.watch,
                stop=partial(leaving.stop, house, lanes),
                close=self.closing.close,
                key=self.sessions.key,
                turn_of=self._turn_of,
                tasks=self._tasks,
            )
        )
        self.closing.add([self._children])

    def _turn_of(self, session_id: SessionId) -> TurnId | None:
        lane = self.lanes.get(session_id)
        return lane.turn.turn_id if lane is not None and lane.turn is not None else None

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        try:
            await self._start()
        except BaseException:
            # Nobody else could: turns that were resumed run already, and doors stand open.
            await self.__aexit__()
            raise
        return self

    async def _start(self) -> None:
        recovery = Recovery(
            self.house,
            self.lanes,
            delivery=self.delivery,
            runners=self._parts.runners,
            admit=self._admit_late,
        )
        await self.house.memory.start()
        self._parts.progress("recovering")
        await recovery.run()
        await self._children.recovered()
        self.intake.open()
        self._parts.progress("connecting")
        for platform in self._doors:
            await self._connect(platform)
        self._watching = self._tasks.create_task(self.expiry.run(), name="expiry")
        self._parts.progress("running")

    async def _connect(self, platform: Platform) -> None:
        try:
            await self._connected.enter_async_context(platform.connect(self.intake))
        except Exception:  # a platform's edge: a door that does not open keeps no other shut
            log.exception(
                "%s:%s could not be connected; what is owed there waits for the next start.",
                platform.name,
                platform.account,
                extra={"action": "connect_failed"},
            )
        else:
            self.delivery.connected(platform)

    async def __aexit__(self, *exc: object) -> None:
        await run_phases(self._phases(), progress=self._parts.progress)
        if self._broken is not None:
            raise Broken(self._broken) from self._broken

    def _phases(self) -> list[Phase]:
        return [
            Phase("close intake", 1, self._close_intake),
            Phase("interrupt", 5, self.lanes.close),
            Phase("let watchers go", 1, self._let_watchers_go),
            Phase("kill tools", 5, self._kill_tools),
            Phase("finalise agents", 2, self._finalise_agents),
            Phase("empty the cache", 1, self._empty_cache),
            Phase("flush outbox", 3, self.delivery.flush),
            Phase("disconnect platforms", 5, self._connected.aclose),
            Phase("close outbox", 2, self.delivery.close),
            # Before the tasks: a title that is still asked for is one of them.
            Phase("close auxiliary clients", 1, self._auxiliary.close),
            Phase("cancel tasks", 3, self._end_tasks),
            # Behind them: a command that ends a session is one of them.
            Phase("close memory", 4, self.house.memory.close),
        ]

    async def _close_session(self, session_id: SessionId) -> None:
        await self.closing.close(session_id)

    async def _close_intake(self) -> None:
        self.intake.close()
        self._children.leave()
        self.expiry.close()
        # Noted before the lanes go: an agent that is mid-turn may be in no cache any more.
        self._running = {lane.session_id for lane in self.lanes}

    async def _let_watchers_go(self) -> None:
        self.house.watchers.close()
        self.house.feeds.close()

    async def _finalise_agents(self) -> None:
        await self.house.memory.finalise({*self._running, *self.house.cache})

    async def _kill_tools(self) -> None:
        async with asyncio.TaskGroup() as group:
            for holder in (self._parts.runners, *self._parts.holders):
                group.create_task(holder.end_all())

    async def _empty_cache(self) -> None:
        self.house.cache.clear()

    async def _end_tasks(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
        try:
            await self._tasks.__aexit__(None, None, None)
        except ExceptionGroup as failures:
            self._broken = failures.exceptions[0]
            raise

    def _admit(self, accepted: Accepted) -> None:
        if not self.desk.take(accepted) and not self._take_word(accepted):
            row = chosen_for_session(accepted.row, accepted.busy_mode)
            self.sessions.admit(row, known=accepted.route_session, pointed=accepted.pointed)
            self._children.admitted(row)

    def _take_word(self, accepted: Accepted) -> bool:
        """A yes or no to what was asked in this conversation goes to the commands."""
        session_id = self.desk.session_of(accepted)
        command = meant(accepted.row.inbound, session_id, self.approvals)
        if command is None:
            return False
        self.desk.carry_out(accepted, *command)
        return True

    def _unheard(self, delivery_id: DeliveryId) -> None:
        self._tasks.create_task(self.approvals.undeliverable(delivery_id), name="undeliverable")

    def _admit_late(self, accepted: Accepted) -> None:
        """A row from before this start: in order like any other, but no stale command."""
        self.house.watchers.open(accepted.row.id)
        if not self.desk.take(accepted, late=True) and not self._take_word(accepted):
            row = chosen_for_session(accepted.row, accepted.busy_mode)
            self.sessions.admit(row, known=accepted.route_session, pointed=accepted.pointed)

    def snapshot(self) -> dict[str, Any]:
        """What is true now, from memory alone: cheap enough to be asked often."""
        cache = self.house.cache
        return {
            "turns": {state: self.lanes.count(state) for state in LaneState},
            "in_flight": sum(lane.in_flight for lane in self.lanes),
            "children": {kind: self._children.count(kind) for kind in ChildKind},
            "outbox": len(self.delivery),
            "agents": {
                "cached": len(cache),
                "bytes": cache.bytes,
                "hits": cache.hits,
                "misses": cache.misses,
            },
            "model": msgspec.structs.asdict(self.house.agents.model),
            "platforms": [
                {"name": p.name, "account": p.account, "backlog": p.capabilities.backlog}
                for p in self._doors
                if p.name != HOUSE
            ],
        }


def _zone(name: str) -> tzinfo | None:
    if not name:
        return None
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - 3 ms that most gateways never need

    return ZoneInfo(name)

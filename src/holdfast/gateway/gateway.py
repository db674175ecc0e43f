"""The gateway: everything above put together, with one way to start and one to stop."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Protocol, Self

import msgspec

from holdfast.core.bench import Bench
from holdfast.core.crash import Crash
from holdfast.core.errors import HoldfastError
from holdfast.core.ids import SessionId
from holdfast.core.inbox import Accepted
from holdfast.core.model import ModelChoice
from holdfast.core.ports import Clock, ModelClient, NewId, Platform, Store
from holdfast.core.secret import Secret
from holdfast.core.settings import Settings
from holdfast.core.turn import LaneState
from holdfast.gateway.agents import Agents
from holdfast.gateway.announcing import Announcer
from holdfast.gateway.authorise import Authority
from holdfast.gateway.cache import AgentCache
from holdfast.gateway.closing import Closing, Holder
from holdfast.gateway.commands.desk import CommandDesk
from holdfast.gateway.commands.help import Help
from holdfast.gateway.commands.model import Model
from holdfast.gateway.commands.new import New
from holdfast.gateway.commands.status import Status
from holdfast.gateway.commands.stop import Stop
from holdfast.gateway.delivery import Delivery
from holdfast.gateway.doors import Doors
from holdfast.gateway.feeds import Feeds
from holdfast.gateway.house import House
from holdfast.gateway.intake import Gatehouse
from holdfast.gateway.lanes import Lanes
from holdfast.gateway.recovery import Adopter, Recovery
from holdfast.gateway.redaction import Redaction
from holdfast.gateway.replies import Replies
from holdfast.gateway.shutdown import Phase, run_phases
from holdfast.gateway.watchers import Watchers
from holdfast.tools.registry import Toolbox

log = logging.getLogger(__name__)


class Workbenches(Adopter, Holder, Protocol):
    """What the gateway asks of whoever owns the runners."""

    def bench(self, session_id: SessionId) -> Bench: ...
    async def end_all(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a gateway is made of; every part comes in from outside."""

    settings: Settings
    store: Store
    platforms: Sequence[Platform]
    runners: Workbenches
    toolbox: Toolbox
    lease: Callable[[str | None], ModelClient]
    model: ModelChoice
    api_key: Secret | None
    secrets: Sequence[Secret]
    clock: Clock
    new_id: NewId
    crash: Crash
    progress: Callable[[str], None]


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
        self._doors = Doors(parts.platforms)
        self._redact = Redaction(parts.secrets)
        self._connected = AsyncExitStack()
        self._tasks = asyncio.TaskGroup()
        self._broken: Exception | None = None  # what ended a task that was never to fail
        self.delivery = Delivery(
            self._doors,
            journal=parts.store,
            clock=parts.clock,
            redact=self._redact,
            crash=parts.crash,
        )
        self.house = self._house()
        self.closing = Closing(self.house.cache)
        self.closing.add([parts.runners])
        self.lanes = Lanes(self.house, tasks=self._tasks)
        authority = Authority(parts.settings.platforms)
        self.desk = CommandDesk(self.house, self.lanes, authority=authority, tasks=self._tasks)
        self.intake = Gatehouse(self.house, authority=authority, admit=self._admit)
        self._add_commands()

    def _house(self) -> House:
        parts, watchers, feeds = self._parts, Watchers(), Feeds()
        return House(
            settings=parts.settings,
            store=parts.store,
            clock=parts.clock,
            new_id=parts.new_id,
            crash=parts.crash,
            redact=self._redact,
            watchers=watchers,
            feeds=feeds,
            replies=Replies(self._doors, new_id=parts.new_id),
            announcer=Announcer(watchers, self.delivery, feeds=feeds, redact=self._redact),
            agents=Agents(
                parts.settings,
                lease=parts.lease,
                model=parts.model,
                api_key=parts.api_key,
                toolbox=parts.toolbox,
                library=parts.store,
                clock=parts.clock,
            ),
            cache=AgentCache(
                max_agents=parts.settings.cache.max_agents,
                max_bytes=parts.settings.cache.max_mb * 1_000_000,
                idle_ttl=parts.settings.cache.idle_ttl,
            ),
            bench=parts.runners.bench,
        )

    def _add_commands(self) -> None:
        house, lanes = self.house, self.lanes
        self.desk.add(
            [
                Help(house, commands=self.desk.listed),
                New(house, lanes, close=self.closing.close),
                Stop(house, lanes),
                Status(house, lanes),
                Model(house),
            ]
        )

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
        self._parts.progress("recovering")
        await recovery.run()
        self.intake.open()
        self._parts.progress("connecting")
        for platform in self._doors:
            await self._connect(platform)
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
            Phase("kill tools", 5, self._parts.runners.end_all),
            Phase("empty the cache", 1, self._empty_cache),
            Phase("flush outbox", 3, self.delivery.flush),
            Phase("disconnect platforms", 5, self._connected.aclose),
            Phase("close outbox", 2, self.delivery.close),
            Phase("cancel tasks", 3, self._end_tasks),
        ]

    async def _close_intake(self) -> None:
        self.intake.close()

    async def _let_watchers_go(self) -> None:
        self.house.watchers.close()
        self.house.feeds.close()

    async def _empty_cache(self) -> None:
        self.house.cache.clear()

    async def _end_tasks(self) -> None:
        try:
            await self._tasks.__aexit__(None, None, None)
        except ExceptionGroup as failures:
            self._broken = failures.exceptions[0]
            raise

    def _admit(self, accepted: Accepted) -> None:
        if not self.desk.take(accepted):
            self.lanes.admit(accepted.row, known=accepted.route_session)

    def _admit_late(self, accepted: Accepted) -> None:
        """A row from before this start: in order like any other, but no stale command."""
        self.house.watchers.open(accepted.row.id)
        if not self.desk.take(accepted, late=True):
            self.lanes.admit(accepted.row, known=accepted.route_session)

    def snapshot(self) -> dict[str, Any]:
        """What is true now, from memory alone: cheap enough to be asked often."""
        cache = self.house.cache
        return {
            "turns": {state: self.lanes.count(state) for state in LaneState},
            "in_flight": sum(lane.in_flight for lane in self.lanes),
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
            ],
        }

"""A home and the lives of its gateways: started, stopped and killed on one file, with all that
people and programs did to them on record."""

import asyncio
import gc
import itertools
import shutil
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

from tests.machine.disk import SteppedStore, Weather
from tests.machine.ends import Ends
from tests.machine.held_loop import HeldClock, HeldLoop
from tests.machine.parts import SHELL, ByWord, Door, Fetched, Lever, NoRunners, Shell, Voice

from holdfast.agent.delegation import Delegate
from holdfast.core.approval import Approval
from holdfast.core.child import ChildKind
from holdfast.core.crash import never
from holdfast.core.errors import IntakeClosed, StoreError
from holdfast.core.events import Event
from holdfast.core.ids import ApprovalId, InboxId
from holdfast.core.inbox import Accepted, Inbound
from holdfast.core.model import ModelChoice
from holdfast.core.ports import Tool
from holdfast.core.settings import Settings
from holdfast.core.source import place_of
from holdfast.core.stopping import StopOrder
from holdfast.core.tool import Replay
from holdfast.gateway.gateway import Gateway
from holdfast.gateway.parts import Parts
from holdfast.platforms.simulated.service import ChatService
from holdfast.platforms.simulated.wire import Faults
from holdfast.store import approval_reads, reads
from holdfast.tools.registry import Registry

_STOP_TAKES = 26.5  # seconds: the deadlines of all phases


class Request:
    """A program's message, and what its intake answered."""

    def __init__(self, inbound: Inbound) -> None:
        self.inbound = inbound
        self.task: asyncio.Task[Accepted] | None = None

    @property
    def accepted(self) -> Accepted | None:
        task = self.task
        if task is None or not task.done() or task.cancelled() or task.exception():
            return None
        return task.result()


class Watch:
    """Somebody who looks at a message until it ends, or until they have seen enough."""

    def __init__(self, inbox_id: InboxId) -> None:
        self.inbox_id = inbox_id
        self.events: list[Event] = []
        self.left = False  # by themselves, or with the gateway
        self.task: asyncio.Task[None] | None = None


class Life:
    """One process: what dies with it."""

    def __init__(self, home: "Home", settings: Settings) -> None:
        self._ends = home.ends
        self.store = SteppedStore(home.path, home.weather)
        self.voice = Voice(home.complaints)
        self.door = Door(home.service)
        self.ready = False
        self.dead = False
        self.stopping = asyncio.Event()
        self.hurried = asyncio.Event()
        self.order: StopOrder | None = None  # None: a signal that nobody planned
        self.leaving = False
        tools: list[Tool] = [*home.levers.values(), Delegate(settings.delegate)]
        self.gateway = Gateway(
            Parts(
                settings=settings,
                store=self.store,
                platforms=[self.door, Fetched()],
                runners=NoRunners(),
                toolbox=Registry(tools).for_toolsets({tool.toolset for tool in tools}),
                lease=self.voice.lease,
                model=ModelChoice(provider="local", name="scripted", why="a test"),
                api_key=None,
                secrets=[],
                judge=home.judge,
                clock=HeldClock(home.loop),
                new_id=home.new_id,
                crash=never,
                progress=self._progress,
            )
        )
        self.task = home.loop.create_task(self._live(), name="life")

    def _progress(self, state: str) -> None:
        # However it came to stop: also because it could not start. The dead say nothing.
        if state == "close intake" and not self.dead:
            self._ends.begins(self.store, self.gateway.lanes, self.order)

    async def _live(self) -> None:
        """As main does it; only the dead say no goodbye."""
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(self.store)
                await stack.enter_async_context(self.gateway)
                self.ready = True
                await self.stopping.wait()
                await self.gateway.stop(self.order, hurried=self.hurried)
            except asyncio.CancelledError:
                if self.dead:
                    stack.pop_all()
                raise


class Home:
    """Owns the loop, the file, the chat service, and the records."""

    def __init__(self, folder: Path, empty: Path, *, idempotent: bool) -> None:
        self.loop = HeldLoop()
        asyncio.set_event_loop(self.loop)
        self.path = folder / "state.db"
        shutil.copy(empty, self.path)
        self.weather = Weather()
        self.service = ChatService(idempotent_send=idempotent)
        self.shell = Shell()
        self.levers: dict[str, Lever] = {replay: Lever(replay) for replay in Replay}
        self.levers[SHELL] = self.shell
        self.judge = ByWord()
        self.approvals_ended: dict[ApprovalId, Approval] = {}
        self.complaints: list[str] = []
        self.requests: list[Request] = []
        self.watches: list[Watch] = []
        self.rows: dict[InboxId, str] = {}  # each row that was acknowledged: its event
        self.life: Life | None = None
        self.ends = Ends()
        self._ids = itertools.count(1)

    def new_id(self, prefix: str) -> str:
        return f"{prefix}_{next(self._ids)}"

    @property
    def up(self) -> bool:
        return self.life is not None

    @property
    def ready(self) -> bool:
        """It takes messages."""
        return self.life is not None and self.life.ready and not self.life.leaving

    @property
    def failed_to_start(self) -> bool:
        """It could not write what a start has to write, said so, and is gone."""
        task = self._current().task
        return task.done() and not self.ready and isinstance(task.exception(), StoreError)

    @property
    def gateway(self) -> Gateway:
        assert self.life is not None
        return self.life.gateway

    def start(self, settings: Settings) -> None:
        assert self.life is None
        self.loop.run_until_complete(self._start(settings))

    async def _start(self, settings: Settings) -> None:
        self.life = Life(self, settings)

    def leave(self, order: StopOrder) -> None:
        """Ask it to go for that reason, and do not wait: turns may still finish, or park."""
        life = self._current()
        life.order, life.leaving = order, True
        life.stopping.set()

    def stop(self) -> None:
        """Ask it to stop, and see it stopped within the deadlines of its phases."""
        life = self._current()
        life.stopping.set()
        self.loop.bring(_until(lambda: life.ready or life.task.done()), within=100)
        since = self.loop.time()
        self.loop.bring(asyncio.wait([life.task]), within=100)
        if not self.failed_to_start:
            life.task.result()
        took = self.loop.time() - since
        windows = life.gateway.house.settings.gateway
        longest = _STOP_TAKES + windows.restart_drain_timeout + windows.park_timeout
        assert took <= longest, f"a stop took {took} s"
        self.ends.over(self.path, disk_failed=bool(self.weather.refused))
        self._ended(life)
        assert not life.voice.leased, f"{life.voice.leased} clients were not given back"

    def die(self) -> None:
        """As `kill -9` leaves it: what is committed is there, and nobody says goodbye."""
        life = self._current()
        if life.task.done():  # it has gone by itself meanwhile, as it was told
            self.stop()
            return
        life.dead = life.door.torn = True
        if life.store.reader.open:
            self.ends.dies(life.store)
        life.store.die()
        self.loop.run_until_complete(self._cancel_all())
        self._ended(life)

    async def _cancel_all(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        while others:  # a task may begin another as it ends
            for task in others:
                task.cancel()
            await asyncio.wait(others, timeout=60)
            others = asyncio.all_tasks() - {asyncio.current_task()}

    def _ended(self, life: Life) -> None:
        self.life = None
        for watch in self.watches:
            watch.left = True
        self.loop.tick(5)
        left = [task.get_name() for task in asyncio.all_tasks(self.loop)]
        assert not left, f"left running: {left}"

    def _current(self) -> Life:
        assert self.life is not None
        return self.life

    def ask(self, inbound: Inbound) -> Request:
        request = Request(inbound)
        self.requests.append(request)
        request.task = self.loop.create_task(self._accept(request, self.gateway), name="request")
        request.task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return request

    async def _accept(self, request: Request, gateway: Gateway) -> Accepted:
        accepted = await gateway.intake.accept(request.inbound)
        self.rows[accepted.row.id] = request.inbound.event_id
        return accepted

    def watch(self, inbox_id: InboxId) -> None:
        watch = Watch(inbox_id)
        self.watches.append(watch)
        watch.task = self.loop.create_task(self._watch(watch, self.gateway), name="watch")

    async def _watch(self, watch: Watch, gateway: Gateway) -> None:
        try:
            async with gateway.intake.watch(watch.inbox_id) as events:
                async for event in events:
                    watch.events.append(event)
        except (StoreError, IntakeClosed):
            watch.left = True

    def aside(self, work: Coroutine[Any, Any, Any]) -> None:
        """Something is asked of the gateway from outside its chats."""
        self.loop.create_task(_forgiving(work), name="aside")

    def settle(self) -> None:
        """Peace: the disk works, the platform is there, the model answers, tools return."""
        self.weather.clear()
        self.service.set_faults(Faults())
        self.loop.bring(_until(lambda: self.ready or self.failed_to_start), within=100)
        for _ in range(400):
            self._go_on()
            self.loop.wait(5)
            if not (waits := self.unsettled()):
                return
        raise AssertionError(f"left in peace, it does not settle: {waits}")

    def _go_on(self) -> None:
        for number, ask in enumerate(list(self._current().voice.asks)):
            if not ask.line.done():
                ask.line.set_result(f"peace {number} .")
        for lever in self.levers.values():
            for held in list(lever.held):
                held.set()

    def unsettled(self) -> dict[str, Any]:
        """What is still under way; nothing, if it has settled."""
        life = self._current()
        assert not life.task.done(), f"the gateway has died: {life.task}"
        gateway = life.gateway
        facts: dict[str, Any] = {
            "lanes": [(lane.session_id, lane.state, lane.in_flight) for lane in gateway.lanes],
            "outbox": len(gateway.delivery),
            "asks": [ask.messages[-1] for ask in life.voice.asks],
            "children": [gateway.house.children.count(kind) for kind in self._children_left()],
            "approvals": [a.id for a in self.asked() if a.pending],
            "writes": len(life.store.writer.jobs),
            "requests": [r.inbound.event_id for r in self.requests if r.task and not r.task.done()],
            "at the platform": [
                said.text
                for said in self.service.ledger().said
                if not said.acked and said.user_id != "eve"
            ],
        }
        return {name: fact for name, fact in facts.items() if fact}

    def _children_left(self) -> list[ChildKind]:
        children = self.gateway.house.children
        return [kind for kind in ChildKind if children.count(kind)]

    def asked(self) -> list[Approval]:
        """Every approval that is in the file right now."""
        if not self.judge.asked or not self.up or not self._current().store.reader.open:
            return []
        return self._current().store.look(
            approval_reads.approvals, limit=1000, session_id=None, pending=False
        )

    def asked_whom(self, approval: Approval) -> tuple[str, str, str]:
        """The platform, the chat and the person that an approval is put to."""
        session = self._current().store.look(reads.session, session_id=approval.asked_in)
        assert session is not None, "a turn of it is open"
        platform, _, _, chat = place_of(session.route)
        return platform, chat, approval.requester.rsplit(":", 1)[-1]

    def close(self) -> None:
        if self.life is not None:
            self.die()
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        gc.collect()  # who dies with an error that nobody asked for tells so now
        asyncio.set_event_loop(None)
        self.loop.close()


async def _until(fact: Callable[[], bool]) -> None:
    while not fact():
        await asyncio.sleep(0.01)


async def _forgiving(work: Coroutine[Any, Any, Any]) -> None:
    with suppress(StoreError):
        await work

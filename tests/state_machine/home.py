"""A home and the lives of its gateways: started, stopped and killed on one file, with all that
people and programs did to them on record."""

import asyncio
import gc
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.state_machine.configs import Config
from tests.state_machine.environment import Ground
from tests.state_machine.gateway_run import Life
from tests.state_machine.model import Spoken
from tests.state_machine.watchers import Request, Watch

from holdfast.core.config.settings import ApprovalMode
from holdfast.core.errors import IntakeClosed, StoreError
from holdfast.core.ids import ApprovalId, InboxId, SessionId
from holdfast.core.jobs.job import Job, JobChange, JobChangeKind, JobId, JobRun, RunState
from holdfast.core.messages.inbox import Accepted, Inbound
from holdfast.core.messages.source import parse_route
from holdfast.core.people.approval import Approval
from holdfast.core.turns.stop import StopOrder
from holdfast.core.turns.subagent import SubagentKind
from holdfast.gateway.app import Gateway
from holdfast.store.sqlite.reads import approvals, sessions
from holdfast.store.sqlite.reads import jobs as job_reads
from holdfast.testing.simulated.events import Faults
from holdfast.testing.simulated.service import ChatService

_STOP_TAKES = 26.5  # seconds: the deadlines of all phases


class Home(Ground):
    """Owns the life that is, and the record of those that were."""

    def __init__(self, folder: Path, empty: Path, *, service: ChatService) -> None:
        super().__init__(folder, empty, service=service)
        self.life: Life | None = None
        self.lives = 0
        self.requests: list[Request] = []
        self.watches: list[Watch] = []
        self.rows: dict[InboxId, str] = {}  # each row that was acknowledged: its event
        self.approvals_ended: dict[ApprovalId, Approval] = {}
        self.runs_ended: dict[str, RunState] = {}
        self.runs_when_paused: dict[JobId, set[str]] = {}
        self.prompts: dict[SessionId, tuple[str, str]] = {}  # each with the shape it was made by
        self._shape: tuple[str, bool] | None = None  # what prompts are made of in this life
        self.turned_away = False  # somebody may have been told to go

    @property
    def up(self) -> bool:
        return self.life is not None

    @property
    def ready(self) -> bool:
        """It takes messages."""
        return self.life is not None and self.life.ready and not self.life.leaving

    @property
    def busy(self) -> bool:
        """There is something that its end could cut."""
        if not self.ready:
            return True
        gateway = self.gateway
        return bool(
            len(gateway.lanes) or len(gateway.outbox) or self._current().store.writer.requests
        )

    @property
    def failed_to_start(self) -> bool:
        """It could not write what a start has to write, said so, and is gone."""
        task = self._current().task
        return task.done() and not self.ready and isinstance(task.exception(), StoreError)

    @property
    def gateway(self) -> Gateway:
        assert self.life is not None
        return self.life.gateway

    def start(self, config: Config) -> None:
        assert self.life is None
        self.shell.asks = config.approvals is not ApprovalMode.OFF
        self.turned_away = self.turned_away or not config.bob
        shape = config.instructions, config.schedules
        if shape != self._shape:
            # A life of another shape may make another prompt and go, and the next one make one of
            # the first shape again, all between two looks.
            self.prompts.clear()
        self._shape = shape
        self.loop.run_until_complete(self._start(config))

    async def _start(self, config: Config) -> None:
        self.life = Life(self, config)
        self.lives += 1

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
        windows = life.gateway.services.settings.gateway
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
        self.loop.bring(self._rest_jobs(), within=100)
        for _ in range(2000):  # a question expires by a clock that may have been set back hours
            self._go_on()
            self.loop.wait(5)
            if not (waits := self.unsettled()):
                return
        raise AssertionError(f"left in peace, it does not settle: {waits}")

    async def _rest_jobs(self) -> None:
        """What is due for ever leaves nobody in peace."""
        for job in self.jobs():
            change = JobChange(job_id=job.id, kind=JobChangeKind.PAUSE)
            await self._current().store.change_job(change)

    def _go_on(self) -> None:
        for number, ask in enumerate(list(self._current().voice.asks)):
            if not ask.line.done():
                ask.line.set_result(Spoken(f"peace {number} ."))
        for lever in self.held_tools.values():
            for held in list(lever.held):
                held.set()

    def unsettled(self) -> dict[str, Any]:
        """What is still under way; nothing, if it has settled."""
        life = self._current()
        assert not life.task.done(), f"the gateway has died: {life.task}"
        gateway = life.gateway
        facts: dict[str, Any] = {
            "lanes": [(lane.session_id, lane.state, lane.in_flight) for lane in gateway.lanes],
            "outbox": len(gateway.outbox),
            "asks": [ask.messages[-1] for ask in life.voice.asks],
            "children": [gateway.services.subagents.count(kind) for kind in self._children_left()],
            "approvals": [a.id for a in self.asked() if a.pending],
            "writes": len(life.store.writer.requests),
            "requests": [r.inbound.event_id for r in self.requests if r.task and not r.task.done()],
            "at the platform": [
                said.text
                for said in self.service.ledger().said
                if not said.acked and said.user_id != "eve"
            ],
        }
        return {name: fact for name, fact in facts.items() if fact}

    def _children_left(self) -> list[SubagentKind]:
        children = self.gateway.services.subagents
        return [kind for kind in SubagentKind if children.count(kind)]

    def asked(self) -> list[Approval]:
        """Every approval that is in the file right now."""
        if not self.judge.asked or not self.up or not self._current().store.reader.open:
            return []
        return self._current().store.look(
            approvals.approvals, limit=1000, session_id=None, pending=False
        )

    def asked_whom(self, approval: Approval) -> tuple[str, str, str]:
        """The platform, the chat and the person that an approval is put to."""
        session = self._current().store.look(sessions.session, session_id=approval.asked_in)
        assert session is not None, "a turn of it is open"
        platform, _, _, chat = parse_route(session.route)
        return platform, chat, approval.requester.rsplit(":", 1)[-1]

    def jobs(self) -> list[Job]:
        """Every job that is in the file right now."""
        if not self.up or not self._current().store.reader.open:
            return []
        return self._current().store.look(job_reads.jobs, principal=None, limit=1000, offset=0)

    def runs(self, job_id: JobId) -> list[JobRun]:
        """The newest first."""
        return self._current().store.look(job_reads.runs, job_id=job_id, limit=1000)

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

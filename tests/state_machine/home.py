"""A home whose gateway is started, stopped and killed on one database file; what people and
programs sent to it is recorded."""

import asyncio
import gc
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.state_machine.configs import RunConfig
from tests.state_machine.environment import Environment
from tests.state_machine.gateway_run import GatewayRun
from tests.state_machine.model import TextReply
from tests.state_machine.watchers import ApiRequest, Watcher

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

_PHASE_DEADLINES = 26.5  # seconds: the deadlines of all phases


class Home(Environment):
    """Owns the current gateway run, and the record of the earlier ones."""

    def __init__(self, folder: Path, empty: Path, *, service: ChatService) -> None:
        super().__init__(folder, empty, service=service)
        self.current_run: GatewayRun | None = None
        self.run_count = 0
        self.requests: list[ApiRequest] = []
        self.watchers: list[Watcher] = []
        self.acknowledged: dict[InboxId, str] = {}  # inbox row to event id
        self.approvals_ended: dict[ApprovalId, Approval] = {}
        self.runs_ended: dict[str, RunState] = {}
        self.runs_when_paused: dict[JobId, set[str]] = {}
        self.prompts: dict[SessionId, tuple[str, str]] = {}  # text and shape
        self._shape: tuple[str, bool] | None = None  # the inputs of the prompt in this run
        self.bob_was_denied = False  # some of his messages may have been refused

    @property
    def running(self) -> bool:
        return self.current_run is not None

    @property
    def ready(self) -> bool:
        """The gateway accepts messages."""
        return (
            self.current_run is not None
            and self.current_run.ready
            and not self.current_run.stop_requested
        )

    @property
    def busy(self) -> bool:
        """There is work that a stop could interrupt."""
        if not self.ready:
            return True
        gateway = self.gateway
        return bool(
            len(gateway.lanes) or len(gateway.outbox) or self._require_run().store.writer.requests
        )

    @property
    def failed_to_start(self) -> bool:
        """The start failed because the store refused a write, and the process has ended."""
        task = self._require_run().task
        return task.done() and not self.ready and isinstance(task.exception(), StoreError)

    @property
    def gateway(self) -> Gateway:
        assert self.current_run is not None
        return self.current_run.gateway

    def start(self, config: RunConfig) -> None:
        assert self.current_run is None
        self.shell.needs_approval = config.approvals is not ApprovalMode.OFF
        self.bob_was_denied = self.bob_was_denied or not config.bob
        shape = config.instructions, config.schedules
        if shape != self._shape:
            # A run with another shape may build another prompt and end, and the next run build one
            # with the first shape again, all between two checks.
            self.prompts.clear()
        self._shape = shape
        self.loop.run_until_complete(self._start(config))

    async def _start(self, config: RunConfig) -> None:
        self.current_run = GatewayRun(self, config)
        self.run_count += 1

    def request_stop(self, order: StopOrder) -> None:
        """Request a stop for that reason without waiting: turns may still finish, or park."""
        run = self._require_run()
        run.order, run.stop_requested = order, True
        run.stopping.set()

    def stop(self) -> None:
        """Stop the gateway, and check that it stops within the deadlines of its phases."""
        run = self._require_run()
        run.stopping.set()
        self.loop.run_with_timeout(_until(lambda: run.ready or run.task.done()), timeout=100)
        since = self.loop.time()
        self.loop.run_with_timeout(asyncio.wait([run.task]), timeout=100)
        if not self.failed_to_start:
            run.task.result()
        took = self.loop.time() - since
        windows = run.gateway.settings.gateway
        longest = _PHASE_DEADLINES + windows.restart_drain_timeout + windows.park_timeout
        assert took <= longest, f"a stop took {took} s"
        self.process_ends.stopped(self.path, disk_failed=bool(self.disk.refused))
        self._check_stopped(run)
        assert not run.model.leased, f"{run.model.leased} clients were not released"

    def kill(self) -> None:
        """End the run as `kill -9` does: only what is committed remains, and no stop phase runs."""
        run = self._require_run()
        if run.task.done():  # it has stopped meanwhile, as requested
            self.stop()
            return
        run.killed = run.platform.detached = True
        if run.store.reader.open:
            self.process_ends.killed(run.store)
        run.store.kill()
        self.loop.run_until_complete(self._cancel_all())
        self._check_stopped(run)

    async def _cancel_all(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        while others:  # a task may start another as it ends
            for task in others:
                task.cancel()
            await asyncio.wait(others, timeout=60)
            others = asyncio.all_tasks() - {asyncio.current_task()}

    def _check_stopped(self, run: GatewayRun) -> None:
        self.current_run = None
        for watch in self.watchers:
            watch.closed = True
        self.loop.tick(5)
        left = [task.get_name() for task in asyncio.all_tasks(self.loop)]
        assert not left, f"left running: {left}"

    def _require_run(self) -> GatewayRun:
        assert self.current_run is not None
        return self.current_run

    def send_request(self, inbound: Inbound) -> ApiRequest:
        request = ApiRequest(inbound)
        self.requests.append(request)
        request.task = self.loop.create_task(self._accept(request, self.gateway), name="request")
        request.task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return request

    async def _accept(self, request: ApiRequest, gateway: Gateway) -> Accepted:
        accepted = await gateway.intake.accept(request.inbound)
        self.acknowledged[accepted.row.id] = request.inbound.event_id
        return accepted

    def watch(self, inbox_id: InboxId) -> None:
        watch = Watcher(inbox_id)
        self.watchers.append(watch)
        watch.task = self.loop.create_task(self._watch(watch, self.gateway), name="watch")

    async def _watch(self, watch: Watcher, gateway: Gateway) -> None:
        try:
            async with gateway.intake.watch(watch.inbox_id) as events:
                async for event in events:
                    watch.events.append(event)
        except (StoreError, IntakeClosed):
            watch.closed = True

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Start a call to the gateway that does not come from a chat."""
        self.loop.create_task(_ignore_store_errors(work), name="outside call")

    def run_until_idle(self) -> None:
        """Remove all faults, answer every model request and tool call, and run until no work is
        left."""
        self.disk.clear()
        self.service.set_faults(Faults())
        self.loop.run_with_timeout(_until(lambda: self.ready or self.failed_to_start), timeout=100)
        self.loop.run_with_timeout(self._pause_jobs(), timeout=100)
        for _ in range(2000):  # an approval expires by a clock that may have been set back hours
            self._answer_and_release()
            self.loop.wait(5)
            if not (unfinished := self.unfinished_work()):
                return
        raise AssertionError(f"the gateway does not become idle: {unfinished}")

    async def _pause_jobs(self) -> None:
        """Pause every job: while one is due, the gateway never becomes idle."""
        for job in self.jobs():
            change = JobChange(job_id=job.id, principal=job.principal, kind=JobChangeKind.PAUSE)
            await self._require_run().store.write(change)

    def _answer_and_release(self) -> None:
        for number, request in enumerate(list(self._require_run().model.pending)):
            if not request.output.done():
                request.output.set_result(TextReply(f"final {number} ."))
        for tool in self.held_tools.values():
            for held in list(tool.waiting):
                held.set()

    def unfinished_work(self) -> dict[str, Any]:
        """The work that is still in progress; empty when the gateway is idle."""
        run = self._require_run()
        assert not run.task.done(), f"the gateway has died: {run.task}"
        gateway = run.gateway
        facts: dict[str, Any] = {
            "lanes": [(lane.session_id, lane.state, lane.in_flight) for lane in gateway.lanes],
            "outbox": len(gateway.outbox),
            "model requests": [request.messages[-1] for request in run.model.pending],
            "subagents": [gateway.subagents.count(kind) for kind in self._running_subagents()],
            "approvals": [a.id for a in self.approvals() if a.pending],
            "writes": len(run.store.writer.requests),
            "requests": [r.inbound.event_id for r in self.requests if r.task and not r.task.done()],
            "at the platform": [
                message.text
                for message in self.service.ledger().said
                if not message.acked and message.user_id != "eve"
            ],
        }
        return {name: fact for name, fact in facts.items() if fact}

    def _running_subagents(self) -> list[SubagentKind]:
        subagents = self.gateway.subagents
        return [kind for kind in SubagentKind if subagents.count(kind)]

    def approvals(self) -> list[Approval]:
        """Every approval in the database."""
        if not self.judge.flagged or not self.running or not self._require_run().store.reader.open:
            return []
        return self._require_run().store.look(
            approvals.approvals, limit=1000, session_id=None, pending=False
        )

    def approval_recipient(self, approval: Approval) -> tuple[str, str, str]:
        """The platform, chat and user whose answer an approval waits for."""
        session = self._require_run().store.look(sessions.session, session_id=approval.asked_in)
        assert session is not None, "a turn of it is open"
        platform, _, _, chat = parse_route(session.route)
        return platform, chat, approval.requester.rsplit(":", 1)[-1]

    def jobs(self) -> list[Job]:
        """Every job in the database."""
        if not self.running or not self._require_run().store.reader.open:
            return []
        return self._require_run().store.look(job_reads.jobs, principal=None, limit=1000, offset=0)

    def job_runs(self, job_id: JobId) -> list[JobRun]:
        """The runs of a job, newest first."""
        return self._require_run().store.look(job_reads.runs, job_id=job_id, limit=1000)

    def close(self) -> None:
        if self.current_run is not None:
            self.kill()
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        gc.collect()  # a task destroyed with an unretrieved exception reports it now
        asyncio.set_event_loop(None)
        self.loop.close()


async def _until(fact: Callable[[], bool]) -> None:
    while not fact():
        await asyncio.sleep(0.01)


async def _ignore_store_errors(work: Coroutine[Any, Any, Any]) -> None:
    with suppress(StoreError):
        await work

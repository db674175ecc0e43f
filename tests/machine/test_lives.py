"""Drive a real gateway through random lives; nothing that was accepted may be lost.

How far the loop runs between two rules is drawn too, so that every window is open at some time.
"""

import json
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.machine import laws, working_laws
from tests.machine.disk import COMMIT, READ, WRITES
from tests.machine.home import Home
from tests.machine.parts import COMMANDS_RUN, FAILS, HELPER, SHELL, Wanted

from holdfast.core.approval import Approval, Scope
from holdfast.core.inbox import BusyMode, Inbound
from holdfast.core.message import AssistantMessage, UserMessage
from holdfast.core.reset import ResetMode
from holdfast.core.settings import (
    AgentSettings,
    ApprovalSettings,
    AuxiliarySettings,
    CacheSettings,
    CompactionSettings,
    CrashRecovery,
    GatewaySettings,
    ModelSettings,
    PlatformSettings,
    SessionSettings,
    Settings,
)
from holdfast.core.source import ChatType, Source
from holdfast.core.stopping import AskedBy, StopKind, StopOrder
from holdfast.core.tool import Replay
from holdfast.gateway.approvals import Answer
from holdfast.gateway.leaving import stop
from holdfast.platforms.simulated.wire import Faults, Say
from holdfast.store.opening import open_writer

TICKS = st.sampled_from([0, 1, 3, 10, 50])
COMMANDS = (
    *("/stop", "/new", "/model other", "/model default", "/model", "/status", "/help", "/x"),
    *("/busy queue", "/busy steer", "/busy interrupt", "/busy default", "/queue", "/steer"),
    *("/resume", "/resume 2", "/fork", "/undo", "/undo 2", "/retry", "/title", "/compact"),
    *("/sessions", "/approvals", "/stop children"),
)
UNIQUE = ("/queue", "/steer", "/title")  # what follows them is said nowhere else
WORDS = ("yes", "no", "always", "/approve", "/deny", "/approve all", "/approve {id}")
ANSWERS = (*WORDS, "/approve {id} session", "/approve {id} always", "/deny {id}", "/deny {id} no")
RUNS = st.sampled_from(COMMANDS_RUN).map(lambda word: Wanted(SHELL, json.dumps({"command": word})))
LEVERS = st.sampled_from([*Replay, "no such tool"]).map(Wanted)
TOOLS = st.lists(st.one_of(LEVERS, RUNS), min_size=1, max_size=3)
PLACES = st.sampled_from([("home", "ann"), ("home", "bob"), ("club", "ann"), ("club", "bob")])
SHM = Path("/dev/shm")


class Lives(RuleBasedStateMachine):
    empty: Path  # a file with the newest schema and nothing in it

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=SHM if SHM.is_dir() else None))
        self.said = 0
        self.home: Home

    @initialize(idempotent=st.booleans())
    def settle_in(self, idempotent: bool) -> None:
        self.home = Home(self.folder, self.empty, idempotent=idempotent)

    def text(self) -> str:
        self.said += 1
        return f"said {self.said}"

    # The lives

    @precondition(lambda self: not self.home.up)
    @rule(
        busy_mode=st.sampled_from(BusyMode),
        recovery=st.sampled_from([*CrashRecovery, CrashRecovery.RESUME, CrashRecovery.RESUME]),
        max_agents=st.sampled_from([1, 128]),
        reset=st.sampled_from([ResetMode.NONE, ResetMode.NONE, ResetMode.IDLE]),
        window=st.sampled_from([0, 400]),
        drain=st.sampled_from([0, 0, 20]),
        ticks=TICKS,
    )
    def start(
        self,
        busy_mode: BusyMode,
        recovery: CrashRecovery,
        max_agents: int,
        ticks: int,
        reset: ResetMode = ResetMode.NONE,
        window: int = 0,
        drain: int = 0,
    ) -> None:
        self.home.start(
            Settings(
                platforms={"simulated": PlatformSettings(allow=("ann", "bob"))},
                gateway=GatewaySettings(
                    busy_mode=busy_mode, crash_recovery=recovery, restart_drain_timeout=drain
                ),
                cache=CacheSettings(max_agents=max_agents),
                agent=AgentSettings(max_steps=3),
                auxiliary=AuxiliarySettings(model=HELPER, titles=False),
                approvals=ApprovalSettings(timeout=300),
                compaction=CompactionSettings(at=0.5, keep=0.02),
                model=ModelSettings(context_window=window),
                sessions=SessionSettings(reset=reset, idle_minutes=20),
            )
        )
        self.home.loop.tick(ticks)

    @precondition(lambda self: self.home.ready)
    @rule(
        kind=st.sampled_from([StopKind.RESTART, StopKind.RESTART, StopKind.REPLACE, StopKind.STOP]),
        now=st.sampled_from([False, False, True]),
        ticks=TICKS,
    )
    def leave(self, kind: StopKind, now: bool, ticks: int) -> None:
        """A restart, which parks what it can, or a stop; it goes through by `stop`, or dies."""
        at = self.home.gateway.house.clock.now()
        self.home.leave(StopOrder(kind=kind, by=AskedBy.CLI, at=at, now=now))
        self.home.loop.tick(ticks)

    @precondition(lambda self: self.home.up and self.home.life.leaving)
    @rule(ticks=TICKS)
    def hurry(self, ticks: int) -> None:
        self.home.life.hurried.set()
        self.home.loop.tick(ticks)

    @precondition(lambda self: self.home.up)
    @rule()
    def stop(self) -> None:
        self.home.weather.refusals[READ] = 0
        self.home.stop()

    @precondition(lambda self: self.home.up)
    @rule()
    def die(self) -> None:
        self.home.die()

    @precondition(lambda self: self.home.up)
    @rule(ticks=st.sampled_from([1, 3, 10, 50, 200]))
    def run(self, ticks: int) -> None:
        self.home.loop.tick(ticks)

    @precondition(lambda self: self.home.up)
    @rule(seconds=st.sampled_from([0.02, 0.6, 5, 70, 310, 1300]))
    def time_passes(self, seconds: float) -> None:
        self.home.loop.wait(seconds)

    # What people and programs say

    @rule(place=PLACES, ticks=TICKS)
    def say(self, place: tuple[str, str], ticks: int) -> None:
        self._write(*place, self.text(), ticks)

    @rule(place=PLACES, command=st.sampled_from(COMMANDS), ticks=TICKS)
    def command(self, place: tuple[str, str], command: str, ticks: int) -> None:
        more = f" {self.text()}" if command in UNIQUE else ""
        self._write(*place, command + more, ticks)

    @precondition(lambda self: self.home.asked())
    @rule(
        data=st.data(),
        place=st.one_of(st.none(), PLACES),
        answer=st.sampled_from(ANSWERS),
        pending=st.booleans(),
        times=st.integers(1, 2),
        ticks=TICKS,
    )
    def answer_the_question(
        self,
        data: st.DataObject,
        place: tuple[str, str] | None,
        answer: str,
        pending: bool,
        times: int,
        ticks: int,
    ) -> None:
        """By who was asked or by whoever, whether it still waits or not, once or twice."""
        approval = self._draw_approval(data, pending)
        for _ in range(times):
            self._answer(approval, answer, place)
        self.home.loop.tick(ticks)

    def _answer(self, approval: Approval, answer: str, place: tuple[str, str] | None) -> None:
        text = answer.format(id=approval.id)
        platform, chat, user = self.home.asked_whom(approval)
        if place is not None or platform == "simulated":
            self._write(*(place or (chat, user)), text, 0)
        elif self.home.ready:
            self._ask(chat, text, False, 0)

    @precondition(lambda self: self.home.ready and self.home.asked())
    @rule(
        data=st.data(),
        pending=st.booleans(),
        approved=st.booleans(),
        scope=st.sampled_from(Scope),
        ticks=TICKS,
    )
    def answer_from_outside(
        self, data: st.DataObject, pending: bool, approved: bool, scope: Scope, ticks: int
    ) -> None:
        approval = self._draw_approval(data, pending)
        said = Answer(approved=approved, scope=scope)
        self.home.aside(self.home.gateway.approvals.decide(approval.id, said))
        self.home.loop.tick(ticks)

    def _draw_approval(self, data: st.DataObject, pending: bool) -> Approval:
        asked = self.home.asked()
        wanted = [approval for approval in asked if approval.pending] if pending else asked
        return data.draw(st.sampled_from(wanted or asked))

    def _write(self, chat: str, user: str, text: str, ticks: int) -> None:
        kind = ChatType.GROUP if chat == "club" else ChatType.DM

        async def write() -> None:
            say = Say(chat=chat, user=user, text=text, chat_type=kind, user_name=user.title())
            self.home.service.say(say)

        self.home.loop.run_until_complete(write())
        self.home.loop.tick(ticks)

    @precondition(lambda self: self.home.ready)
    @rule(
        name=st.sampled_from(["one", "two"]),
        text=st.sampled_from([None, None, None, *COMMANDS[:4]]),
        busy_mode=st.sampled_from([None, *BusyMode]),
        mergeable=st.booleans(),
        watched=st.booleans(),
        ticks=TICKS,
    )
    def ask(
        self,
        name: str,
        text: str | None,
        busy_mode: BusyMode | None,
        mergeable: bool,
        watched: bool,
        ticks: int,
    ) -> None:
        more = {"busy_mode": busy_mode, "mergeable": mergeable}
        self._ask(name, text or self.text(), watched, ticks, **more)

    @precondition(lambda self: self.home.ready)
    @rule(watched=st.booleans(), ticks=TICKS)
    def ask_statelessly(self, watched: bool, ticks: int) -> None:
        name, past = self.text(), self.text()
        self._ask(
            name,
            self.text(),
            watched,
            ticks,
            history=(UserMessage(text=past), AssistantMessage(text="indeed")),
            busy_mode=BusyMode.QUEUE,
            mergeable=False,
            commands=False,
            lasting=False,
            instructions="Be brief.",
        )

    def _ask(self, chat: str, text: str, watched: bool, ticks: int, **more: Any) -> None:
        event = f"e{len(self.home.requests)}"
        source = Source(platform="api", chat_id=chat, user_id="owner", chat_type=ChatType.DM)
        inbound = Inbound(source=source, text=text, event_id=event, message_id=event, **more)
        request = self.home.ask(inbound)
        if watched:
            assert request.task is not None
            request.task.add_done_callback(lambda _: self._watch_accepted(request))
        self.home.loop.tick(ticks)

    def _watch_accepted(self, request: Any) -> None:
        if self.home.ready and request.accepted is not None:
            self.home.watch(request.accepted.row.id)

    @precondition(lambda self: self.home.ready and self.home.requests)
    @rule(data=st.data(), ticks=TICKS)
    def ask_again(self, data: st.DataObject, ticks: int) -> None:
        """The same event once more."""
        self.home.ask(data.draw(st.sampled_from(self.home.requests)).inbound)
        self.home.loop.tick(ticks)

    @precondition(lambda self: any(r.task and not r.task.done() for r in self.home.requests))
    @rule(ticks=TICKS)
    def hang_up(self, ticks: int) -> None:
        for request in self.home.requests:
            if request.task is not None:
                request.task.cancel()
        self.home.loop.tick(ticks)

    @precondition(lambda self: self.home.ready and self.home.rows)
    @rule(data=st.data(), ticks=TICKS)
    def watch(self, data: st.DataObject, ticks: int) -> None:
        self.home.watch(data.draw(st.sampled_from(sorted(self.home.rows))))
        self.home.loop.tick(ticks)

    @precondition(lambda self: any(not w.left for w in self.home.watches))
    @rule(data=st.data(), ticks=TICKS)
    def look_away(self, data: st.DataObject, ticks: int) -> None:
        looking = [watch for watch in self.home.watches if not watch.left]
        watch = data.draw(st.sampled_from(looking))
        assert watch.task is not None
        watch.left = True
        watch.task.cancel()
        self.home.loop.tick(ticks)

    # What the model and the tools do

    @precondition(lambda self: self.home.life and self.home.life.voice.asks)
    @rule(
        data=st.data(),
        line=st.one_of(st.just(FAILS), st.just(""), st.just("text"), st.just("text"), TOOLS),
        ticks=TICKS,
    )
    def answer(self, data: st.DataObject, line: Any, ticks: int) -> None:
        ask = data.draw(st.sampled_from(self.home.life.voice.asks))
        if line == "text":
            line = f"answer to {self.text()}"
        if not ask.tools and isinstance(line, list):
            line = "no more tools"
        if not ask.line.done():
            ask.line.set_result(line)
        self.home.loop.tick(ticks)

    @precondition(lambda self: self.home.life and self.home.life.voice.asks)
    @rule(
        data=st.data(),
        commands=st.lists(RUNS, min_size=1, max_size=2),
        answer=st.sampled_from(["", *ANSWERS]),
        ticks=TICKS,
    )
    def run_commands(
        self, data: st.DataObject, commands: list[Wanted], answer: str, ticks: int
    ) -> None:
        """What is asked is answered at once, for random answers seldom meet their questions."""
        self._call(data, commands, max(ticks, 10 if answer else 0))
        pending = [approval for approval in self.home.asked() if approval.pending]
        if answer and pending:
            self._answer(data.draw(st.sampled_from(pending)), answer, None)
            self.home.loop.tick(ticks)

    @precondition(lambda self: self.home.life and self.home.life.voice.asks)
    @rule(data=st.data(), background=st.booleans(), number=st.integers(1, 2), ticks=TICKS)
    def delegate(self, data: st.DataObject, background: bool, number: int, ticks: int) -> None:
        tasks = [{"task": f"task {self.text()}"} for _ in range(number)]
        arguments = json.dumps({"tasks": tasks, "background": background})
        self._call(data, [Wanted("delegate", arguments)], ticks)

    def _call(self, data: st.DataObject, calls: list[Wanted], ticks: int) -> None:
        ask = data.draw(st.sampled_from(self.home.life.voice.asks))
        if ask.tools and not ask.line.done():
            ask.line.set_result(calls)
        self.home.loop.tick(ticks)

    @precondition(lambda self: any(lever.held for lever in self.home.levers.values()))
    @rule(data=st.data(), ticks=TICKS)
    def let_go(self, data: st.DataObject, ticks: int) -> None:
        held = [event for lever in self.home.levers.values() for event in lever.held]
        data.draw(st.sampled_from(held)).set()
        self.home.loop.tick(ticks)

    # What else happens

    @precondition(lambda self: self.home.ready)
    @rule()
    def evict(self) -> None:
        self.home.gateway.house.cache.clear()

    @precondition(lambda self: self.home.ready and len(self.home.gateway.lanes))
    @rule(data=st.data(), ticks=TICKS)
    def stop_from_outside(self, data: st.DataObject, ticks: int) -> None:
        gateway = self.home.gateway
        lane = data.draw(st.sampled_from(list(gateway.lanes)))
        stopping = stop(gateway.house, gateway.lanes, lane.session_id)
        self.home.aside(stopping)
        self.home.loop.tick(ticks)

    @rule(
        faults=st.builds(
            Faults,
            disconnected=st.booleans(),
            duplicates=st.integers(0, 2),
            delay=st.sampled_from([0.0, 0.0, 0.01]),
            floods=st.integers(0, 2),
            refusals=st.sampled_from([0, 0, 0, 1]),
            lost_receipts=st.integers(0, 2),
            lost_messages=st.integers(0, 2),
        ),
        ticks=TICKS,
    )
    def platform_trouble(self, faults: Faults, ticks: int) -> None:
        self.home.service.set_faults(faults)
        self.home.loop.tick(ticks)

    @rule(ticks=TICKS)
    def platform_mended(self, ticks: int) -> None:
        self.home.service.set_faults(Faults())
        self.home.loop.tick(ticks)

    @rule(
        latency=st.sampled_from([0, 1, 5, 30]),
        read_latency=st.sampled_from([0, 1, 5, 30]),
        stale=st.booleans(),
    )
    def disk_speed(self, latency: int, read_latency: int, stale: bool) -> None:
        weather = self.home.weather
        weather.latency, weather.read_latency, weather.stale = latency, read_latency, stale

    @precondition(lambda self: self.home.ready)
    @rule(
        kind=st.sampled_from([COMMIT, COMMIT, READ, *WRITES]),
        times=st.integers(1, 3),
        ticks=TICKS,
    )
    def disk_trouble(self, kind: str, times: int, ticks: int) -> None:
        self.home.weather.refusals[kind] += times
        self.home.loop.tick(ticks)

    @precondition(lambda self: self.home.ready)
    @rule(ticks=TICKS)
    def disk_full(self, ticks: int) -> None:
        self.home.weather.refusing = True
        self.home.loop.tick(ticks)

    @precondition(lambda self: self.home.weather.refusing or self.home.weather.refusals.total())
    @rule(ticks=TICKS)
    def disk_mended(self, ticks: int) -> None:
        self.home.weather.refusing = False
        self.home.weather.refusals.clear()
        self.home.loop.tick(ticks)

    # What must hold

    @invariant()
    def the_laws_of_every_instant(self) -> None:
        if "home" not in self.__dict__:
            return  # before `settle_in`
        always = (*laws.ALWAYS, *working_laws.ALWAYS)
        broken = [why for law in always for why in law(self.home)]
        assert not broken, "\n".join(broken)

    def teardown(self) -> None:
        try:
            self._end()
        finally:
            self.home.close()
            shutil.rmtree(self.folder)
        assert not self.home.loop.errors, self.home.loop.errors

    def _end(self) -> None:
        self.the_laws_of_every_instant()
        self.home.weather.clear()
        if self.home.up and not self.home.ready:
            self.home.stop()
        if not self.home.up:
            self.start(BusyMode.QUEUE, CrashRecovery.RESUME, 128, 0)
        self.home.settle()
        self._check(laws.AT_PEACE)
        self.home.stop()
        self.start(BusyMode.QUEUE, CrashRecovery.RESUME, 128, 0)
        self.home.settle()
        self._check(laws.AT_PEACE)
        self._check(laws.AFTER_ALL)
        self._check(working_laws.AFTER_ALL)
        self.home.stop()

    def _check(self, which: Any) -> None:
        books = laws.Books(self.home)
        broken = [why for law in which for why in law(books)]
        assert not broken, "\n".join(broken)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[type[Lives]]:
    path = tmp_path / "empty.db"
    open_writer(path, vfs=None).close()

    class Machine(Lives):
        empty = path

    logging.disable()  # a million lines of a gateway that is mistreated
    yield Machine
    logging.disable(logging.NOTSET)


def _run(machine: type[Lives], *, examples: int, steps: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )


# A command whose task dies before its first step was never awaited, which is what dying is.
unawaited = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")


@unawaited
@pytest.mark.timeout(900)  # a failure is made small first, which takes minutes
def test_nothing_is_lost_in_any_life(machine: type[Lives]) -> None:
    """G3, H2, H5, H7, I2, I3: whatever happens in whatever order, what was accepted ends once."""
    _run(machine, examples=100, steps=40)


@unawaited
@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_nothing_is_lost_in_thousands_of_lives(machine: type[Lives]) -> None:
    """As above, longer. `HOLDFAST_SOAK` above 1 is a factor."""
    _run(machine, examples=2000 * int(os.environ.get("HOLDFAST_SOAK", "1")), steps=60)

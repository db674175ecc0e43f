"""Races that the state machine found: each test recreates one of them."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.controlled_store import Commit, ControlledStore, Intercepted
from tests.support.gateway_harness import Call, GatewayHarness, NoRunners, Until

from holdfast.agent.agent import Agent
from holdfast.core.config.settings import CrashRecovery, GatewaySettings
from holdfast.core.errors import HoldfastError, StoreError
from holdfast.core.ids import SessionId
from holdfast.core.messages.inbox import BusyMode, InboxState
from holdfast.core.messages.outbox import DeliveryState, Outbound, Receipt
from holdfast.core.messages.transcript import ToolMessage, ToolOutcome, UserMessage
from holdfast.core.ports.capabilities import Capabilities
from holdfast.core.ports.command import Command
from holdfast.core.ports.platform import Intake
from holdfast.core.ports.store_commands import (
    AcceptMessage,
    RecordCallResult,
    RecordReply,
    RecordSteer,
    SetMeta,
    SettleDelivery,
)
from holdfast.core.ports.store_queries import (
    CountInbox,
    CountOutbox,
    GetRouteSession,
    ListOpenTurns,
    ListUndelivered,
)
from holdfast.core.retry import MAX_COMMAND_RETRIES
from holdfast.core.sessions.session import CommandEffect
from holdfast.core.turns.tool import ReplayClass
from holdfast.core.turns.turn import BeginTurn, EndTurn
from holdfast.gateway.agents.cache import AgentCache
from holdfast.testing.scripted_model import ScriptedModel
from holdfast.testing.simulated.events import Faults
from holdfast.tools.registry import ToolRegistry


class RefusingStore(ControlledStore):
    """A store that refuses a number of the next commands of a type, and can hold the confirmation
    of accepted messages."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.refused: Counter[type[Command[Any]]] = Counter()
        self.suspensions_refused = 0
        self.accepting = asyncio.Event()
        self.accepting.set()

    def intercept(self, command: Command[Any], commit: Commit) -> Intercepted:
        if isinstance(command, AcceptMessage) and not self.accepting.is_set():
            return self._hold(commit())
        if isinstance(command, EndTurn) and command.suspend and self.suspensions_refused:
            self.suspensions_refused -= 1
            return StoreError("the disk is full")
        if not self.refused[type(command)]:
            return None
        self.refused[type(command)] -= 1
        return StoreError("the disk is full")

    async def _hold(self, durable: asyncio.Future[Any]) -> Any:
        result = await durable
        await self.accepting.wait()
        return result


async def _nothing() -> None:
    return


class HookedRunners(NoRunners):
    """No runners; a test can run code in the phase that ends them."""

    def __init__(self) -> None:
        super().__init__()
        self.on_end_all: Callable[[], Awaitable[None]] = _nothing

    async def end_all(self) -> None:
        await self.on_end_all()


class RefusingHarness(GatewayHarness):
    """A gateway with a store that can refuse writes, and hooked runners."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.open_store = RefusingStore
        self.runners = self.hooked_runners = HookedRunners()

    @property
    def refusing_store(self) -> RefusingStore:
        assert isinstance(self.store, RefusingStore)
        return self.store


@pytest.fixture
async def refusing_harness(tmp_path: Path) -> AsyncIterator[RefusingHarness]:
    harness = RefusingHarness(tmp_path / "state.db")
    await harness.start()
    yield harness
    await harness.stop()


def _tasks(*prefixes: str) -> list[str]:
    return [t.get_name() for t in asyncio.all_tasks() if t.get_name().startswith(prefixes)]


async def test_a_receipt_that_cannot_be_saved_is_retried_and_nothing_is_resent(
    refusing_harness: RefusingHarness, until: Until
) -> None:
    """I2: no reply is sent twice without a mark, also where the disk was full for a moment."""
    refusing_harness.refusing_store.refused[SettleDelivery] = 1
    refusing_harness.model.say("once")
    refusing_harness.say("hello")

    async def is_sent() -> bool:
        return (await refusing_harness.store.read(CountOutbox()))[DeliveryState.SENT] == 1

    await until(is_sent)
    assert await refusing_harness.texts(1) == ["once"]


async def test_a_message_that_commits_while_the_gateway_stops_is_left_to_the_next_start(
    refusing_harness: RefusingHarness,
) -> None:
    """C1, C6: nothing is started after the phase that ended everything, and nothing is lost."""
    store, gateway = refusing_harness.refusing_store, refusing_harness.gateway
    store.accepting.clear()
    accepting = asyncio.create_task(refusing_harness.accept("late"))
    while not (await store.read(CountInbox()))[InboxState.QUEUED]:
        await asyncio.sleep(0.01)

    async def late() -> None:
        store.accepting.set()
        accepted = await accepting
        assert len(gateway.lanes) == 0
        assert await refusing_harness.events_of(accepted) == []

    refusing_harness.hooked_runners.on_end_all = late  # after "interrupt" and "let watchers go"
    await refusing_harness.stop()
    assert accepting.done()
    assert refusing_harness.model.leased == 0
    refusing_harness.hooked_runners.on_end_all = _nothing
    refusing_harness.model.say("answered")
    await refusing_harness.start()
    assert (await refusing_harness.end_of(accepting.result())).text == "answered"


async def test_a_command_that_commits_after_the_last_phase_is_left_to_the_next_start(
    refusing_harness: RefusingHarness,
) -> None:
    """C6, G5: no task is left to execute it; its row is, and the next start executes it."""
    store = refusing_harness.refusing_store
    store.accepting.clear()
    accepting = asyncio.create_task(refusing_harness.accept("/status"))
    while not (await store.read(CountInbox()))[InboxState.QUEUED]:
        await asyncio.sleep(0.01)
    await refusing_harness.gateway.__aexit__()
    store.accepting.set()
    accepted = await accepting
    assert _tasks("command") == []
    await refusing_harness.stop()
    await refusing_harness.start()
    assert (await refusing_harness.end_of(accepted)).state is InboxState.ANSWERED


async def test_a_delivery_queued_after_the_outbox_closed_is_sent_by_the_next_start(
    harness: GatewayHarness, until: Until
) -> None:
    """C6, I1: a command that ends in the last moment leaves a row, and no task."""
    await harness.gateway.outbox.close()
    harness.say("/status")

    async def is_answered() -> bool:
        return (await harness.store.read(CountInbox()))[InboxState.ANSWERED] == 1

    await until(is_answered)
    assert len(harness.gateway.outbox) == 0
    assert _tasks("deliver") == []
    await harness.stop()
    await harness.start()
    assert (await harness.texts(1))[0].startswith("Session:")


async def test_an_agent_evicted_in_a_sessions_first_turn_is_rebuilt_with_its_messages(
    harness: GatewayHarness,
) -> None:
    """A12: an eviction between two turns of a new session loses none of its messages."""
    queue: dict[str, Any] = {"busy_mode": BusyMode.QUEUE, "mergeable": False}
    await harness.accept("one", **queue)
    await harness.model.wait_for_request(1)
    second = await harness.accept("two", **queue)
    harness.gateway.cache.clear()
    harness.model.say("first answer", "second answer")
    assert (await harness.end_of(second)).text == "second answer"
    request = await harness.model.wait_for_request(2)
    assert [m.text for m in request.messages] == ["one", "first answer", "two"]


async def test_an_agent_that_is_dropped_while_it_is_built_is_built_again() -> None:
    """A5: a /model that commits while an agent is built does not leave an old agent."""
    model, cache = ScriptedModel(), AgentCache(max_agents=2, max_bytes=1_000_000)
    built: list[str] = []

    async def build() -> Agent:
        built.append("old" if not built else "new")
        if len(built) == 1:
            cache.drop(SessionId("s"))  # after the session was read, before the agent is cached
        return Agent(
            SessionId("s"),
            signature="x",
            prompt=built[-1],
            toolbox=ToolRegistry([]).for_toolsets([]),
            client=model.lease(),
            messages=[UserMessage(text="hi")],
            max_steps=1,
        )

    agent = await cache.lease(SessionId("s"), signature="x", build=build)
    assert agent.prompt == "new"
    assert model.leased == 1


async def test_a_reply_that_cannot_be_saved_leaves_no_result_without_its_call(
    refusing_harness: RefusingHarness, call: Call
) -> None:
    """H7: a turn that fails because a step was not saved ends with its saved steps."""
    refusing_harness.refusing_store.refused[RecordReply] = 1
    refusing_harness.model.say([call("safe")], "better now")
    accepted = await refusing_harness.accept("work")
    assert (await refusing_harness.end_of(accepted)).state is InboxState.FAILED
    session = await refusing_harness.only_session()
    assert [type(m).__name__ for m in await refusing_harness.transcript(session)] == ["UserMessage"]
    assert (
        await refusing_harness.end_of(await refusing_harness.accept("again"))
    ).text == "better now"
    request = await refusing_harness.model.wait_for_request(2)
    assert [m.text for m in request.messages] == ["work", "again"]


async def test_a_result_that_cannot_be_saved_is_recorded_as_cancelled(
    refusing_harness: RefusingHarness, call: Call
) -> None:
    """H7: the call is saved, so it gets a result, and not one that says it never started."""
    refusing_harness.refusing_store.refused[RecordCallResult] = 1
    refusing_harness.model.say([call("never")])
    await refusing_harness.end_of(await refusing_harness.accept("work"))
    messages = await refusing_harness.transcript(await refusing_harness.only_session())
    assert [m.outcome for m in messages if isinstance(m, ToolMessage)] == [ToolOutcome.CANCELLED]


async def test_one_of_several_results_that_cannot_be_saved_reports_the_store_error(
    refusing_harness: RefusingHarness, call: Call
) -> None:
    """K2: with the error of the store, also where calls ran concurrently."""
    refusing_harness.refusing_store.refused[RecordCallResult] = 1
    refusing_harness.model.say([call("safe"), call("safe")])
    end = await refusing_harness.end_of(await refusing_harness.accept("go"))
    assert end.text == "This could not be answered: the disk is full"


async def test_a_steer_that_cannot_be_saved_runs_next(
    refusing_harness: RefusingHarness, call: Call
) -> None:
    """G3: the turn it was to steer fails, and the message gets its own reply."""
    held_tool = refusing_harness.held_tools[ReplayClass.SAFE]
    held_tool.go.clear()
    refusing_harness.model.say([call("safe")])
    first = await refusing_harness.accept("work")
    await held_tool.wait_until_started(1)
    steer = await refusing_harness.accept("faster", busy_mode=BusyMode.STEER)
    waiting = asyncio.create_task(refusing_harness.end_of(steer))
    await asyncio.sleep(0)
    refusing_harness.refusing_store.refused[RecordSteer] = 1
    refusing_harness.model.say("answered by itself")
    held_tool.go.set()
    assert (await refusing_harness.end_of(first)).state is InboxState.FAILED
    assert (await waiting).text == "answered by itself"


async def test_a_start_that_fails_leaves_nothing_running(
    refusing_harness: RefusingHarness, until: Until
) -> None:
    """C1: a failed start ends what it began, and the next start continues from the store."""
    refusing_harness.say("answer me")
    await refusing_harness.model.wait_for_request(1)
    refusing_harness.service.set_faults(Faults(disconnected=True))
    refusing_harness.model.say("owed")
    interrupted = await refusing_harness.accept("interrupt me")
    await refusing_harness.model.wait_for_request(2)

    async def is_prepared() -> bool:
        undelivered = await refusing_harness.store.read(ListUndelivered())
        return bool(undelivered) and [
            t.rows[0].id for t in await refusing_harness.store.read(ListOpenTurns())
        ] == [interrupted.row.id]

    await until(is_prepared)
    await refusing_harness.die()
    plain = refusing_harness.settings
    refusing_harness.settings = msgspec.structs.replace(
        plain, gateway=GatewaySettings(crash_recovery=CrashRecovery.SUSPEND)
    )

    class FullStore(RefusingStore):
        def __init__(self, path: Path) -> None:
            super().__init__(path)
            self.suspensions_refused = 1

    refusing_harness.open_store = FullStore
    with pytest.raises(StoreError):
        await refusing_harness.start()
    await refusing_harness.stop()
    assert _tasks("deliver", "lane", "turn", "feed") == []
    refusing_harness.open_store, refusing_harness.settings = RefusingStore, plain
    refusing_harness.model.say("gone on with")
    refusing_harness.service.set_faults(Faults())
    await refusing_harness.start()
    assert (await refusing_harness.end_of(interrupted)).text == "gone on with"
    assert await refusing_harness.texts(1) == ["owed"]


class UnreachablePlatform:
    """A platform that cannot connect."""

    name = "shut"
    account = "default"
    capabilities = Capabilities()

    def connect(self, intake: Intake) -> Any:
        raise ConnectionError("no such host")

    async def send(self, outbound: Outbound) -> Receipt:
        raise AssertionError("nothing is sent here")


async def test_a_platform_that_cannot_connect_does_not_block_the_others(
    harness: GatewayHarness,
) -> None:
    """The failure is logged, and the other platforms work."""
    await harness.stop()
    harness.extra_platforms = [UnreachablePlatform()]
    harness.model.say("here")
    await harness.start()
    harness.say("anybody there?")
    assert await harness.texts(1) == ["here"]


async def test_a_crashed_background_task_stops_the_gateway_with_an_error(
    harness: GatewayHarness,
) -> None:
    """C1: an unexpected error in a task stops the gateway in its phases."""

    async def fail() -> None:
        raise ValueError("a bug")

    async def serve() -> None:
        async with harness.build_gateway() as gateway:
            gateway.task_group.tasks.create_task(fail())
            await asyncio.Event().wait()

    await harness.gateway.__aexit__()
    with pytest.raises(HoldfastError, match="ValueError: a bug"):
        await asyncio.wait_for(serve(), 10)
    assert _tasks("lane", "deliver", "feed") == []


@pytest.mark.parametrize("how", ["stop", "/new"])
async def test_a_queued_message_that_could_not_be_dropped_is_answered(
    refusing_harness: RefusingHarness, how: str
) -> None:
    """G3: a message that was removed from its lane is not lost with the failed write."""
    queue: dict[str, Any] = {"busy_mode": BusyMode.QUEUE, "mergeable": False}
    await refusing_harness.accept("first", **queue)
    await refusing_harness.model.wait_for_request(1)
    waiting = await refusing_harness.accept("second", **queue)
    gateway = refusing_harness.gateway
    refusing_harness.refusing_store.refused[CommandEffect] = 1 + MAX_COMMAND_RETRIES
    refusing_harness.model.say("answered", "answered")
    if how == "stop":
        (lane,) = gateway.lanes
        lane.stop([], [])  # its end is under way: queued messages are ended separately
        with pytest.raises(StoreError):
            await gateway.stopper.stop_session(lane.session_id)
    else:
        await refusing_harness.accept("/new")
    assert (await refusing_harness.end_of(waiting)).text == "answered"


async def test_a_command_that_the_store_refuses_is_retried(
    refusing_harness: RefusingHarness,
) -> None:
    """G5: a disk that is full for a moment delays it; it is not left to the next start."""
    refusing_harness.refusing_store.refused[CommandEffect] = 1
    ended = await refusing_harness.end_of(await refusing_harness.accept("/new"))
    assert (ended.state, ended.text) == (InboxState.ANSWERED, "A new conversation begins.")


async def test_a_message_while_new_waits_for_the_store_belongs_to_the_new_session(
    refusing_harness: RefusingHarness,
) -> None:
    """G4: the session is decided when the message arrives, however long the disk takes."""
    refusing_harness.model.say("hello", "fresh")
    first = await refusing_harness.end_of(await refusing_harness.accept("one"))
    refusing_harness.refusing_store.refused[CommandEffect] = 1
    new = await refusing_harness.accept("/new")
    second = await refusing_harness.end_of(await refusing_harness.accept("two"))
    await refusing_harness.end_of(new)
    assert second.session_id != first.session_id
    assert (
        await refusing_harness.store.read(GetRouteSession(key=new.row.route)) == second.session_id
    )


async def test_a_message_right_behind_background_belongs_to_the_session_that_it_opens(
    refusing_harness: RefusingHarness,
) -> None:
    """G4: also where both are stored by one commit, before the command has done anything, and the
    turn of the message begins after the command is stored."""
    refusing_harness.model.say("counted", "hello", "noted")
    refusing_harness.refusing_store.refused[BeginTurn] = 1
    refusing_harness.store.write(SetMeta(key="keeps the writer busy", value="x" * 30_000_000))
    command, message = await asyncio.gather(
        refusing_harness.accept("/background count"), refusing_harness.accept("two")
    )
    ended = await refusing_harness.end_of(message)
    await refusing_harness.end_of(command)
    route = command.row.route
    assert await refusing_harness.store.read(GetRouteSession(key=route)) == ended.session_id

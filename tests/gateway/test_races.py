"""Races that the state machine found: each test leads to the moment in which one happened."""

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.gateway_harness import Call, GatewayHarness, Until

from holdfast.agent.agent import Agent
from holdfast.core.config.settings import CrashRecovery, GatewaySettings
from holdfast.core.errors import HoldfastError, StoreError
from holdfast.core.ids import SessionId
from holdfast.core.messages.inbox import BusyMode, InboxState
from holdfast.core.messages.outbox import DeliveryState
from holdfast.core.messages.transcript import ToolMessage, ToolOutcome, UserMessage
from holdfast.core.ports.capabilities import Capabilities
from holdfast.core.sessions.session import ProcessRow
from holdfast.gateway.agents.cache import AgentCache
from holdfast.gateway.app import Gateway
from holdfast.gateway.commands.reply import RETRY_WAITS
from holdfast.gateway.lifespan import RunningGateway
from holdfast.gateway.sessions.teardown import stop_session
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.scripted_model import ScriptedModel
from holdfast.testing.simulated.events import Faults
from holdfast.tools.registry import ToolRegistry


class Balking(SqliteStore):
    """A store that refuses so many of the next writes of a kind, and holds others back."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.refused: dict[str, int] = {}
        self.accepting = asyncio.Event()
        self.accepting.set()

    def accept(self, *arguments: Any, **more: Any) -> Any:
        return asyncio.ensure_future(self._held(super().accept(*arguments, **more)))

    def settle_delivery(self, *arguments: Any, **more: Any) -> Any:
        write = super().settle_delivery
        return self._refuse("settle_delivery") or write(*arguments, **more)

    def apply_command(self, *arguments: Any, **more: Any) -> Any:
        write = super().apply_command
        return self._refuse("settle_command") or write(*arguments, **more)

    def record_reply(self, *arguments: Any, **more: Any) -> Any:
        write = super().record_reply
        return self._refuse("record_reply") or write(*arguments, **more)

    def record_finished(self, *arguments: Any, **more: Any) -> Any:
        write = super().record_finished
        return self._refuse("record_finished") or write(*arguments, **more)

    def record_steer(self, *arguments: Any, **more: Any) -> Any:
        write = super().record_steer
        return self._refuse("record_steer") or write(*arguments, **more)

    def end_turn_and_suspend(self, *arguments: Any, **more: Any) -> Any:
        write = super().end_turn_and_suspend
        return self._refuse("suspend_session") or write(*arguments, **more)

    async def _held(self, write: Awaitable[Any]) -> Any:
        result = await write
        await self.accepting.wait()
        return result

    def _refuse(self, kind: str) -> asyncio.Future[Any] | None:
        if not self.refused.get(kind):
            return None
        self.refused[kind] -= 1
        failed = asyncio.get_running_loop().create_future()
        failed.set_exception(StoreError("the disk is full"))
        return failed


async def _nothing() -> None:
    return


class Runners:
    """No workbenches; what the test wants happens in the phase that would end them."""

    name = "runner"

    def __init__(self) -> None:
        self.at_the_end = _nothing

    def sandbox(self, session_id: SessionId, *, shell: str = "") -> None:
        return None

    async def adopt(self, known: Any, *, needed: Any) -> list[SessionId]:
        return []

    async def end_session(self, session_id: SessionId) -> None: ...
    async def detach(self) -> None: ...
    async def end_all(self) -> None:
        await self.at_the_end()

    async def processes(self, session_id: SessionId) -> list[ProcessRow]:
        return []


@pytest.fixture
async def balking(harness: GatewayHarness) -> GatewayHarness:
    """The harness, on a store that can balk."""
    await harness.stop()
    harness.open_store, harness.runners = Balking, Runners()
    await harness.start()
    return harness


def _tasks(*prefixes: str) -> list[str]:
    return [t.get_name() for t in asyncio.all_tasks() if t.get_name().startswith(prefixes)]


async def test_a_receipt_that_cannot_be_saved_is_retried_and_nothing_is_resent(
    balking: GatewayHarness, until: Until
) -> None:
    """I2: no reply is there twice without a mark, also where the disk was full for a moment."""
    balking.store.refused["settle_delivery"] = 1
    balking.model.say("once")
    balking.say("hello")

    async def is_sent() -> bool:
        return (await balking.store.outbox_counts())[DeliveryState.SENT] == 1

    await until(is_sent)
    assert await balking.texts(1) == ["once"]


async def test_a_message_that_commits_while_the_gateway_stops_is_left_to_the_next_start(
    balking: GatewayHarness,
) -> None:
    """C1, C6: nothing is begun behind the phase that ended everything, and nothing is lost."""
    store, gateway = balking.store, balking.gateway
    store.accepting.clear()
    asking = asyncio.create_task(balking.accept("late"))
    while not (await store.inbox_counts())[InboxState.QUEUED]:
        await asyncio.sleep(0.01)

    async def late() -> None:
        store.accepting.set()
        accepted = await asking
        assert len(gateway.lanes) == 0
        assert await balking.events_of(accepted) == []

    balking.runners.at_the_end = late  # behind "interrupt" and "let watchers go"
    await balking.stop()
    assert asking.done()
    assert balking.model.leased == 0
    balking.runners.at_the_end = _nothing
    balking.model.say("answered")
    await balking.start()
    assert (await balking.end_of(asking.result())).text == "answered"


async def test_a_command_that_commits_after_the_last_phase_is_left_to_the_next_start(
    balking: GatewayHarness,
) -> None:
    """C6, G5: there is nobody left to carry it out; the row is, and whoever starts next does."""
    store = balking.store
    store.accepting.clear()
    asking = asyncio.create_task(balking.accept("/status"))
    while not (await store.inbox_counts())[InboxState.QUEUED]:
        await asyncio.sleep(0.01)
    await balking.running.__aexit__()
    store.accepting.set()
    accepted = await asking
    assert _tasks("command") == []
    await balking.stop()
    await balking.start()
    assert (await balking.end_of(accepted)).state is InboxState.ANSWERED


async def test_a_delivery_queued_after_the_outbox_closed_is_sent_by_the_next_start(
    harness: GatewayHarness, until: Until
) -> None:
    """C6, I1: a command that is through in the last moment leaves a row, and no task."""
    await harness.gateway.outbox.close()
    harness.say("/status")

    async def is_answered() -> bool:
        return (await harness.store.inbox_counts())[InboxState.ANSWERED] == 1

    await until(is_answered)
    assert len(harness.gateway.outbox) == 0
    assert _tasks("deliver") == []
    await harness.stop()
    await harness.start()
    assert (await harness.texts(1))[0].startswith("Session:")


async def test_an_agent_evicted_in_a_sessions_first_turn_is_rebuilt_with_its_messages(
    harness: GatewayHarness,
) -> None:
    """A12: whoever is evicted between two turns of a new session loses nothing of it."""
    queue = {"busy_mode": BusyMode.QUEUE, "mergeable": False}
    await harness.accept("one", **queue)
    await harness.model.wait_for_request(1)
    second = await harness.accept("two", **queue)
    harness.gateway.services.cache.clear()
    harness.model.say("first answer", "second answer")
    assert (await harness.end_of(second)).text == "second answer"
    request = await harness.model.wait_for_request(2)
    assert [m.text for m in request.messages] == ["one", "first answer", "two"]


async def test_an_agent_that_is_dropped_while_it_is_built_is_built_again() -> None:
    """A5: /model that commits while an agent is built does not leave one of before it."""
    model, cache = ScriptedModel(), AgentCache(max_agents=2, max_bytes=1_000_000)
    built: list[str] = []

    async def build() -> Agent:
        built.append("old" if not built else "new")
        if len(built) == 1:
            cache.drop(SessionId("s"))  # after it was read, before it is there
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
    balking: GatewayHarness, call: Call
) -> None:
    """H7: a turn that fails because a step was not kept ends with what the log knows of it."""
    balking.store.refused["record_reply"] = 1
    balking.model.say([call("safe")], "better now")
    accepted = await balking.accept("work")
    assert (await balking.end_of(accepted)).state is InboxState.FAILED
    session = await balking.only_session()
    assert [type(m).__name__ for m in await balking.transcript(session)] == ["UserMessage"]
    assert (await balking.end_of(await balking.accept("again"))).text == "better now"
    request = await balking.model.wait_for_request(2)
    assert [m.text for m in request.messages] == ["work", "again"]


async def test_a_result_that_cannot_be_saved_is_recorded_as_cancelled(
    balking: GatewayHarness, call: Call
) -> None:
    """H7: the log has the call, so it gets a result, and not one that says it never began."""
    balking.store.refused["record_finished"] = 1
    balking.model.say([call("never")])
    await balking.end_of(await balking.accept("work"))
    messages = await balking.transcript(await balking.only_session())
    assert [m.outcome for m in messages if isinstance(m, ToolMessage)] == [ToolOutcome.CANCELLED]


async def test_one_of_several_results_that_cannot_be_saved_reports_the_store_error(
    balking: GatewayHarness, call: Call
) -> None:
    """K2: in the store's own words, also where calls ran beside each other."""
    balking.store.refused["record_finished"] = 1
    balking.model.say([call("safe"), call("safe")])
    end = await balking.end_of(await balking.accept("go"))
    assert end.text == "This could not be answered: the disk is full"


async def test_a_steer_that_cannot_be_saved_runs_next(balking: GatewayHarness, call: Call) -> None:
    """G3: the turn it was to steer fails, and its own answer is heard by whoever waits for it."""
    lever = balking.held_tools["safe"]
    lever.go.clear()
    balking.model.say([call("safe")])
    first = await balking.accept("work")
    await lever.wait_until_started(1)
    steer = await balking.accept("faster", busy_mode=BusyMode.STEER)
    waiting = asyncio.create_task(balking.end_of(steer))
    await asyncio.sleep(0)
    balking.store.refused["record_steer"] = 1
    balking.model.say("answered by itself")
    lever.go.set()
    assert (await balking.end_of(first)).state is InboxState.FAILED
    assert (await waiting).text == "answered by itself"


async def test_a_start_that_fails_leaves_nothing_running(
    balking: GatewayHarness, until: Until
) -> None:
    """C1: what a start had begun is ended by it, and the next start goes on from the log."""
    balking.say("answer me")
    await balking.model.wait_for_request(1)
    balking.service.set_faults(Faults(disconnected=True))
    balking.model.say("owed")
    cut = await balking.accept("cut me")
    await balking.model.wait_for_request(2)

    async def is_as_it_should_be() -> bool:
        owed = await balking.store.undelivered_rows()
        return bool(owed) and [t.rows[0].id for t in await balking.store.open_turns()] == [
            cut.row.id
        ]

    await until(is_as_it_should_be)
    await balking.die()
    plain = balking.settings
    balking.settings = msgspec.structs.replace(
        plain, gateway=GatewaySettings(crash_recovery=CrashRecovery.SUSPEND)
    )

    class Full(Balking):
        def __init__(self, path: Path) -> None:
            super().__init__(path)
            self.refused = {"suspend_session": 1}

    balking.open_store = Full
    with pytest.raises(StoreError):
        await balking.start()
    await balking.stop()
    assert _tasks("deliver", "lane", "turn", "feed") == []
    balking.open_store, balking.settings = Balking, plain
    balking.model.say("gone on with")
    balking.service.set_faults(Faults())
    await balking.start()
    assert (await balking.end_of(cut)).text == "gone on with"
    assert await balking.texts(1) == ["owed"]


class Shut:
    """A door that does not open."""

    name = "shut"
    account = "default"
    capabilities = Capabilities()

    def connect(self, intake: Any) -> Any:
        raise ConnectionError("no such host")


async def test_a_platform_that_cannot_connect_does_not_block_the_others(
    harness: GatewayHarness,
) -> None:
    """A platform that cannot be connected is told in the log; the others serve."""
    await harness.stop()
    harness.extra_platforms = [Shut()]
    harness.model.say("here")
    await harness.start()
    harness.say("anybody there?")
    assert await harness.texts(1) == ["here"]


async def test_a_crashed_background_task_stops_the_gateway_with_an_error(
    harness: GatewayHarness,
) -> None:
    """C1: a task that was never to fail ends the gateway in its phases, as an error of ours."""

    async def fail() -> None:
        raise ValueError("a bug")

    async def serve() -> None:
        async with RunningGateway(Gateway(harness.gateway.dependencies)) as running:
            running.gateway.task_group.tasks.create_task(fail())
            await asyncio.Event().wait()

    await harness.running.__aexit__()
    with pytest.raises(HoldfastError, match="ValueError: a bug"):
        await asyncio.wait_for(serve(), 10)
    assert _tasks("lane", "deliver", "feed") == []


@pytest.mark.parametrize("how", ["stop", "/new"])
async def test_a_queued_message_that_could_not_be_dropped_is_answered(
    balking: GatewayHarness, how: str
) -> None:
    """G3: a message that was taken from its lane to be ended is not forgotten with the write."""
    queue = {"busy_mode": BusyMode.QUEUE, "mergeable": False}
    await balking.accept("first", **queue)
    await balking.model.wait_for_request(1)
    waiting = await balking.accept("second", **queue)
    house, lanes = balking.gateway.services, balking.gateway.lanes
    balking.store.refused["settle_command"] = 1 + len(RETRY_WAITS)
    balking.model.say("answered", "answered")
    if how == "stop":
        (lane,) = lanes
        lane.stop([], [])  # its end is on its way: what waits is ended by itself
        with pytest.raises(StoreError):
            await stop_session(house, lanes, lane.session_id)
    else:
        await balking.accept("/new")
    assert (await balking.end_of(waiting)).text == "answered"


async def test_a_command_that_the_store_refuses_is_retried(
    balking: GatewayHarness,
) -> None:
    """G5: a disk that is full for a moment delays it; it is not left to the next start."""
    balking.store.refused["settle_command"] = 1
    ended = await balking.end_of(await balking.accept("/new"))
    assert (ended.state, ended.text) == (InboxState.ANSWERED, "A new conversation begins.")


async def test_a_message_while_new_waits_for_the_store_belongs_to_the_new_session(
    balking: GatewayHarness,
) -> None:
    """G4: it was decided when it was said, however long the disk takes to hear of it."""
    balking.model.say("hello", "fresh")
    first = await balking.end_of(await balking.accept("one"))
    balking.store.refused["settle_command"] = 1
    new = await balking.accept("/new")
    second = await balking.end_of(await balking.accept("two"))
    await balking.end_of(new)
    assert second.session_id != first.session_id
    assert await balking.store.route(new.row.route) == second.session_id

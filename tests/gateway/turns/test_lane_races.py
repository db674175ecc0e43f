"""The narrow places in the life of a lane: what is said in the instant between two of its steps."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.approvals import RM, ApprovalHarness
from tests.support.gateway_harness import Call, Until

from holdfast.core.config.settings import CrashRecovery, GatewaySettings
from holdfast.core.errors import HoldfastError, StoreError
from holdfast.core.messages.inbox import BusyMode, InboxState
from holdfast.core.people.approval import ApprovalState
from holdfast.core.turns.model import FallbackUsed
from holdfast.core.turns.tool import ReplayClass
from holdfast.core.turns.turn import LaneState
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.scripted_model import ScriptedModel
from holdfast.testing.simulated.events import Faults
from holdfast.testing.simulated.platform import SimulatedPlatform


class Held:
    """A place that those who come to it wait in, while it is shut."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.go = asyncio.Event()
        self.go.set()

    def shut(self) -> None:
        self.reached.clear()
        self.go.clear()

    @property
    def here(self) -> bool:
        return self.reached.is_set()

    async def passed(self) -> None:
        if not self.go.is_set():
            self.reached.set()
        await self.go.wait()


class Hesitant(SqliteStore):
    """A store that can be held before it reads a transcript, ends a message or suspends a session,
    and that refuses so many of the next beginnings."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.reading, self.settling, self.suspending = Held(), Held(), Held()
        self.refused = 0

    async def transcript(self, *arguments: Any, **more: Any) -> Any:
        await self.reading.passed()
        return await super().transcript(*arguments, **more)

    async def context(self, *arguments: Any, **more: Any) -> Any:
        await self.reading.passed()
        return await super().context(*arguments, **more)

    async def apply_command(self, *arguments: Any, **more: Any) -> Any:
        await self.settling.passed()
        return await super().apply_command(*arguments, **more)

    async def end_turn_and_suspend(self, *arguments: Any, **more: Any) -> Any:
        await self.suspending.passed()
        return await super().end_turn_and_suspend(*arguments, **more)

    def begin_turn(self, *arguments: Any, **more: Any) -> Any:
        if not self.refused:
            return super().begin_turn(*arguments, **more)
        self.refused -= 1
        refused = asyncio.get_running_loop().create_future()
        refused.set_exception(StoreError("the disk is full"))
        return refused


class Falling(ScriptedModel):
    """A model that can be out of reach, and whose stand-in can take over."""

    def __init__(self) -> None:
        super().__init__()
        self.away = False
        self.falls = 0

    def lease(self, override: str | None = None) -> Any:
        if self.away:
            raise HoldfastError("the model is away")
        client = super().lease(override)
        return _FallingClient(self, client)


class _FallingClient:
    def __init__(self, model: Falling, client: Any) -> None:
        self.name = client.name
        self._model = model
        self._client = client

    async def stream(self, request: Any) -> AsyncIterator[Any]:
        if self._model.falls:
            self._model.falls -= 1
            yield FallbackUsed("The first is ill.", "second")
        async for event in self._client.stream(request):
            yield event

    def release(self) -> None:
        self._client.release()


class Edgy(ApprovalHarness):
    """A harness with people to ask, on a store and a model that can be held."""

    store: Hesitant
    model: Falling

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.open_store = Hesitant
        self.model = Falling()

    async def waits(self, call: Call, text: str = "clean up", **more: Any) -> Any:
        """What was said, once its turn waits for a person."""
        self.model.say([call("shell", RM)])
        said = await self.accept(text, **more)
        await self.asked()
        return said


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[Edgy]:
    harness = Edgy(tmp_path / "state.db")
    await harness.start()
    yield harness
    await harness.stop()


async def test_stop_ends_a_waiting_turn_without_an_agent(harness: Edgy, call: Call) -> None:
    """F9: /stop needs nobody's help; not even a model that can be leased."""
    said = await harness.waits(call)
    harness.gateway.services.cache.clear()
    harness.model.away = True
    assert (await harness.end_of(await harness.accept("/stop"))).text == "Stopped."
    assert (await harness.end_of(said)).state is InboxState.SUPERSEDED
    (row,) = await harness.ended()
    assert row.state is ApprovalState.WITHDRAWN


async def test_the_turn_after_a_stopped_wait_sees_its_call_as_not_started(
    harness: Edgy, call: Call
) -> None:
    """H7: each call has its result, also for the agent that was kept from before the wait."""
    await harness.waits(call)
    await harness.end_of(await harness.accept("/stop"))
    harness.model.say("hello")
    assert (await harness.end_of(await harness.accept("hi"))).text == "hello"
    assert (await harness.result()).text == "Not started."


async def test_a_stop_works_when_the_store_refused_to_begin_the_turn(
    harness: Edgy, until: Until
) -> None:
    """K2: the message and what waited behind it have ended, and the command is answered."""
    harness.store.refused = 1
    first = await harness.accept("one")
    await harness.model.wait_for_request(1)
    second = await harness.accept("two", busy_mode=BusyMode.QUEUE)
    assert (await harness.end_of(await harness.accept("/stop"))).text == "Stopped."
    assert (await harness.end_of(first)).state is InboxState.SUPERSEDED
    assert (await harness.end_of(second)).state is InboxState.SUPERSEDED
    await until(lambda: len(harness.gateway.lanes) == 0)
    assert len(harness.model.requests) == 1


async def test_new_works_when_the_store_refused_to_begin_the_turn(
    harness: Edgy, until: Until
) -> None:
    """K2: /new ends by itself what is queued in the log; nobody tries for ever to end it again."""
    harness.store.refused = 1
    first = await harness.accept("one")
    await harness.model.wait_for_request(1)
    assert (await harness.end_of(await harness.accept("/new"))).text == "A new conversation begins."
    assert (await harness.end_of(first)).state is InboxState.SUPERSEDED
    await until(lambda: len(harness.gateway.lanes) == 0)


async def test_stop_and_then_new_end_a_turn_that_waits(
    harness: Edgy, call: Call, until: Until
) -> None:
    """G3: /new ends the /stop that is still on its way, and the end of the turn does not wait."""
    said = await harness.waits(call)
    harness.store.reading.shut()
    await harness.accept("/stop")
    await harness.store.reading.reached.wait()
    assert (await harness.end_of(await harness.accept("/new"))).text == "A new conversation begins."
    harness.store.reading.go.set()
    assert (await harness.end_of(said)).state is InboxState.SUPERSEDED
    await until(lambda: len(harness.gateway.lanes) == 0)
    assert set(await harness.ledger()) <= {"answered", "superseded"}


async def test_a_turn_that_failed_over_and_then_waited_reports_the_fallback(
    harness: Edgy, call: Call
) -> None:
    """A5: whoever reads the answer is told that another model had a part in it."""
    harness.model.falls = 1
    harness.model.say([call("shell", RM)], "done")
    harness.say("clean up")
    await harness.asked()
    harness.say("yes")
    texts = await harness.texts(4)
    assert "second answers this one: The first is ill." in texts
    assert texts[-1] == "done"


async def test_a_withdrawn_interrupt_leaves_the_approval_pending(
    harness: Edgy, call: Call, until: Until
) -> None:
    """J3: an approval has an end: nobody waits for an answer that cannot be given any more."""
    said = await harness.waits(call)
    (lane,) = harness.gateway.lanes
    harness.gateway.services.cache.clear()
    harness.store.reading.shut()
    await harness.accept("rather this", busy_mode=BusyMode.INTERRUPT)
    await harness.store.reading.reached.wait()
    (route,) = lane.routes
    [row] = harness.gateway.lanes.take_waiting(lane.session_id, route)
    harness.store.reading.go.set()
    await until(lambda: lane.state is LaneState.WAITING)
    harness.model.say("done")
    assert "Approved" in (await harness.end_of(await harness.accept("/approve"))).text
    assert (await harness.end_of(said)).text == "done"
    harness.model.say("that")
    harness.gateway.lanes.readmit([row], lane.session_id)
    await until(lambda: len(harness.gateway.lanes) == 0)


async def test_a_message_stopped_while_it_fails_ends_once(harness: Edgy, until: Until) -> None:
    """G3: where no agent can be had, /stop in that instant neither ends it twice nor breaks."""
    harness.model.away = True
    harness.store.settling.shut()
    said = await harness.accept("one")
    await harness.store.settling.reached.wait()
    stop = await harness.accept("/stop")
    harness.store.settling.go.set()
    assert (await harness.end_of(said)).state is InboxState.FAILED
    assert (await harness.end_of(stop)).text == "Nothing is running."
    await until(lambda: len(harness.gateway.lanes) == 0)


async def test_a_stop_while_a_waiting_turn_fails_is_answered_and_stops_nothing_else(
    harness: Edgy, call: Call
) -> None:
    """F9: the stop ends that turn; the next message is answered as if nothing had been."""
    said = await harness.waits(call)
    harness.gateway.services.cache.clear()
    harness.model.away = True
    (row,) = await harness.asked()
    harness.store.reading.shut()
    assert "Approved" in (await harness.end_of(await harness.accept(f"/approve {row.id}"))).text
    await harness.store.reading.reached.wait()
    stop = await harness.accept("/stop")
    harness.store.reading.go.set()
    assert (await harness.end_of(stop)).text == "Stopped."
    assert (await harness.end_of(said)).state is InboxState.SUPERSEDED
    harness.model.away = False
    harness.model.say("hello")
    assert (await harness.end_of(await harness.accept("hi"))).text == "hello"


async def test_an_approval_that_fails_during_recovery_is_not_waited_for(
    harness: Edgy, call: Call, until: Until
) -> None:
    """J3: its door is gone, which is known before all that was open is gone on with."""
    await harness.stop()
    harness.extra_platforms = [SimulatedPlatform(harness.service, account="other")]
    gateway = GatewaySettings(crash_recovery=CrashRecovery.SUSPEND)
    allowed = harness.settings.platforms["simulated"]
    accounts = msgspec.structs.replace(allowed, accounts={"other": allowed})
    harness.settings = msgspec.structs.replace(
        harness.settings, gateway=gateway, platforms={"simulated": accounts}
    )
    await harness.start()
    harness.held_tools[ReplayClass.NEVER].go.clear()
    harness.model.say([call(ReplayClass.NEVER)])
    await harness.accept("never done")
    await harness.held_tools[ReplayClass.NEVER].wait_until_started(1)
    harness.say("clean up", account="other")
    await harness.model.wait_for_request(2)
    harness.service.set_faults(Faults(disconnected=True))
    harness.model.say([call("shell", RM)])
    await harness.asked()
    await harness.die()

    harness.extra_platforms, harness.open_store = [], held_at_suspending
    harness.model.say("then not")
    starting = asyncio.create_task(harness.start())
    await until(lambda: isinstance(harness.store, Hesitant) and harness.store.suspending.here)
    await until(lambda: len(harness.gateway.outbox) == 0)
    harness.store.suspending.go.set()
    await starting
    (row,) = await harness.ended()
    assert row.state is ApprovalState.UNDELIVERABLE


def held_at_suspending(path: Path) -> Hesitant:
    store = Hesitant(path)
    store.suspending.shut()
    return store

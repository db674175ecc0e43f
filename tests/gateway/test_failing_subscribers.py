"""Law 4: work that a commit carries is a row. If the subscriber that should do it fails, the next
start finds it, and each message is answered exactly once."""

import asyncio
import functools
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.approvals import HeldShell, PrefixJudge
from tests.support.controlled_store import ControlledStore
from tests.support.conversation_models import PerConversationModel
from tests.support.gateway_harness import Call, GatewayHarness, ManualClock, Until
from tests.support.memory_provider import RecordingMemoryProvider
from tests.support.pairing import request_code

from holdfast.agent.delegate_tool import DelegateTool
from holdfast.core.config.settings import DelegateSettings, JobSettings
from holdfast.core.jobs.job import JobId, RunPlan, RunState
from holdfast.core.messages.inbox import OPEN_STATES
from holdfast.core.ops.tracing import TraceSpan
from holdfast.core.people.approval import OPERATOR
from holdfast.core.ports.command import Command, Committed, FailureSubscriber, Subscriber
from holdfast.core.ports.store_commands import AcceptMessage, RecordSteer
from holdfast.core.ports.store_queries import (
    ListApprovals,
    ListJobRuns,
    ListJobs,
    ListOpenTurns,
)
from holdfast.core.sessions.session import CommandEffect
from holdfast.core.turns.tool import ReplayClass
from holdfast.core.turns.turn import EndTurn
from holdfast.store.events import CommandEvents
from holdfast.testing.scripted_model import ScriptedModel

WITHOUT_WORK = {
    "Counters",  # figures since the start
    "MessageTracer",  # a trace has no row
    "Sender",  # notifies callers that wait for the end of a delivery, and ask the store in the end
    "SessionNotes",  # makes a cached agent outdated; the next process has none
    "SessionFeeds",  # readers ask the next process for what they have not seen
    "WaitingReactions",  # sent with best effort
}
"""Subscribers with nothing to do after a restart, each with the reason."""


def subscriber_name(subscriber: Subscriber) -> str:
    """The class of a method, or the name of a function with its collaborators bound."""
    if isinstance(subscriber, functools.partial):
        return str(subscriber.func.__name__)
    return type(getattr(subscriber, "__self__", None)).__name__


class NoSpans:
    """Drops all spans."""

    def export(self, span: TraceSpan) -> None:
        pass


class FailingEvents:
    """Passes subscribers on to the store, and raises instead of one of them."""

    def __init__(self, events: CommandEvents) -> None:
        self._events = events
        self.subscribers: set[str] = set()
        self.failing = ""  # the subscriber that fails from now on
        self.failing_on: tuple[type[Command[Any]], ...] = ()  # none: on every command
        self.failures = 0

    def on_committed(self, subscriber: Subscriber, *commands: type[Command[Any]]) -> None:
        name = subscriber_name(subscriber)
        self.subscribers.add(name)

        @functools.wraps(subscriber)
        def call(event: Committed) -> None:
            if name == self.failing and isinstance(event.command, self.failing_on or Command):
                self.failures += 1
                raise RuntimeError(f"{name} has a bug")
            subscriber(event)

        self._events.on_committed(call, *commands)

    def on_failed(self, subscriber: FailureSubscriber, *commands: type[Command[Any]]) -> None:
        self._events.on_failed(subscriber, *commands)


class FailingStore(ControlledStore):
    """A store of which one subscriber can be made to fail."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.failing_events = FailingEvents(self.events)
        self.events = self.failing_events  # type: ignore[assignment]


class SubscriberHarness(GatewayHarness):
    """Owns a gateway of which one subscriber can be made to fail until it is restarted."""

    def __init__(self, path: Path, until: Until, call: Call) -> None:
        super().__init__(path)
        self.open_store = FailingStore
        self.until = until
        self.call = call
        self.model = self.models = PerConversationModel()
        self.clock = self.manual_clock = ManualClock()
        self.provider = RecordingMemoryProvider()
        self.memory = [self.provider]
        self.extra_tools = [HeldShell(), DelegateTool(DelegateSettings())]
        self.judge = PrefixJudge()
        self.spans = NoSpans()
        self.settings = msgspec.structs.replace(
            self.settings, jobs=JobSettings(time_zone="UTC"), delegate=DelegateSettings()
        )

    @property
    def events(self) -> FailingEvents:
        assert isinstance(self.store, FailingStore)
        return self.store.failing_events

    def model_for(self, word: str) -> ScriptedModel:
        return self.models.model_for(word)

    def fail(self, subscriber: str, *commands: type[Command[Any]]) -> None:
        self.events.failing, self.events.failing_on = subscriber, commands

    async def wait_until_answered(self) -> None:
        """Until no message is open, no turn runs and each delivery has its receipt."""

        async def answered() -> bool:
            ledger = await self.ledger()
            idle = not len(self.gateway.lanes) and not OPEN_STATES & ledger.keys()
            return idle and await self.all_delivered()

        await self.until(answered)

    @property
    def sent_texts(self) -> list[str]:
        return [each.text for each in self.service.ledger().sent]


Scenario = Callable[[SubscriberHarness, str], AsyncIterator[None]]
"""Causes work until the subscriber has failed, yields for the restart, and checks the work."""


async def message(harness: SubscriberHarness, subscriber: str) -> AsyncIterator[None]:
    harness.fail(subscriber)
    harness.model.say("one")
    harness.say("hello")
    yield
    await harness.sent(1)
    await harness.wait_until_answered()
    assert harness.sent_texts == ["one"]
    await harness.until(lambda: bool(harness.provider.calls_to("sync_turn")))
    assert len(harness.provider.calls_to("sync_turn")) == 1


async def message_of_a_client(harness: SubscriberHarness, subscriber: str) -> AsyncIterator[None]:
    harness.fail(subscriber)
    harness.model.say("one")
    accepted = await harness.accept("hello")
    yield
    assert (await harness.end_of(accepted)).text == "one"
    assert await harness.ledger() == {"answered": 1}


async def steer(harness: SubscriberHarness, subscriber: str) -> AsyncIterator[None]:
    tool = harness.held_tools[ReplayClass.SAFE]
    tool.go.clear()
    harness.model.say([harness.call("safe")], "done, faster")
    harness.say("work")
    await tool.wait_until_started(1)
    harness.fail(subscriber, RecordSteer)
    harness.say("/steer faster")
    await harness.until(
        lambda: any(lane.turn and lane.turn.steers for lane in harness.gateway.lanes)
    )
    tool.go.set()
    yield
    await harness.wait_until_answered()
    assert harness.sent_texts == ["done, faster"]
    assert await harness.ledger() == {"answered": 1, "merged": 1}


async def question(harness: SubscriberHarness, subscriber: str) -> AsyncIterator[None]:
    harness.model.say([harness.call("shell", '{"command": "rm -rf x"}')], "done")
    harness.fail(subscriber)
    harness.say("clean up")
    yield
    await harness.sent(1)
    harness.say("/approve")
    await harness.sent(3)
    await harness.wait_until_answered()
    assert harness.sent_texts[1:] == ["Approved: rm -rf x", "done"]


async def answer_to_a_question(harness: SubscriberHarness, subscriber: str) -> AsyncIterator[None]:
    harness.model.say([harness.call("shell", '{"command": "rm -rf x"}')], "done")
    harness.say("clean up")
    await harness.sent(1)
    harness.fail(subscriber)
    harness.say("/approve")
    await harness.until(lambda: _no_approval_is_pending(harness))
    yield
    await harness.sent(3)
    await harness.wait_until_answered()
    assert harness.sent_texts[1:] == ["Approved: rm -rf x", "done"]


async def _no_approval_is_pending(harness: SubscriberHarness) -> bool:
    return not await harness.store.read(ListApprovals(limit=1, pending=True))


async def chat_command(harness: SubscriberHarness, subscriber: str) -> AsyncIterator[None]:
    harness.model.say("one", "two", "three")
    harness.say("hello")
    await harness.sent(1)
    harness.say("/new")
    harness.say("hello again")
    await harness.sent(3)
    harness.fail(subscriber)
    harness.say("/resume")
    yield
    await harness.sent(4)
    harness.say("and then")
    await harness.sent(5)
    await harness.wait_until_answered()
    assert [harness.sent_texts[0], *harness.sent_texts[2::2]] == ["one", "two", "three"]
    assert "You are back in: hello" in harness.sent_texts[3]
    texts = [each.text for each in harness.model.requests[-1].messages]
    assert texts == ["hello", "one", "and then"]


async def background_work(harness: SubscriberHarness, subscriber: str) -> AsyncIterator[None]:
    work = harness.model_for("count to ten")
    harness.fail(subscriber, CommandEffect)
    harness.say("/background count to ten")
    yield
    work.say("1 … 10")
    harness.model.say("It counted to ten.")
    await harness.sent(2)
    await harness.wait_until_answered()
    assert harness.sent_texts[1:] == ["It counted to ten."]


async def awaited_work(harness: SubscriberHarness, subscriber: str) -> AsyncIterator[None]:
    """The subscriber fails when the subagent is accepted, or when it ends."""
    tool, work = harness.held_tools[ReplayClass.SAFE], harness.model_for("count apples")
    tool.go.clear()
    delegate = harness.call("delegate", '{"tasks": [{"task": "count apples"}]}')
    harness.model.say([harness.call("safe")], [delegate], "7 in all")
    harness.say("fruit")
    await tool.wait_until_started(1)
    harness.fail(subscriber, AcceptMessage, EndTurn)
    if subscriber == "publish_message_ends":
        work.say("seven apples")
    tool.go.set()
    yield
    if subscriber != "publish_message_ends":
        work.say("seven apples")
    await harness.sent(1)
    await harness.wait_until_answered()
    assert harness.sent_texts == ["7 in all"]


async def job(harness: SubscriberHarness, subscriber: str) -> AsyncIterator[None]:
    harness.model.say("looked")
    harness.fail(subscriber)
    harness.say('/cron add "in 1 minute" look')
    await harness.until(lambda: _a_job_is_stored(harness))
    harness.manual_clock.at += 60
    yield
    await harness.sent(2)
    await harness.wait_until_answered()
    assert harness.sent_texts[1:] == ["looked"]


async def run_of_a_job(harness: SubscriberHarness, subscriber: str) -> AsyncIterator[None]:
    await _add_job(harness, "in 1 minute")
    harness.fail(subscriber, AcceptMessage)
    _advance(harness, 60)
    await harness.model.wait_for_request(1)
    yield
    await harness.until(lambda: len(harness.gateway.job_executor.running) == 1)
    harness.model.say("looked")
    await harness.sent(2)
    await harness.wait_until_answered()
    assert harness.sent_texts[1:] == ["looked"]


async def replaced_run(harness: SubscriberHarness, subscriber: str) -> AsyncIterator[None]:
    await _add_job(harness, "every hour", "overlap=replace")
    _advance(harness, 3600)
    await harness.model.wait_for_request(1)
    harness.fail(subscriber, RunPlan)
    _advance(harness, 3600)
    yield
    await harness.until(lambda: _a_run_was_stopped(harness))
    harness.model.say("the second")
    await harness.sent(2)
    await harness.wait_until_answered()
    assert harness.sent_texts[1:] == ["the second"]


async def _add_job(harness: SubscriberHarness, when: str, options: str = "") -> None:
    harness.say(f'/cron add "{when}" {options} look')
    await harness.sent(1)


def _advance(harness: SubscriberHarness, seconds: float) -> None:
    harness.manual_clock.at += seconds
    harness.gateway.scheduler.wake()


async def _a_run_was_stopped(harness: SubscriberHarness) -> bool:
    runs = await harness.store.read(ListJobRuns(job_id=JobId(1), limit=5))
    return any(run.state is RunState.STOPPED for run in runs)


async def _a_job_is_stored(harness: SubscriberHarness) -> bool:
    return bool(await harness.store.read(ListJobs(limit=1)))


async def pairing(harness: SubscriberHarness, subscriber: str) -> AsyncIterator[None]:
    """Both the request and its approval."""
    harness.fail(subscriber)
    code = await request_code(harness)
    await _restart(harness)
    harness.fail(subscriber)
    await harness.gateway.pairing.approve(code, by=OPERATOR)
    yield
    harness.model.say("one")
    harness.say("hello", chat="eve", user="eve")
    await harness.until(lambda: harness.sent_texts[-1] == "one")


WORK: dict[str, list[Scenario]] = {
    "ApprovalService": [question, answer_to_a_question],
    "CommandEffects": [chat_command],
    "GatewayIntake": [message, message_of_a_client, background_work, awaited_work],
    "JobExecutor": [run_of_a_job, replaced_run],
    "Lanes": [message, steer],
    "MemoryManager": [message],
    "publish_message_ends": [message, message_of_a_client, steer, awaited_work],
    "OutboxWorker": [message, question, answer_to_a_question, chat_command, job],
    "PairedUsers": [pairing],
    "Scheduler": [job],
    "SubagentSupervisor": [background_work, awaited_work],
}
"""The work that the commits carry for each subscriber."""


@pytest.fixture
async def harness(tmp_path: Path, until: Until, call: Call) -> AsyncIterator[SubscriberHarness]:
    harness = SubscriberHarness(tmp_path / "state.db", until, call)
    await harness.start()
    yield harness
    await harness.stop()


async def _restart(harness: SubscriberHarness) -> None:
    """Once the subscriber has failed."""
    await harness.until(lambda: harness.events.failures > 0)
    await harness.stop()
    await harness.start()


@pytest.mark.parametrize(
    ("subscriber", "scenario"),
    [(name, scenario) for name, scenarios in WORK.items() for scenario in scenarios],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
async def test_work_of_a_subscriber_that_failed_is_done_once_after_a_restart(
    harness: SubscriberHarness, subscriber: str, scenario: Scenario
) -> None:
    """Law 4: a failure costs a restart, and no message."""
    steps = scenario(harness, subscriber)
    await anext(steps)
    await _restart(harness)
    async with asyncio.timeout(60):
        assert await anext(steps, "done") == "done"
    assert not await harness.store.read(ListOpenTurns())


@pytest.mark.parametrize("subscriber", sorted(WITHOUT_WORK))
async def test_a_message_is_answered_although_a_subscriber_without_work_fails(
    harness: SubscriberHarness, subscriber: str
) -> None:
    """Law 4: in the same process, since no other subscriber is affected."""
    harness.fail(subscriber)
    harness.model.say("one")
    harness.say("hello")
    await harness.sent(1)
    await harness.wait_until_answered()
    assert harness.sent_texts == ["one"]


async def test_every_subscriber_is_tested(harness: SubscriberHarness) -> None:
    """One that is added to `Gateway._subscribe` carries work or says why it does not."""
    assert harness.events.subscribers == {*WORK, *WITHOUT_WORK}

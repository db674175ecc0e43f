"""How the house stands: what status says of turns, queues, deliveries and platforms is so."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest
from tests.support.gateway_harness import Call, GatewayHarness, Until

from holdfast.core.messages.inbox import BusyMode, Inbound
from holdfast.core.messages.outbox import Outbound, Receipt
from holdfast.core.messages.source import ChatType, Source
from holdfast.core.ops.status import AccountStatus, GatewaySnapshot, TurnStatus
from holdfast.core.ports.capabilities import Backlog, Capabilities
from holdfast.core.ports.platform import Intake
from holdfast.core.ports.runtime import Clock
from holdfast.core.turns.stop import StopKind, StopOrder, StopRequester
from holdfast.core.turns.tool import ReplayClass
from holdfast.gateway.lifecycle.stop_request import RestartController, StopRequest
from holdfast.gateway.live.snapshot import MAX_LISTED
from holdfast.gateway.sessions.resolver import route_of
from holdfast.server.status.gateway_status import RUNNING, GatewayStatus
from holdfast.testing.simulated.events import Faults


def stands(harness: GatewayHarness) -> GatewaySnapshot:
    """What the gateway says, as the fields of a snapshot: one that it does not have raises."""
    return GatewaySnapshot(**harness.gateway.snapshot())


def only_turn(harness: GatewayHarness) -> TurnStatus:
    (turn,) = stands(harness).open_turns
    return turn


def simulated(harness: GatewayHarness) -> AccountStatus:
    (platform,) = [p for p in stands(harness).platforms if p.name == "simulated"]
    return platform


async def test_an_idle_gateway_reports_nothing_open(harness: GatewayHarness) -> None:
    facts = stands(harness)
    assert (facts.open_turns, facts.more_turns, facts.in_flight, facts.queued) == ((), 0, 0, 0)
    assert (facts.outbox, facts.outbox_since, facts.queued_since) == (0, None, None)
    assert set(facts.turns.values()) == {0}


async def test_an_open_turn_shows_its_step_its_start_and_its_running_tool(
    harness: GatewayHarness, call: Call
) -> None:
    lever = harness.held_tools[ReplayClass.SAFE]
    lever.go.clear()
    harness.model.say([call("safe")])
    accepted = await harness.accept("pull it", chat="here")
    await lever.wait_until_started(1)
    turn = only_turn(harness)
    assert (turn.state, turn.platform, turn.chat) == ("running", "api", "here")
    assert (turn.step, turn.tools) == (2, ("safe",))
    assert accepted.row.accepted_at <= turn.started_at <= harness.clock.now()
    facts = stands(harness)
    assert facts.turns["running"] == 1 and facts.agents.mid_turn == 1
    lever.go.set()
    await harness.model.wait_for_request(2)
    assert only_turn(harness).tools == ()
    harness.model.say("done")
    await harness.end_of(accepted)


async def test_queued_messages_are_counted_with_their_age(harness: GatewayHarness) -> None:
    first = await harness.accept("one")
    await harness.model.wait_for_request(1)
    second = await harness.accept("two", busy_mode=BusyMode.QUEUE)
    await harness.accept("three", busy_mode=BusyMode.QUEUE)
    facts = stands(harness)
    assert (facts.in_flight, facts.queued) == (3, 2)
    assert facts.queued_since == second.row.accepted_at
    assert only_turn(harness).queued == 2
    harness.model.say("1", "2", "3")
    await harness.end_of(first)


async def test_all_turns_are_counted_and_the_oldest_listed(harness: GatewayHarness) -> None:
    number = MAX_LISTED + 20
    accepted = [await harness.accept("hi", chat=f"c{n}") for n in range(number)]
    await harness.model.wait_for_request(number)
    facts = stands(harness)
    assert facts.turns["running"] == number
    assert (len(facts.open_turns), facts.more_turns) == (MAX_LISTED, 20)
    ages = [turn.started_at for turn in facts.open_turns]
    assert ages == sorted(ages)
    harness.model.say(*["yes"] * number)
    await asyncio.gather(*map(harness.end_of, accepted))


async def test_a_stuck_delivery_shows_since_when_it_is_pending(
    harness: GatewayHarness, until: Until
) -> None:
    harness.service.set_faults(Faults(floods=100_000, retry_after=0.05))
    harness.model.say("an answer")
    before = harness.clock.now()
    harness.say("hi")
    await until(lambda: stands(harness).outbox == 1)
    since = stands(harness).outbox_since
    assert since is not None and before <= since <= harness.clock.now()
    harness.service.set_faults(Faults())
    await harness.sent(1)
    await until(lambda: stands(harness).outbox_since is None)


async def test_round_trips_prove_that_a_platform_is_connected(
    harness: GatewayHarness, until: Until
) -> None:
    """Law 9: connecting, a poll that brings something, and a receipt each prove it."""
    connected = simulated(harness).last_ok_at
    assert connected is not None and connected <= harness.clock.now()
    assert simulated(harness).backlog == "until_acked" and not simulated(harness).built_in
    harness.model.say("an answer")
    harness.say("hi")
    await harness.model.wait_for_request(1)
    polled = simulated(harness).last_ok_at
    assert polled is not None and polled > connected
    await harness.sent(1)
    await until(lambda: (simulated(harness).last_ok_at or 0) > polled)


async def test_built_in_platforms_count_as_connected_and_a_failed_one_shows_its_error(
    tmp_path: Any,
) -> None:
    class Shut:
        name = "shut"
        account = "a"
        capabilities = Capabilities(backlog=Backlog.NONE)

        def connect(self, intake: Intake) -> Any:
            raise ConnectionError("there is nobody")

        async def send(self, outbound: Outbound) -> Receipt:
            raise AssertionError("nothing is owed there")

    harness = GatewayHarness(tmp_path / "state.db")
    harness.extra_platforms = [Shut()]
    async with AsyncExitStack() as stack:
        await harness.start()
        stack.push_async_callback(harness.stop)
        platforms = {platform.name: platform for platform in stands(harness).platforms}
        now = harness.clock.now()
        assert set(platforms) == {"shut", "simulated", "api"}, "the doors inside are nobody's"
        assert platforms["api"].built_in and platforms["api"].connected(now)
        assert not platforms["shut"].connected(now) and platforms["shut"].error


@pytest.mark.parametrize(
    ("kind", "words"),
    [(StopKind.RESTART, "It is restarting now."), (StopKind.STOP, "It is shutting down now.")],
)
async def test_the_status_command_shows_a_pending_stop_or_restart(
    harness: GatewayHarness, kind: StopKind, words: str
) -> None:
    await harness.stop()
    lifecycle = RestartController(StopRequest(), check=_fit, wait_until_idle=_never_quiet)
    harness.lifecycle = lifecycle
    await harness.start()

    async def status() -> str:
        return (await harness.end_of(await harness.accept("/status"))).text

    assert "restart" not in await status()
    order = StopOrder(kind=kind, by=StopRequester.CLI, at=1.0)
    if kind is StopKind.RESTART:
        await lifecycle.restart(order, when_idle=True)
        assert "A restart waits until no turn runs." in await status()
    lifecycle.stop(order)
    assert words in await status()


async def _fit(soon: bool) -> None:
    """A successor could start."""


async def _never_quiet() -> None:
    await asyncio.Event().wait()


class _Later:
    """The same clock, minutes later."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def now(self) -> float:
        return self._clock.now() + 300

    def monotonic(self) -> float:
        return self._clock.monotonic() + 300


async def test_an_orphaned_message_is_reported_and_answered_by_the_next_start(
    harness: GatewayHarness,
) -> None:
    """G3: the ledger balances only if whatever is open has somebody who brings it to its end."""
    facts = GatewayStatus(clock=_Later(harness.clock), stop_order=lambda: None)
    facts.use_store(harness.store)
    facts.track_owned(harness.gateway.open_message_ids)
    facts.enter_phase(RUNNING)
    worked_on = await harness.accept("hi", chat="worked on")
    await harness.model.wait_for_request(1)
    assert (await facts.fresh_snapshot()).orphaned == 0

    source = Source(platform="api", chat_id="lost", user_id="owner", chat_type=ChatType.DM)
    lost = await harness.store.accept(
        Inbound(source=source, text="and I?", event_id="lost", message_id="lost"),
        route=route_of(source, harness.settings.sessions),
        principal=worked_on.row.principal,
        at=harness.clock.now(),
    )
    told = await facts.fresh_snapshot()
    assert (told.orphaned, told.orphaned_since) == (1, lost.row.accepted_at)
    harness.model.say("yes")
    await harness.end_of(worked_on)
    assert (await facts.fresh_snapshot()).orphaned == 1
    await harness.stop()
    harness.model.say("you too")
    await harness.start()
    assert (await harness.end_of(lost)).text == "you too"

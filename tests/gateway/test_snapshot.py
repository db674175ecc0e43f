"""The status snapshot of a gateway: turns, queues, deliveries and platforms."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
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
from holdfast.core.ports.store_commands import AcceptMessage
from holdfast.core.turns.stop import StopKind, StopOrder, StopRequester
from holdfast.core.turns.tool import ReplayClass
from holdfast.gateway.lifecycle.stop_request import RestartController, StopRequest
from holdfast.gateway.sessions.resolver import route_of
from holdfast.gateway.snapshot import MAX_LISTED
from holdfast.server.status.gateway_status import RUNNING, GatewayStatus
from holdfast.testing.simulated.events import Faults


def snapshot_of(harness: GatewayHarness) -> GatewaySnapshot:
    """The snapshot as a struct: an unknown field raises an error."""
    return GatewaySnapshot(**harness.gateway.snapshot())


def only_turn(harness: GatewayHarness) -> TurnStatus:
    (turn,) = snapshot_of(harness).open_turns
    return turn


def simulated_status(harness: GatewayHarness) -> AccountStatus:
    (platform,) = [p for p in snapshot_of(harness).platforms if p.name == "simulated"]
    return platform


async def test_an_idle_gateway_reports_nothing_open(harness: GatewayHarness) -> None:
    snapshot = snapshot_of(harness)
    assert (snapshot.open_turns, snapshot.more_turns, snapshot.in_flight, snapshot.queued) == (
        (),
        0,
        0,
        0,
    )
    assert (snapshot.outbox, snapshot.outbox_since, snapshot.queued_since) == (0, None, None)
    assert set(snapshot.turns.values()) == {0}


async def test_an_open_turn_shows_its_step_its_start_and_its_running_tool(
    harness: GatewayHarness, call: Call
) -> None:
    held_tool = harness.held_tools[ReplayClass.SAFE]
    held_tool.go.clear()
    harness.model.say([call("safe")])
    accepted = await harness.accept("pull it", chat="here")
    await held_tool.wait_until_started(1)
    turn = only_turn(harness)
    assert (turn.state, turn.platform, turn.chat) == ("running", "api", "here")
    assert (turn.step, turn.tools) == (2, ("safe",))
    assert accepted.row.accepted_at <= turn.started_at <= harness.clock.now()
    snapshot = snapshot_of(harness)
    assert snapshot.turns["running"] == 1 and snapshot.agents.mid_turn == 1
    held_tool.go.set()
    await harness.model.wait_for_request(2)
    assert only_turn(harness).tools == ()
    harness.model.say("done")
    await harness.end_of(accepted)


async def test_queued_messages_are_counted_with_their_age(harness: GatewayHarness) -> None:
    first = await harness.accept("one")
    await harness.model.wait_for_request(1)
    second = await harness.accept("two", busy_mode=BusyMode.QUEUE)
    await harness.accept("three", busy_mode=BusyMode.QUEUE)
    snapshot = snapshot_of(harness)
    assert (snapshot.in_flight, snapshot.queued) == (3, 2)
    assert snapshot.queued_since == second.row.accepted_at
    assert only_turn(harness).queued == 2
    harness.model.say("1", "2", "3")
    await harness.end_of(first)


async def test_all_turns_are_counted_and_the_oldest_listed(harness: GatewayHarness) -> None:
    number = MAX_LISTED + 20
    accepted = [await harness.accept("hi", chat=f"c{n}") for n in range(number)]
    await harness.model.wait_for_request(number)
    snapshot = snapshot_of(harness)
    assert snapshot.turns["running"] == number
    assert (len(snapshot.open_turns), snapshot.more_turns) == (MAX_LISTED, 20)
    ages = [turn.started_at for turn in snapshot.open_turns]
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
    await until(lambda: snapshot_of(harness).outbox == 1)
    since = snapshot_of(harness).outbox_since
    assert since is not None and before <= since <= harness.clock.now()
    harness.service.set_faults(Faults())
    await harness.sent(1)
    await until(lambda: snapshot_of(harness).outbox_since is None)


async def test_round_trips_prove_that_a_platform_is_connected(
    harness: GatewayHarness, until: Until
) -> None:
    """Law 9: connecting, a poll that brings something, and a receipt each prove it."""
    connected = simulated_status(harness).last_ok_at
    assert connected is not None and connected <= harness.clock.now()
    assert (
        simulated_status(harness).backlog == "until_acked"
        and not simulated_status(harness).built_in
    )
    harness.model.say("an answer")
    harness.say("hi")
    await harness.model.wait_for_request(1)
    polled = simulated_status(harness).last_ok_at
    assert polled is not None and polled > connected
    await harness.sent(1)
    await until(lambda: (simulated_status(harness).last_ok_at or 0) > polled)


async def test_built_in_platforms_count_as_connected_and_a_failed_one_shows_its_error(
    tmp_path: Path,
) -> None:
    class RefusingPlatform:
        name = "shut"
        account = "a"
        capabilities = Capabilities(backlog=Backlog.NONE)

        def connect(self, intake: Intake) -> Any:
            raise ConnectionError("no such host")

        async def send(self, outbound: Outbound) -> Receipt:
            raise AssertionError("nothing is sent there")

    harness = GatewayHarness(tmp_path / "state.db")
    harness.extra_platforms = [RefusingPlatform()]
    async with AsyncExitStack() as stack:
        await harness.start()
        stack.push_async_callback(harness.stop)
        platforms = {platform.name: platform for platform in snapshot_of(harness).platforms}
        now = harness.clock.now()
        assert set(platforms) == {"shut", "simulated", "api"}, "internal platforms are not listed"
        assert platforms["api"].built_in and platforms["api"].connected(now)
        assert not platforms["shut"].connected(now) and platforms["shut"].error


@pytest.mark.parametrize(
    ("kind", "notice"),
    [
        (StopKind.RESTART, "The gateway is restarting now."),
        (StopKind.STOP, "The gateway is shutting down now."),
    ],
)
async def test_the_status_command_shows_a_pending_stop_or_restart(
    harness: GatewayHarness, kind: StopKind, notice: str
) -> None:
    await harness.stop()
    lifecycle = RestartController(StopRequest(), check=_accept_restart, wait_until_idle=_never_idle)
    harness.lifecycle = lifecycle
    await harness.start()

    async def status() -> str:
        return (await harness.end_of(await harness.accept("/status"))).text

    assert "restart" not in await status()
    order = StopOrder(kind=kind, by=StopRequester.CLI, at=1.0)
    if kind is StopKind.RESTART:
        await lifecycle.restart(order, when_idle=True)
        assert "A restart is scheduled for when the gateway is idle." in await status()
    lifecycle.stop(order)
    assert notice in await status()


async def _accept_restart(soon: bool) -> None:
    """Accept every restart."""


async def _never_idle() -> None:
    await asyncio.Event().wait()


class _LaterClock:
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
    """G3: the ledger balances only if each open message has an owner that will end it."""
    status = GatewayStatus(clock=_LaterClock(harness.clock), stop_order=lambda: None)
    status.use_store(harness.store)
    status.track_owned(harness.gateway.open_message_ids)
    status.enter_phase(RUNNING)
    worked_on = await harness.accept("hi", chat="worked on")
    await harness.model.wait_for_request(1)
    assert (await status.fresh_snapshot()).orphaned == 0

    source = Source(platform="api", chat_id="lost", user_id="owner", chat_type=ChatType.DM)
    harness.gateway.intake.close()  # stored, and not routed
    lost = await harness.store.write(
        AcceptMessage(
            inbound=Inbound(source=source, text="and I?", event_id="lost", message_id="lost"),
            route=route_of(source, harness.settings.sessions),
            principal=worked_on.row.principal,
            at=harness.clock.now(),
        )
    )
    snapshot = await status.fresh_snapshot()
    assert (snapshot.orphaned, snapshot.orphaned_since) == (1, lost.row.accepted_at)
    harness.model.say("yes")
    await harness.end_of(worked_on)
    assert (await status.fresh_snapshot()).orphaned == 1
    await harness.stop()
    harness.model.say("you too")
    await harness.start()
    assert (await harness.end_of(lost)).text == "you too"

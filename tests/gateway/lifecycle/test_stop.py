"""Tests of a plain stop: phases in order, no task left, everything stored (C1, C4, C6, C8)."""

import asyncio

from tests.support.gateway_harness import GatewayHarness

from holdfast.gateway.lifecycle.phases import Phase, run_phases
from holdfast.testing.simulated.events import Faults


async def test_a_phase_that_fails_or_hangs_skips_no_other() -> None:
    """C1: one phase's failure is logged and never skips the next; each has its own deadline."""
    ran: list[str] = []

    async def fails() -> None:
        ran.append("fails")
        raise ValueError("broken")

    async def hangs() -> None:
        ran.append("hangs")
        await asyncio.Event().wait()

    async def works() -> None:
        ran.append("works")

    phases = [Phase("one", 1, fails), Phase("two", 0.02, hangs), Phase("three", 1, works)]
    reported: list[str] = []
    await run_phases(phases, progress=reported.append)
    assert ran == ["fails", "hangs", "works"]
    assert reported == ["one", "two", "three"]


async def test_the_phases_of_a_stop_have_a_fixed_order(harness: GatewayHarness) -> None:
    """C1, C4: intake closes before turns end, and tools are killed before platforms disconnect."""
    await harness.stop()
    phases = harness.states[harness.states.index("connecting") + 1 :]
    order = ["close intake", "interrupt", "kill tools", "empty the cache", "disconnect platforms"]
    assert [phase for phase in phases if phase in order] == order
    assert harness.runners.all_ended == 1
    await harness.start()


async def test_a_stop_leaves_no_task_behind(harness: GatewayHarness) -> None:
    """C6: running turns, mailboxes and watchers are empty afterwards."""
    await harness.accept("work")
    await harness.model.wait_for_request(1)
    await harness.stop()
    assert len(harness.gateway.lanes) == 0
    assert harness.model.leased == 0
    others = {task.get_name() for task in asyncio.all_tasks()} - {"Task-1"}
    assert not [name for name in others if name.startswith(("lane", "turn", "deliver", "command"))]
    await harness.start()


def _left_running() -> list[str]:
    names = [task.get_name() for task in asyncio.all_tasks()]
    prefixes = (
        "lane",
        "turn",
        "deliver",
        "command",
        "platform",
        "feed",
        "gateway task group",
        "expiry",
    )
    return [name for name in names if name.startswith(prefixes)]


async def test_a_stop_leaves_nothing_of_any_account_behind(harness: GatewayHarness) -> None:
    """C8, C6: no task, no lane, no mailbox, no approval; and `stopped` is set."""
    harness.say("work", chat="one")
    harness.say("work", chat="two")
    await harness.accept("work")
    await harness.model.wait_for_request(3)
    harness.say("/queue and then", chat="one")
    async with asyncio.timeout(30):
        while not sum(lane.queued for lane in harness.gateway.lanes):
            await asyncio.sleep(0.005)
    assert not harness.gateway.stopped.is_set()
    await harness.stop()
    assert harness.gateway.stopped.is_set()
    assert _left_running() == []
    assert (len(harness.gateway.lanes), harness.gateway.lanes._routes) == (0, {})
    assert len(harness.gateway.cache) == 0
    await harness.start()


async def test_a_reconnect_of_an_account_cancels_no_turn(harness: GatewayHarness) -> None:
    """C8: the turn continues while its platform is disconnected, and its answer waits."""
    harness.say("work")
    await harness.model.wait_for_request(1)
    lane = next(iter(harness.gateway.lanes))
    turn = lane.running_turn
    assert turn is not None
    harness.service.set_faults(Faults(disconnected=True))
    harness.model.say("worked")
    async with asyncio.timeout(30):
        while await harness.ledger() != {"answered": 1}:
            await asyncio.sleep(0.005)
    assert (turn.interrupt_reason, turn.answer) == ("", "worked")
    harness.service.set_faults(Faults())
    assert await harness.texts(1) == ["worked"]


async def test_a_stop_ends_event_subscriptions(harness: GatewayHarness) -> None:
    """A subscriber learns that this process will send no answer."""
    accepted = await harness.accept("work")
    await harness.model.wait_for_request(1)
    watching = asyncio.create_task(harness.events_of(accepted))
    await asyncio.sleep(0)
    await harness.stop()
    assert [event for event in await watching if type(event).__name__ == "MessageEnded"] == []
    await harness.start()

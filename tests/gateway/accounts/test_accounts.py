"""Several accounts, one of them in trouble: what the others, the turns and the outbox notice."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.gateway_harness import Until
from tests.support.two_accounts import Late, Two

from holdfast.core.errors import AccountDisconnected
from holdfast.core.ops.account import AccountState, NoSuchAccount
from holdfast.gateway.accounts.accounts import NotPausable
from holdfast.testing.simulated.events import Faults
from holdfast.testing.simulated.platform import SimulatedPlatform
from holdfast.testing.simulated.service import ChatService


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[Two]:
    harness = Two(tmp_path / "state.db")
    yield harness
    await harness.stop()


async def test_each_account_answers_only_its_own_users(two: Two, until: Until) -> None:
    """Whoever may talk to one account may not therefore talk to another."""
    await two.start()
    two.model.say("at home")
    two.say("hello", user="ann")
    assert await two.texts(1) == ["at home"]
    two.model.say("at work")
    two.say_at_work("hello")
    assert await two.sent_at_work(1) == ["at work"]
    two.say_at_work("hello", user="ann")
    await until(lambda: all(said.acked for said in two.work.ledger().said))
    assert (await two.ledger())["answered"] == 2


async def test_pending_deliveries_of_a_disconnected_account_are_sent_in_order_on_reconnect(
    two: Two, until: Until
) -> None:
    """I2, I3: nothing is tried meanwhile, no attempt is used up, and nobody else waits for it."""
    await two.start()
    two.say_at_work("one")
    await two.model.wait_for_request(1)
    two.work.set_faults(Faults(disconnected=True))
    two.gateway.intake.report_lost("simulated", "work", AccountDisconnected("the line was cut"))
    await until(lambda: two.facts().failures > 1)
    two.model.say("first", "second", "third")
    await until(lambda: len(two.gateway.outbox) == 1)
    two.say("hello")
    assert await two.texts(1) == ["second"]
    assert two.work.ledger().attempts == ()
    two.say_at_work("two")  # which waits at its platform
    two.work.set_faults(Faults())
    assert await two.sent_at_work(2) == ["first", "third"]
    assert two.facts().connected(two.clock.now())


async def test_a_slow_account_delays_no_other_and_gets_its_reply_once_connected(
    two: Two,
) -> None:
    """H3: a turn that was cut goes on by itself, and what it says waits for its platform."""
    await two.start()
    two.say_at_work("work")
    await two.model.wait_for_request(1)
    await two.die()
    late = Late(two.work)
    two.extra_platforms = [late]
    two.model.say("gone on with", "hello ann")
    async with asyncio.timeout(20):
        await two.start()
    assert two.facts().state is AccountState.CONNECTING
    await two.model.wait_for_request(2)
    two.say("hello")
    assert await two.texts(1) == ["hello ann"]
    assert two.work.ledger().sent == ()
    late.let_in.set()
    assert await two.sent_at_work(1) == ["gone on with"]


async def test_a_refused_account_shows_the_reason_and_the_other_account_works(
    two: Two, until: Until
) -> None:
    two.work.set_faults(Faults(connect_refused="the token is revoked"))
    await two.start()
    await until(lambda: two.facts().state is AccountState.BLOCKED)
    assert (two.facts().error, bool(two.facts().remedy)) == ("the token is revoked", True)
    two.model.say("here")
    two.say("anybody?")
    assert await two.texts(1) == ["here"]
    two.work.set_faults(Faults())
    resumed = await two.gateway.accounts.resume("simulated", "work")
    assert resumed.state is AccountState.CONNECTED


async def test_a_pause_interrupts_no_turn_loses_nothing_and_survives_a_restart(
    two: Two, until: Until
) -> None:
    """C8: what a turn answers meanwhile waits, and so does what people write."""
    await two.start()
    two.say_at_work("one")
    await two.model.wait_for_request(1)
    paused = await two.gateway.accounts.pause("simulated", "work")
    assert paused.state is AccountState.PAUSED
    two.model.say("first")
    await until(lambda: len(two.gateway.outbox) == 1)
    await two.stop()
    await two.start()
    assert two.facts().state is AccountState.PAUSED
    two.say_at_work("two")
    two.model.say("hello ann")
    two.say("hello")
    assert await two.texts(1) == ["hello ann"]
    assert two.work.ledger().sent == ()
    two.model.say("second")
    await two.gateway.accounts.resume("simulated", "work")
    assert await two.sent_at_work(2) == ["first", "second"]


async def test_a_platform_that_hangs_while_closing_does_not_delay_a_stop(two: Two) -> None:
    """C1, C8: the rest is closed, and its own task does not outlive the stop."""
    late = Late(two.work)
    late.let_in.set()
    two.extra_platforms = [late]
    await two.start()
    await two.gateway.accounts.check("simulated", "work")
    late.let_out.clear()
    async with asyncio.timeout(30):
        await two.stop()
    left = [task.get_name() for task in asyncio.all_tasks() if "simulated" in task.get_name()]
    assert left == []


async def test_a_check_is_a_round_trip_and_a_dead_connection_is_replaced(
    two: Two, until: Until
) -> None:
    """Law 9."""
    await two.start()
    await until(lambda: two.facts().state is AccountState.CONNECTED)
    before = two.facts().last_ok_at
    assert before is not None
    checked = await two.gateway.accounts.check("simulated", "work")
    assert checked.last_ok_at is not None and checked.last_ok_at > before
    two.work.set_faults(Faults(disconnected=True))
    checked = await two.gateway.accounts.check("simulated", "work")
    assert not checked.connected(two.clock.now()) and "disconnected" in checked.error
    two.work.set_faults(Faults())
    await until(lambda: two.facts().connected(two.clock.now()))


async def test_a_half_open_connection_is_replaced_and_no_message_is_lost(
    two: Two, until: Until
) -> None:
    """Law 9, G1: nobody tells a door that its line is half-open; the silence does."""
    two.work = ChatService(alive_within=0.5)
    door = SimulatedPlatform(two.work, account="work", poll_wait=0.05, send_timeout=0.5)
    two.extra_platforms = [door]
    await two.start()
    await until(lambda: two.facts().state is AccountState.CONNECTED)
    two.work.set_faults(Faults(half_open=True))
    two.say_at_work("is anybody there?")
    await until(lambda: two.facts().failures > 1)
    assert not two.facts().connected(two.clock.now())
    two.model.say("yes")
    two.work.set_faults(Faults())
    assert await two.sent_at_work(1) == ["yes"]
    await until(lambda: two.facts().connected(two.clock.now()))


async def test_built_in_platforms_cannot_be_paused_and_unknown_accounts_are_reported(
    two: Two,
) -> None:
    await two.start()
    with pytest.raises(NotPausable, match="enabled = false"):
        await two.gateway.accounts.pause("api", "default")
    for name, account in (("simulated", "play"), ("pigeon", "default"), ("house", "runs")):
        with pytest.raises(NoSuchAccount, match="simulated:default"):
            await two.gateway.accounts.pause(name, account)

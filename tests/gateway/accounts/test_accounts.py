"""A failing account: its effect on other accounts, on turns and on the outbox (C8, I2, I3)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.gateway_harness import Until
from tests.support.two_accounts import GatedPlatform, TwoAccountsHarness

from holdfast.core.errors import AccountDisconnected
from holdfast.core.ops.account import AccountState, NoSuchAccount
from holdfast.gateway.accounts.accounts import NotPausable
from holdfast.testing.simulated.events import Faults
from holdfast.testing.simulated.platform import SimulatedPlatform
from holdfast.testing.simulated.service import ChatService


@pytest.fixture
async def two_accounts(tmp_path: Path) -> AsyncIterator[TwoAccountsHarness]:
    harness = TwoAccountsHarness(tmp_path / "state.db")
    yield harness
    await harness.stop()


async def test_each_account_answers_only_its_own_users(
    two_accounts: TwoAccountsHarness, until: Until
) -> None:
    """A user of one account is not a user of another."""
    await two_accounts.start()
    two_accounts.model.say("at home")
    two_accounts.say("hello", user="ann")
    assert await two_accounts.texts(1) == ["at home"]
    two_accounts.model.say("at work")
    two_accounts.say_to_work("hello")
    assert await two_accounts.work_texts(1) == ["at work"]
    two_accounts.say_to_work("hello", user="ann")
    await until(lambda: all(said.acked for said in two_accounts.work.ledger().said))
    assert (await two_accounts.ledger())["answered"] == 2


async def test_pending_deliveries_of_a_disconnected_account_are_sent_in_order_on_reconnect(
    two_accounts: TwoAccountsHarness, until: Until
) -> None:
    """I2, I3: nothing is tried meanwhile, no attempt is used up, and no other account waits."""
    await two_accounts.start()
    two_accounts.say_to_work("one")
    await two_accounts.model.wait_for_request(1)
    two_accounts.work.set_faults(Faults(disconnected=True))
    two_accounts.gateway.intake.report_lost(
        "simulated", "work", AccountDisconnected("the line was cut")
    )
    await until(lambda: two_accounts.status_of().failures > 1)
    two_accounts.model.say("first", "second", "third")
    await until(lambda: len(two_accounts.gateway.outbox) == 1)
    two_accounts.say("hello")
    assert await two_accounts.texts(1) == ["second"]
    assert two_accounts.work.ledger().attempts == ()
    two_accounts.say_to_work("two")  # which waits at its platform
    two_accounts.work.set_faults(Faults())
    assert await two_accounts.work_texts(2) == ["first", "third"]
    assert two_accounts.status_of().connected(two_accounts.clock.now())


async def test_a_slow_account_delays_no_other_and_gets_its_reply_once_connected(
    two_accounts: TwoAccountsHarness,
) -> None:
    """H3: an interrupted turn is resumed at the start, and its reply waits for its platform."""
    await two_accounts.start()
    two_accounts.say_to_work("work")
    await two_accounts.model.wait_for_request(1)
    await two_accounts.die()
    gated = GatedPlatform(two_accounts.work)
    two_accounts.extra_platforms = [gated]
    two_accounts.model.say("gone on with", "hello ann")
    async with asyncio.timeout(20):
        await two_accounts.start()
    assert two_accounts.status_of().state is AccountState.CONNECTING
    await two_accounts.model.wait_for_request(2)
    two_accounts.say("hello")
    assert await two_accounts.texts(1) == ["hello ann"]
    assert two_accounts.work.ledger().sent == ()
    gated.may_connect.set()
    assert await two_accounts.work_texts(1) == ["gone on with"]


async def test_a_refused_account_shows_the_reason_and_the_other_account_works(
    two_accounts: TwoAccountsHarness, until: Until
) -> None:
    two_accounts.work.set_faults(Faults(connect_refused="the token is revoked"))
    await two_accounts.start()
    await until(lambda: two_accounts.status_of().state is AccountState.BLOCKED)
    assert (two_accounts.status_of().error, bool(two_accounts.status_of().remedy)) == (
        "the token is revoked",
        True,
    )
    two_accounts.model.say("here")
    two_accounts.say("anybody?")
    assert await two_accounts.texts(1) == ["here"]
    two_accounts.work.set_faults(Faults())
    resumed = await two_accounts.gateway.accounts.resume("simulated", "work")
    assert resumed.state is AccountState.CONNECTED


async def test_a_pause_interrupts_no_turn_loses_nothing_and_survives_a_restart(
    two_accounts: TwoAccountsHarness, until: Until
) -> None:
    """C8: the reply of a running turn waits, and so do new messages."""
    await two_accounts.start()
    two_accounts.say_to_work("one")
    await two_accounts.model.wait_for_request(1)
    paused = await two_accounts.gateway.accounts.pause("simulated", "work")
    assert paused.state is AccountState.PAUSED
    two_accounts.model.say("first")
    await until(lambda: len(two_accounts.gateway.outbox) == 1)
    await two_accounts.stop()
    await two_accounts.start()
    assert two_accounts.status_of().state is AccountState.PAUSED
    two_accounts.say_to_work("two")
    two_accounts.model.say("hello ann")
    two_accounts.say("hello")
    assert await two_accounts.texts(1) == ["hello ann"]
    assert two_accounts.work.ledger().sent == ()
    two_accounts.model.say("second")
    await two_accounts.gateway.accounts.resume("simulated", "work")
    assert await two_accounts.work_texts(2) == ["first", "second"]


async def test_a_platform_that_hangs_while_closing_does_not_delay_a_stop(
    two_accounts: TwoAccountsHarness,
) -> None:
    """C1, C8: the rest is closed, and its own task does not outlive the stop."""
    gated = GatedPlatform(two_accounts.work)
    gated.may_connect.set()
    two_accounts.extra_platforms = [gated]
    await two_accounts.start()
    await two_accounts.gateway.accounts.check("simulated", "work")
    gated.may_close.clear()
    async with asyncio.timeout(30):
        await two_accounts.stop()
    left = [task.get_name() for task in asyncio.all_tasks() if "simulated" in task.get_name()]
    assert left == []


async def test_a_check_is_a_round_trip_and_a_dead_connection_is_replaced(
    two_accounts: TwoAccountsHarness, until: Until
) -> None:
    """Law 9."""
    await two_accounts.start()
    await until(lambda: two_accounts.status_of().state is AccountState.CONNECTED)
    before = two_accounts.status_of().last_ok_at
    assert before is not None
    checked = await two_accounts.gateway.accounts.check("simulated", "work")
    assert checked.last_ok_at is not None and checked.last_ok_at > before
    two_accounts.work.set_faults(Faults(disconnected=True))
    checked = await two_accounts.gateway.accounts.check("simulated", "work")
    assert not checked.connected(two_accounts.clock.now()) and "disconnected" in checked.error
    two_accounts.work.set_faults(Faults())
    await until(lambda: two_accounts.status_of().connected(two_accounts.clock.now()))


async def test_a_half_open_connection_is_replaced_and_no_message_is_lost(
    two_accounts: TwoAccountsHarness, until: Until
) -> None:
    """Law 9, G1: silence is the only sign of a half-open connection."""
    two_accounts.work = ChatService(alive_within=0.5)
    platform = SimulatedPlatform(
        two_accounts.work, account="work", poll_wait=0.05, send_timeout=0.5
    )
    two_accounts.extra_platforms = [platform]
    await two_accounts.start()
    await until(lambda: two_accounts.status_of().state is AccountState.CONNECTED)
    two_accounts.work.set_faults(Faults(half_open=True))
    two_accounts.say_to_work("is anybody there?")
    await until(lambda: two_accounts.status_of().failures > 1)
    assert not two_accounts.status_of().connected(two_accounts.clock.now())
    two_accounts.model.say("yes")
    two_accounts.work.set_faults(Faults())
    assert await two_accounts.work_texts(1) == ["yes"]
    await until(lambda: two_accounts.status_of().connected(two_accounts.clock.now()))


async def test_built_in_platforms_cannot_be_paused_and_unknown_accounts_are_reported(
    two_accounts: TwoAccountsHarness,
) -> None:
    await two_accounts.start()
    with pytest.raises(NotPausable, match="enabled = false"):
        await two_accounts.gateway.accounts.pause("api", "default")
    for name, account in (("simulated", "play"), ("pigeon", "default"), ("house", "runs")):
        with pytest.raises(NoSuchAccount, match="simulated:default"):
            await two_accounts.gateway.accounts.pause(name, account)

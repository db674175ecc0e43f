"""Sending: deliveries keep their order, and expired notices and secrets are never sent (I2, I3)."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.support.controlled_store import Commit, ControlledStore, Intercepted
from tests.support.gateway_harness import GatewayHarness, Until

from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import Address, DeliveryKind, DeliveryState, NewDelivery
from holdfast.core.ports.command import Command
from holdfast.core.ports.store_commands import AddDeliveries
from holdfast.core.ports.store_queries import CountOutbox
from holdfast.core.secrets import Secret
from holdfast.core.turns.turn import EndTurn
from holdfast.testing.simulated.events import ALWAYS, Faults

HOME = Address(platform="simulated", account="default", chat_id="home")


class HeldTurnEndStore(ControlledStore):
    """A store that holds the end of every turn until a test releases it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.ending, self.go = asyncio.Event(), asyncio.Event()

    def intercept(self, command: Command[Any], commit: Commit) -> Intercepted:
        return self._end_when_released(commit) if isinstance(command, EndTurn) else None

    async def _end_when_released(self, commit: Commit) -> Any:
        self.ending.set()
        await self.go.wait()
        return await commit()


@pytest.fixture
async def held_harness(tmp_path: Path) -> AsyncIterator[GatewayHarness]:
    harness = GatewayHarness(tmp_path / "state.db")
    harness.open_store = HeldTurnEndStore
    await harness.start()
    yield harness
    await harness.stop()


async def answered(harness: GatewayHarness, number: int) -> bool:
    return (await harness.ledger()).get("answered") == number


async def test_delayed_replies_are_sent_in_order(harness: GatewayHarness, until: Until) -> None:
    """I3: none of three pending replies overtakes another."""
    harness.service.set_faults(Faults(floods=ALWAYS, retry_after=0.02))
    for number in (1, 2, 3):
        harness.say(f"question {number}")
        harness.model.say(f"answer {number}")
        await until(partial(answered, harness, number))
    harness.service.set_faults(Faults())
    assert await harness.texts(3) == ["answer 1", "answer 2", "answer 3"]


async def test_an_expired_notice_is_not_sent(harness: GatewayHarness, until: Until) -> None:
    """D1, I2: it ends as failed, with a reason; the next delivery is sent."""
    now = harness.clock.now()
    notice = NewDelivery(
        id=DeliveryId("dlv_late"),
        address=HOME,
        kind=DeliveryKind.NOTICE,
        text="in a moment",
        expires_at=now - 1,
    )
    await harness.store.write(AddDeliveries(deliveries=(notice,), at=now - 60))
    await harness.die()
    await harness.start()
    harness.model.say("hello")
    harness.say("hi")
    assert await harness.texts(1) == ["hello"]
    await until(lambda: settled(harness, DeliveryState.FAILED))


async def settled(harness: GatewayHarness, state: DeliveryState) -> bool:
    return (await harness.store.read(CountOutbox())).get(state) == 1


async def test_a_secret_in_a_model_reply_is_redacted_before_it_is_sent(
    harness: GatewayHarness,
) -> None:
    """Law 13: every text is redacted before it reaches the platform."""
    await harness.stop()
    harness.secrets = [Secret("sk-0123456789abcdef")]
    await harness.start()
    harness.model.say("the key is sk-0123456789abcdef, keep it")
    harness.say("what is the key?")
    assert await harness.texts(1) == ["the key is [redacted], keep it"]


async def test_a_cancelled_lane_still_completes_the_end_of_its_turn(
    held_harness: GatewayHarness, until: Until
) -> None:
    """H1, C3: a lane that a stop cancels still completes its closing write."""
    harness, store = held_harness, held_harness.store
    assert isinstance(store, HeldTurnEndStore)
    harness.say("hi")
    harness.model.say("hello")
    await store.ending.wait()
    (lane,) = harness.gateway.lanes
    await until(
        lambda: lane.turn is not None and lane.turn.closing_write is not None
    )  # which is all that it waits for
    assert lane.task is not None
    lane.task.cancel()
    await asyncio.wait([lane.task])
    store.go.set()
    assert await harness.texts(1) == ["hello"]
    await until(lambda: answered(harness, 1))


async def test_a_lane_that_is_cancelled_as_its_turn_ends_does_not_lose_the_end(
    harness: GatewayHarness, until: Until
) -> None:
    """H1, C3: the end is on its way to the store before the lane waits for anything."""
    harness.say("hi")
    await harness.model.wait_for_request(1)
    (lane,) = harness.gateway.lanes
    assert lane.task is not None
    assert lane.stop((), ())
    lane.task.cancel()

    async def superseded() -> bool:
        return (await harness.ledger()) == {"superseded": 1}

    await until(superseded)

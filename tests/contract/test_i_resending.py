"""I2: what ended without a receipt is sent again when somebody wants it, and says that it is."""

import asyncio

import pytest
from tests.contract.conftest import World
from tests.contract.test_i_doubt import among
from tests.contract.test_i_streams import ended

from holdfast.core.messages.outbox import DeliveryRow, DeliveryState
from holdfast.gateway.outbound.resend import NotResent, resend
from holdfast.testing.simulated.events import Faults


async def only(world: World, state: DeliveryState) -> DeliveryRow:
    """The one delivery that ended so: a state on the way looks the same, but is still held."""
    async with asyncio.timeout(30):
        while True:
            rows = await world.store.outbox(state=state, before=None, limit=10)
            if len(rows) == 1 and not world.gateway.outbox.holds(rows[0].id):
                break
            await asyncio.sleep(0.005)
    (row,) = await world.store.outbox(state=state, before=None, limit=10)
    return row


async def again(world: World, row: DeliveryRow) -> DeliveryRow:
    return await resend(world.gateway.services, world.gateway.outbox, row)


@pytest.mark.parametrize("text", ["hello", "aaaaaaaaa bbbbbbbbb"])
async def test_what_was_refused_is_sent_again_unmarked(world: World, text: str) -> None:
    """Nobody can have it: nothing is to be marked. Of several parts only those are sent that do
    not stand there."""
    await among(world, max_length=10)
    world.service.set_faults(Faults(refusals=1))
    world.model.say(text)
    world.say("hi")
    row = await only(world, DeliveryState.FAILED)
    assert row.error
    owed = await again(world, row)
    assert (owed.state, owed.error, owed.outcome_unknown) == (DeliveryState.PENDING, "", False)
    await ended(world, DeliveryState.SENT)
    sent = world.service.ledger().sent
    assert [each.text.strip() for each in sent] == text.split()
    assert not any(each.outgoing.maybe_repeated for each in sent)


@pytest.mark.parametrize("text", ["hello", "aaaaaaaaa bbbbbbbbb"])
async def test_what_may_have_arrived_is_sent_again_with_its_mark(world: World, text: str) -> None:
    """I2: never silently; and once for each time that somebody wants it."""
    await among(world, max_length=10)
    parts = len(text.split())
    world.service.set_faults(Faults(lost_receipts=2 * parts))
    world.model.say(text)
    world.say("hi")
    row = await only(world, DeliveryState.UNKNOWN)
    await again(world, row)
    await ended(world, DeliveryState.SENT)
    marks = [each.outgoing.maybe_repeated for each in world.service.ledger().sent]
    assert len(marks) == 3 * parts
    assert marks[-parts:] == [True] * parts


async def test_what_is_owed_again_is_owed_by_the_successor(world: World) -> None:
    """I1: the wish is durable before anything is sent."""
    world.service.set_faults(Faults(refusals=1))
    world.model.say("hello")
    world.say("hi")
    row = await only(world, DeliveryState.FAILED)
    await world.store.requeue_delivery(row.id, at=1.0)
    await world.die()
    await world.start()
    await ended(world, DeliveryState.SENT)


async def test_what_has_arrived_or_is_on_its_way_is_not_sent_again(world: World) -> None:
    world.model.say("hello")
    world.say("hi")
    row = await only(world, DeliveryState.SENT)
    with pytest.raises(NotResent, match="there is a receipt"):
        await again(world, row)
    world.service.set_faults(Faults(refusals=1))
    world.model.say("next")
    world.say("and?")
    failed = await only(world, DeliveryState.FAILED)
    world.service.set_faults(Faults(floods=1, retry_after=30.0))
    await again(world, failed)
    with pytest.raises(NotResent, match="on its way already"):
        await again(world, failed)

"""Chapter I: only the outbox talks to platforms, in order, and says what it does not know."""

from tests.contract.conftest import Until, World

from holdfast.core.messages.outbox import DeliveryState
from holdfast.testing.simulated.events import Faults


async def test_a_reply_is_sent_once_with_its_receipt(world: World, until: Until) -> None:
    """I2: `sent` carries the platform's message id."""
    world.model.say("hello")
    world.say("hi")
    (sent,) = await world.sent(1)
    await until(lambda: _settled(world, DeliveryState.SENT, 1))
    (answer,) = await world.store.deliveries_for_message(1)
    assert answer.platform_message_id == sent.message_id
    assert answer.attempts == 1


async def test_a_fetched_reply_is_sent_once_it_is_committed(world: World) -> None:
    """I2: for the page and the API `sent` means committed and fetchable."""
    world.model.say("hello")
    accepted = await world.accept("hi")
    await world.end_of(accepted)
    (answer,) = await world.store.deliveries_for_message(accepted.row.id)
    assert (answer.state, answer.text) == (DeliveryState.SENT, "hello")


async def test_a_lost_receipt_is_settled_by_sending_again_marked(
    world: World, until: Until
) -> None:
    """I2: without idempotency an unknown outcome is resent once, marked as possibly repeated."""
    world.service.set_faults(Faults(lost_receipts=1))
    world.model.say("hello")
    world.say("hi")
    first, second = await world.sent(2)
    assert (first.outgoing.maybe_repeated, second.outgoing.maybe_repeated) == (False, True)
    await until(lambda: _settled(world, DeliveryState.SENT, 1))


async def test_two_lost_receipts_leave_it_unknown(world: World, until: Until) -> None:
    """I2: `unknown` is an outcome: it is not sent a third time."""
    world.service.set_faults(Faults(lost_receipts=5))
    world.model.say("hello")
    world.say("hi")
    await world.sent(2)
    await until(lambda: _settled(world, DeliveryState.UNKNOWN, 1))
    await world.stop()
    await world.start()
    world.service.set_faults(Faults())
    world.model.say("again")
    world.say("hi again")
    texts = await world.texts(3)
    assert texts == ["hello", "hello", "again"]


async def test_an_idempotent_platform_gets_it_exactly_once(world: World) -> None:
    """I2: with an idempotency key the same delivery is repeated until it is taken, unmarked."""
    await world.stop()
    world.service.set_idempotent_send(True)
    await world.start()
    world.service.set_faults(Faults(lost_receipts=3))
    world.model.say("hello", "next")
    world.say("hi")
    world.say("and?", chat="other")
    sent = await world.sent(2)
    assert sorted(s.outgoing.text for s in sent) == ["hello", "next"]
    assert not any(s.outgoing.maybe_repeated for s in sent)


async def test_flood_control_is_obeyed_and_loses_nothing(world: World) -> None:
    """I2, I3: 429 waits as told; replies are never dropped."""
    world.service.set_faults(Faults(floods=2, retry_after=0.05))
    world.model.say("hello")
    world.say("hi")
    assert await world.texts(1) == ["hello"]


async def test_a_refused_reply_fails_visibly(world: World, until: Until) -> None:
    """I2: a permanent refusal ends the delivery as failed, with the platform's reason."""
    world.service.set_faults(Faults(refusals=1))
    world.model.say("hello", "again")
    world.say("hi")
    await until(lambda: _settled(world, DeliveryState.FAILED, 1))
    (answer,) = await world.store.deliveries_for_message(1)
    assert "refused" in answer.error
    world.say("still there?")
    assert await world.texts(1) == ["again"]


async def test_a_platform_that_is_away_gets_its_replies_in_order(
    world: World, until: Until
) -> None:
    """I2, I3: what could not be sent stays pending, and order within a chat is kept."""
    for text in ("1", "2"):
        world.say(text)
        await until(lambda: _messages(world, running=1))
        if text == "2":
            world.service.set_faults(Faults(disconnected=True))
        world.model.say(f"answer {text}")
        await until(lambda text=text: _messages(world, answered=int(text)))
    await world.stop()
    world.service.set_faults(Faults())
    await world.start()
    assert await world.texts(2) == ["answer 1", "answer 2"]


async def test_a_reply_that_nobody_sent_before_the_crash_is_sent_after_it(
    world: World, until: Until
) -> None:
    """I1: the reply's row and the end of its turn are one commit."""
    world.say("hi")
    await world.model.wait_for_request(1)
    world.service.set_faults(Faults(disconnected=True))
    world.model.say("hello")
    await until(lambda: _messages(world, answered=1))
    await world.die()
    world.service.set_faults(Faults())
    await world.start()
    assert await world.texts(1) == ["hello"]
    await until(lambda: _settled(world, DeliveryState.SENT, 1))


async def _settled(world: World, state: DeliveryState, number: int) -> bool:
    return bool((await world.store.outbox_counts()).get(state) == number)


async def _messages(world: World, **states: int) -> bool:
    ledger = await world.ledger()
    return all(ledger.get(state) == number for state, number in states.items())

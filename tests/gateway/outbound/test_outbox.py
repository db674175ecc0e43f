"""The outbox: replies are sent once and in order, and unknown outcomes are reported (I1 to I3)."""

from functools import partial

from tests.support.gateway_harness import GatewayHarness, Until

from holdfast.core.ids import InboxId
from holdfast.core.messages.outbox import DeliveryState
from holdfast.core.ports.store_queries import CountOutbox, ListDeliveriesForMessage
from holdfast.testing.simulated.events import Faults


async def test_a_reply_is_sent_once_with_its_receipt(harness: GatewayHarness, until: Until) -> None:
    """I2: `sent` carries the platform's message id."""
    harness.model.say("hello")
    harness.say("hi")
    (sent,) = await harness.sent(1)
    await until(lambda: _settled(harness, DeliveryState.SENT, 1))
    (answer,) = await harness.store.read(ListDeliveriesForMessage(inbox_id=InboxId(1)))
    assert answer.platform_message_id == sent.message_id
    assert answer.attempts == 1


async def test_a_fetched_reply_is_sent_once_it_is_committed(harness: GatewayHarness) -> None:
    """I2: for the page and the API `sent` means committed and fetchable."""
    harness.model.say("hello")
    accepted = await harness.accept("hi")
    await harness.end_of(accepted)
    (answer,) = await harness.store.read(ListDeliveriesForMessage(inbox_id=accepted.row.id))
    assert (answer.state, answer.text) == (DeliveryState.SENT, "hello")


async def test_a_lost_receipt_is_settled_by_sending_again_marked(
    harness: GatewayHarness, until: Until
) -> None:
    """I2: without idempotency an unknown outcome is resent once, marked as possibly repeated."""
    harness.service.set_faults(Faults(lost_receipts=1))
    harness.model.say("hello")
    harness.say("hi")
    first, second = await harness.sent(2)
    assert (first.outgoing.maybe_repeated, second.outgoing.maybe_repeated) == (False, True)
    await until(lambda: _settled(harness, DeliveryState.SENT, 1))


async def test_two_lost_receipts_leave_it_unknown(harness: GatewayHarness, until: Until) -> None:
    """I2: `unknown` is an outcome: it is not sent a third time."""
    harness.service.set_faults(Faults(lost_receipts=5))
    harness.model.say("hello")
    harness.say("hi")
    await harness.sent(2)
    await until(lambda: _settled(harness, DeliveryState.UNKNOWN, 1))
    await harness.stop()
    await harness.start()
    harness.service.set_faults(Faults())
    harness.model.say("again")
    harness.say("hi again")
    texts = await harness.texts(3)
    assert texts == ["hello", "hello", "again"]


async def test_an_idempotent_platform_gets_it_exactly_once(harness: GatewayHarness) -> None:
    """I2: with an idempotency key the same delivery is repeated until it is taken, unmarked."""
    await harness.stop()
    harness.service.set_idempotent_send(True)
    await harness.start()
    harness.service.set_faults(Faults(lost_receipts=3))
    harness.model.say("hello", "next")
    harness.say("hi")
    harness.say("and?", chat="other")
    sent = await harness.sent(2)
    assert sorted(s.outgoing.text for s in sent) == ["hello", "next"]
    assert not any(s.outgoing.maybe_repeated for s in sent)


async def test_flood_control_is_obeyed_and_loses_nothing(harness: GatewayHarness) -> None:
    """I2, I3: a 429 delays the reply as requested; replies are never dropped."""
    harness.service.set_faults(Faults(floods=2, retry_after=0.05))
    harness.model.say("hello")
    harness.say("hi")
    assert await harness.texts(1) == ["hello"]


async def test_a_refused_reply_fails_visibly(harness: GatewayHarness, until: Until) -> None:
    """I2: a permanent refusal ends the delivery as failed, with the platform's reason."""
    harness.service.set_faults(Faults(refusals=1))
    harness.model.say("hello", "again")
    harness.say("hi")
    await until(lambda: _settled(harness, DeliveryState.FAILED, 1))
    (answer,) = await harness.store.read(ListDeliveriesForMessage(inbox_id=InboxId(1)))
    assert "refused" in answer.error
    harness.say("still there?")
    assert await harness.texts(1) == ["again"]


async def test_a_disconnected_platform_gets_its_replies_in_order_later(
    harness: GatewayHarness, until: Until
) -> None:
    """I2, I3: what could not be sent stays pending, and order within a chat is kept."""
    for text in ("1", "2"):
        harness.say(text)
        await until(lambda: _messages(harness, running=1))
        if text == "2":
            harness.service.set_faults(Faults(disconnected=True))
        harness.model.say(f"answer {text}")
        await until(partial(_messages, harness, answered=int(text)))
    await harness.stop()
    harness.service.set_faults(Faults())
    await harness.start()
    assert await harness.texts(2) == ["answer 1", "answer 2"]


async def test_a_reply_unsent_at_a_crash_is_sent_after_it(
    harness: GatewayHarness, until: Until
) -> None:
    """I1: the reply's row and the end of its turn are one commit."""
    harness.say("hi")
    await harness.model.wait_for_request(1)
    harness.service.set_faults(Faults(disconnected=True))
    harness.model.say("hello")
    await until(lambda: _messages(harness, answered=1))
    await harness.die()
    harness.service.set_faults(Faults())
    await harness.start()
    assert await harness.texts(1) == ["hello"]
    await until(lambda: _settled(harness, DeliveryState.SENT, 1))


async def _settled(harness: GatewayHarness, state: DeliveryState, number: int) -> bool:
    return bool((await harness.store.read(CountOutbox())).get(state) == number)


async def _messages(harness: GatewayHarness, **states: int) -> bool:
    ledger = await harness.ledger()
    return all(ledger.get(state) == number for state, number in states.items())

"""I2: what ended without a receipt is sent again when somebody wants it, and says that it is."""

import pytest
from tests.support.deliveries import again, among, ended, only
from tests.support.gateway_harness import GatewayHarness

from holdfast.core.messages.outbox import DeliveryState
from holdfast.gateway.outbound.resend import NotResent
from holdfast.testing.simulated.events import Faults


@pytest.mark.parametrize("text", ["hello", "aaaaaaaaa bbbbbbbbb"])
async def test_a_refused_delivery_is_resent_unmarked(harness: GatewayHarness, text: str) -> None:
    """Nobody can have it: nothing is to be marked. Of several parts only those are sent that do
    not stand there."""
    await among(harness, max_length=10)
    harness.service.set_faults(Faults(refusals=1))
    harness.model.say(text)
    harness.say("hi")
    row = await only(harness, DeliveryState.FAILED)
    assert row.error
    owed = await again(harness, row)
    assert (owed.state, owed.error, owed.outcome_unknown) == (DeliveryState.PENDING, "", False)
    await ended(harness, DeliveryState.SENT)
    sent = harness.service.ledger().sent
    assert [each.text.strip() for each in sent] == text.split()
    assert not any(each.outgoing.maybe_repeated for each in sent)


@pytest.mark.parametrize("text", ["hello", "aaaaaaaaa bbbbbbbbb"])
async def test_a_delivery_with_an_unknown_outcome_is_resent_marked(
    harness: GatewayHarness, text: str
) -> None:
    """I2: never silently; and once for each time that somebody wants it."""
    await among(harness, max_length=10)
    parts = len(text.split())
    harness.service.set_faults(Faults(lost_receipts=2 * parts))
    harness.model.say(text)
    harness.say("hi")
    row = await only(harness, DeliveryState.UNKNOWN)
    await again(harness, row)
    await ended(harness, DeliveryState.SENT)
    marks = [each.outgoing.maybe_repeated for each in harness.service.ledger().sent]
    assert len(marks) == 3 * parts
    assert marks[-parts:] == [True] * parts


async def test_a_requeued_delivery_is_sent_by_the_successor(harness: GatewayHarness) -> None:
    """I1: the wish is durable before anything is sent."""
    harness.service.set_faults(Faults(refusals=1))
    harness.model.say("hello")
    harness.say("hi")
    row = await only(harness, DeliveryState.FAILED)
    await harness.store.requeue_delivery(row.id, at=1.0)
    await harness.die()
    await harness.start()
    await ended(harness, DeliveryState.SENT)


async def test_a_sent_or_pending_delivery_is_not_resent(harness: GatewayHarness) -> None:
    harness.model.say("hello")
    harness.say("hi")
    row = await only(harness, DeliveryState.SENT)
    with pytest.raises(NotResent, match="there is a receipt"):
        await again(harness, row)
    harness.service.set_faults(Faults(refusals=1))
    harness.model.say("next")
    harness.say("and?")
    failed = await only(harness, DeliveryState.FAILED)
    harness.service.set_faults(Faults(floods=1, retry_after=30.0))
    await again(harness, failed)
    with pytest.raises(NotResent, match="on its way already"):
        await again(harness, failed)

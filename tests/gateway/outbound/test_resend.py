"""I2: a delivery that ended without a receipt can be resent on request, and is marked."""

import asyncio

import pytest
from tests.support.deliveries import (
    resend_delivery,
    restart_with_chat_service,
    wait_for_deliveries,
    wait_for_only_delivery,
)
from tests.support.gateway_harness import GatewayHarness

from holdfast.core.messages.outbox import DeliveryState
from holdfast.core.ports.store_commands import RequeueDelivery
from holdfast.gateway.outbound.operator_resend import NotResent
from holdfast.testing.simulated.events import Faults


@pytest.mark.parametrize("text", ["hello", "aaaaaaaaa bbbbbbbbb"])
async def test_a_refused_delivery_is_resent_unmarked(harness: GatewayHarness, text: str) -> None:
    """It cannot have arrived, so it needs no mark. Only the missing parts are sent."""
    await restart_with_chat_service(harness, max_length=10)
    harness.service.set_faults(Faults(refusals=1))
    harness.model.say(text)
    harness.say("hi")
    row = await wait_for_only_delivery(harness, DeliveryState.FAILED)
    assert row.error
    requeued = await resend_delivery(harness, row)
    assert (requeued.state, requeued.error, requeued.outcome_unknown) == (
        DeliveryState.PENDING,
        "",
        False,
    )
    await wait_for_deliveries(harness, DeliveryState.SENT)
    sent = harness.service.ledger().sent
    assert [each.text.strip() for each in sent] == text.split()
    assert not any(each.outgoing.maybe_repeated for each in sent)


@pytest.mark.parametrize("text", ["hello", "aaaaaaaaa bbbbbbbbb"])
async def test_a_delivery_with_an_unknown_outcome_is_resent_marked(
    harness: GatewayHarness, text: str
) -> None:
    """I2: never silently, and once per request."""
    await restart_with_chat_service(harness, max_length=10)
    parts = len(text.split())
    harness.service.set_faults(Faults(lost_receipts=2 * parts))
    harness.model.say(text)
    harness.say("hi")
    row = await wait_for_only_delivery(harness, DeliveryState.UNKNOWN)
    await resend_delivery(harness, row)
    await wait_for_deliveries(harness, DeliveryState.SENT)
    marks = [each.outgoing.maybe_repeated for each in harness.service.ledger().sent]
    assert len(marks) == 3 * parts
    assert marks[-parts:] == [True] * parts


async def test_a_requeued_delivery_is_sent_by_the_successor(harness: GatewayHarness) -> None:
    """I1: the request is durable before anything is sent."""
    harness.service.set_faults(Faults(refusals=1))
    harness.model.say("hello")
    harness.say("hi")
    row = await wait_for_only_delivery(harness, DeliveryState.FAILED)
    await harness.store.write(RequeueDelivery(delivery_id=row.id, scope=row.scope, at=1.0))
    await harness.die()
    await harness.start()
    await wait_for_deliveries(harness, DeliveryState.SENT)


async def test_a_requeued_delivery_is_sent_although_its_caller_was_cancelled(
    harness: GatewayHarness,
) -> None:
    """I1: the commit makes it pending, so the outbox learns of it by the commit."""
    harness.service.set_faults(Faults(refusals=1))
    harness.model.say("hello")
    harness.say("hi")
    row = await wait_for_only_delivery(harness, DeliveryState.FAILED)
    request = asyncio.create_task(resend_delivery(harness, row))
    await asyncio.sleep(0)  # the write is queued
    request.cancel()
    await asyncio.wait({request})
    assert request.cancelled()
    await wait_for_deliveries(harness, DeliveryState.SENT)
    assert [each.text for each in harness.service.ledger().sent] == ["hello"]


async def test_a_sent_or_pending_delivery_is_not_resent(harness: GatewayHarness) -> None:
    harness.model.say("hello")
    harness.say("hi")
    row = await wait_for_only_delivery(harness, DeliveryState.SENT)
    with pytest.raises(NotResent, match="there is a receipt"):
        await resend_delivery(harness, row)
    harness.service.set_faults(Faults(refusals=1))
    harness.model.say("next")
    harness.say("and?")
    failed = await wait_for_only_delivery(harness, DeliveryState.FAILED)
    harness.service.set_faults(Faults(floods=1, retry_after=30.0))
    await resend_delivery(harness, failed)
    with pytest.raises(NotResent, match="already being sent"):
        await resend_delivery(harness, failed)

"""What a pending delivery waits for, as the outbox reports it."""

from collections import deque

from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import Address, DeliveryBlocker, DeliveryStatus
from holdfast.gateway.outbound.best_effort import BestEffortOutput
from holdfast.gateway.outbound.delivery import QueuedDelivery
from holdfast.gateway.outbound.outbox import delivery_status

CHAT = Address(platform="simulated", account="default", chat_id="ann")


def queue(*names: str) -> deque[QueuedDelivery | BestEffortOutput]:
    return deque(QueuedDelivery(id=DeliveryId(name), address=CHAT, text="hi") for name in names)


def status_of(
    name: str, *, connected: bool = True, until: float | None = None
) -> DeliveryStatus | None:
    return delivery_status(
        DeliveryId(name), queue("first", "second"), connected=connected, until=until
    )


def test_a_delivery_waits_for_its_account_its_predecessors_and_the_rate_limit() -> None:
    """I3: the order within a chat is kept, and rate limits are obeyed."""
    assert status_of("first") == DeliveryStatus(blocked_by=DeliveryBlocker.NOTHING)
    assert status_of("first", until=99.0) == DeliveryStatus(
        blocked_by=DeliveryBlocker.RATE_LIMIT, until=99.0
    )
    assert status_of("second", until=99.0) == DeliveryStatus(blocked_by=DeliveryBlocker.CHAT)
    assert status_of("first", connected=False, until=99.0) == DeliveryStatus(
        blocked_by=DeliveryBlocker.ACCOUNT
    )


def test_an_ended_delivery_has_no_status() -> None:
    assert status_of("third") is None

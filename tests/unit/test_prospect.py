"""What a delivery that is owed waits for, as whoever looks at the outbox is told."""

from collections import deque

from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import Address, Prospect, WaitsFor
from holdfast.gateway.outbound.parcel import Parcel
from holdfast.gateway.outbound.passing import Passing
from holdfast.gateway.outbound.prospect import prospect_of

CHAT = Address(platform="simulated", account="default", chat_id="ann")


def queue(*names: str) -> deque[Parcel | Passing]:
    return deque(Parcel(id=DeliveryId(name), address=CHAT, text="hi") for name in names)


def looked(name: str, *, connected: bool = True, until: float | None = None) -> Prospect | None:
    return prospect_of(DeliveryId(name), queue("first", "second"), connected=connected, until=until)


def test_it_waits_for_its_account_for_what_is_before_it_and_for_the_pace_of_its_platform() -> None:
    """I3: the order within a chat is kept, and a platform that asks for peace gets it."""
    assert looked("first") == Prospect(waits_for=WaitsFor.NOTHING)
    assert looked("first", until=99.0) == Prospect(waits_for=WaitsFor.PACE, until=99.0)
    assert looked("second", until=99.0) == Prospect(waits_for=WaitsFor.CHAT)
    assert looked("first", connected=False, until=99.0) == Prospect(waits_for=WaitsFor.ACCOUNT)


def test_what_has_ended_waits_for_nothing() -> None:
    assert looked("third") is None

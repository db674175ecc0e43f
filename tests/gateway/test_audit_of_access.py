"""The audit of who is let in, of what is sent again and of what the gateway is configured by."""

from tests.gateway.inbound.test_pairing import door
from tests.support.audit_rows import rows
from tests.support.deliveries import again, only
from tests.support.gateway_harness import GatewayHarness
from tests.support.pairing import given_code

from holdfast.core.config.versions import ConfigSource, NewConfigVersion
from holdfast.core.messages.outbox import DeliveryState
from holdfast.core.people.approval import OPERATOR
from holdfast.testing.simulated.events import Faults

__all__ = ["door"]

EVE = "simulated:default:eve"


async def test_pairing_decisions_are_audited_with_their_actor(door: GatewayHarness) -> None:
    """Law 12: in a chat and from outside of one; a code that is nobody's, too."""
    code = await given_code(door)
    await door.gateway.pairing.approve("ABCD-EFGH", by=OPERATOR)
    await door.gateway.pairing.approve(code, by=OPERATOR)
    await door.sent(2)
    door.say(f"/pairing revoke {EVE}")
    await door.sent(3)
    await given_code(door, sent=4)
    await door.gateway.pairing.deny("eve", by=OPERATOR)
    told = [(row.kind, row.actor, row.subject) for row in await rows(door)]
    assert told == [
        ("refused.stranger", EVE, "simulated:default"),
        ("pairing.wrong_code", OPERATOR, ""),
        ("pairing.approved", OPERATOR, EVE),
        ("pairing.revoked", "simulated:default:ann", EVE),
        ("refused.stranger", EVE, "simulated:default"),
        ("pairing.denied", OPERATOR, EVE),
    ]


async def test_a_resent_delivery_is_audited(harness: GatewayHarness) -> None:
    """I2: once it is owed again; not where nothing was."""
    harness.service.set_faults(Faults(refusals=1))
    harness.model.say("hello")
    harness.say("hi")
    failed = await only(harness, DeliveryState.FAILED)
    assert await harness.store.requeue_delivery("none-such", at=1.0) is None  # type: ignore[arg-type]  # an id is a str
    await again(harness, failed)
    (row,) = await rows(harness)
    assert (row.kind, row.actor, row.subject) == ("delivery.retried", OPERATOR, failed.id)
    assert row.session_id == failed.session_id


async def test_a_new_configuration_is_audited_with_its_version(
    harness: GatewayHarness,
) -> None:
    """Law 15: by whom, and which keys."""
    new = NewConfigVersion(
        at=1.0,
        by="command line",
        source=ConfigSource.SET,
        text="[agent]\n",
        changed=("agent.reasoning", "prices.x"),
        signature="1",
    )
    number = await harness.store.save_configuration(new)
    assert await harness.store.save_configuration(new) == number
    found = await rows(harness, "configuration")
    assert (found[-1].actor, found[-1].subject) == (OPERATOR, str(number))
    keys = "agent.reasoning, prices.x"
    assert found[-1].facts == {"source": "set", "by": "command line", "keys": keys}
    assert [row.subject for row in found].count(str(number)) == 1

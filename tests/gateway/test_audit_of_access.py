"""The audit of pairing decisions, of resent deliveries and of configuration changes."""

from tests.support.audit_rows import audit_rows
from tests.support.deliveries import resend_delivery, wait_for_only_delivery
from tests.support.gateway_harness import GatewayHarness
from tests.support.pairing import request_code

from holdfast.core.config.versions import ConfigSource, NewConfigVersion
from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import DeliveryState
from holdfast.core.people.approval import OPERATOR
from holdfast.core.ports.store_commands import RequeueDelivery
from holdfast.testing.simulated.events import Faults

EVE = "simulated:default:eve"


async def test_pairing_decisions_are_audited_with_their_actor(
    pairing_harness: GatewayHarness,
) -> None:
    """Law 12: in a chat and outside of one, and a wrong code too."""
    code = await request_code(pairing_harness)
    await pairing_harness.gateway.pairing.approve("ABCD-EFGH", by=OPERATOR)
    await pairing_harness.gateway.pairing.approve(code, by=OPERATOR)
    await pairing_harness.sent(2)
    pairing_harness.say(f"/pairing revoke {EVE}")
    await pairing_harness.sent(3)
    await request_code(pairing_harness, sent=4)
    await pairing_harness.gateway.pairing.deny("eve", by=OPERATOR)
    found = [(row.kind, row.actor, row.subject) for row in await audit_rows(pairing_harness)]
    assert found == [
        ("refused.stranger", EVE, "simulated:default"),
        ("pairing.wrong_code", OPERATOR, ""),
        ("pairing.approved", OPERATOR, EVE),
        ("pairing.revoked", "simulated:default:ann", EVE),
        ("refused.stranger", EVE, "simulated:default"),
        ("pairing.denied", OPERATOR, EVE),
    ]


async def test_a_resent_delivery_is_audited(harness: GatewayHarness) -> None:
    """I2: once it is queued again; not for an unknown id."""
    harness.service.set_faults(Faults(refusals=1))
    harness.model.say("hello")
    harness.say("hi")
    failed = await wait_for_only_delivery(harness, DeliveryState.FAILED)
    unknown = RequeueDelivery(delivery_id=DeliveryId("none-such"), scope=failed.scope, at=1.0)
    assert await harness.store.write(unknown) is None
    await resend_delivery(harness, failed)
    (row,) = await audit_rows(harness)
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
    number = await harness.store.write(new)
    assert await harness.store.write(new) == number
    found = await audit_rows(harness, "configuration")
    assert (found[-1].actor, found[-1].subject) == (OPERATOR, str(number))
    keys = "agent.reasoning, prices.x"
    assert found[-1].facts == {"source": "set", "by": "command line", "keys": keys}
    assert [row.subject for row in found].count(str(number)) == 1

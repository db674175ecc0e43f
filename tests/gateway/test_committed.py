"""The effects of a committed command follow from its event, regardless of who wrote the command."""

from tests.support.gateway_harness import GatewayHarness

from holdfast.core.ports.command import Committed
from holdfast.gateway.committed import accepted_message


async def test_every_new_message_is_in_the_event_of_its_commit(harness: GatewayHarness) -> None:
    """A message that a chat, a subagent or /retry brings is routed and traced by its commit alone:
    one that is committed after it cannot enter the lane before it."""
    found: list[str] = []

    def on_committed(event: Committed) -> None:
        if (accepted := accepted_message(event)) is not None:
            found.append(accepted.row.inbound.text)

    harness.store.events.on_committed(on_committed)
    harness.model.say("one", "two")
    await harness.end_of(await harness.accept("hi"))
    await harness.end_of(await harness.accept("/retry"))
    assert found == ["hi", "/retry", "hi"]

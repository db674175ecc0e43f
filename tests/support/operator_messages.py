"""Sends a message of the operator into a session, as the API does."""

from tests.support.gateway_harness import GatewayHarness

from holdfast.core.ids import SessionId
from holdfast.core.messages.inbox import Accepted, Inbound
from holdfast.core.ports.store_queries import GetSession
from holdfast.server.api.v1.messages import accept_message, current_session_source


async def send_as_operator(
    harness: GatewayHarness, session_id: SessionId, text: str, name: str = "op1"
) -> Accepted:
    row = await harness.store.read(GetSession(session_id=session_id))
    assert row is not None
    source = await current_session_source(harness.gateway, harness.store, row)
    inbound = Inbound(source=source, event_id=name, message_id=name, text=text)
    return await accept_message(harness.gateway, inbound, into=session_id)

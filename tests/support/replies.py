"""Reads the messages of a session that an ended turn left."""

from tests.support.gateway_harness import GatewayHarness

from holdfast.core.ids import SessionId
from holdfast.core.messages.events import MessageEnded
from holdfast.core.messages.transcript import AssistantMessage, Message


def session_of(ended: MessageEnded) -> SessionId:
    assert ended.session_id is not None
    return ended.session_id


async def last_message(harness: GatewayHarness, ended: MessageEnded) -> Message:
    return (await harness.transcript(session_of(ended)))[-1]


async def last_reply(harness: GatewayHarness, ended: MessageEnded) -> AssistantMessage:
    """The last message of the session, which must be a reply."""
    message = await last_message(harness, ended)
    assert isinstance(message, AssistantMessage)
    return message

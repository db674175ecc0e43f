"""Messages of the operator in the chat of a user: they take the usual path, are marked, and are
answered in that chat."""

import msgspec
import pytest
from tests.support.gateway_harness import GatewayHarness, Until
from tests.support.operator_messages import send_as_operator

from holdfast.core.config.settings import SessionSettings
from holdfast.core.errors import NotAllowed
from holdfast.core.messages.inbox import Inbound, InboxState
from holdfast.core.messages.source import Author, ChatType, Source
from holdfast.core.messages.transcript import UserMessage
from holdfast.core.ports.store_queries import GetSession
from holdfast.server.api.errors import EndpointError
from holdfast.server.api.v1.messages import current_session_source, session_source

OPERATOR_SPEAKER = "operator of this gateway"


async def test_an_operator_message_is_marked_and_answered_in_the_chat(
    harness: GatewayHarness,
) -> None:
    """G1: it is in the inbox of that chat, and has one visible end."""
    harness.model.say("hello", "as you wish")
    harness.say("hi")
    assert await harness.texts(1) == ["hello"]
    session_id = await harness.only_session()
    accepted = await send_as_operator(harness, session_id, "say it politely")
    assert await harness.texts(2) == ["hello", "as you wish"]
    first, second = await harness.sent(2)
    assert second.outgoing.chat_id == first.outgoing.chat_id
    assert (await harness.end_of(accepted)).state is InboxState.ANSWERED
    assert await harness.only_session() == session_id
    words = [m for m in await harness.transcript(session_id) if isinstance(m, UserMessage)]
    assert [(m.text, m.speaker) for m in words] == [
        ("hi", None),
        ("say it politely", OPERATOR_SPEAKER),
    ]
    row = await harness.store.read(GetSession(session_id=session_id))
    assert row is not None and row.principal == "simulated:default:ann"


async def test_an_operator_message_in_a_shared_session_is_attributed_to_no_user(
    harness: GatewayHarness,
) -> None:
    """The reply quotes nothing: an operator message has no id on that platform."""
    await harness.stop()
    shared = SessionSettings(group_sessions_per_user=False)
    harness.settings = msgspec.structs.replace(harness.settings, sessions=shared)
    await harness.start()
    harness.model.say("hello", "everybody")
    harness.say("hi", chat="room", chat_type=ChatType.GROUP)
    await harness.texts(1)
    accepted = await send_as_operator(harness, await harness.only_session(), "greet them all")
    first, second = await harness.sent(2)
    assert (second.text, second.outgoing.reply_to) == ("everybody", None)
    assert first.outgoing.reply_to is not None
    assert accepted.row.principal == "simulated:default:operator"


async def test_an_operator_command_runs_and_is_answered_in_the_chat(
    harness: GatewayHarness,
) -> None:
    """Also a command that no user of that chat may give."""
    harness.model.say("hello")
    harness.say("hi")
    await harness.texts(1)
    old = await harness.only_session()
    accepted = await send_as_operator(harness, old, "/new")
    assert (await harness.end_of(accepted)).state is InboxState.ANSWERED
    assert await harness.texts(2) == ["hello", "A new conversation begins."]
    row = await harness.store.read(GetSession(session_id=old))
    assert row is not None and not row.current
    with pytest.raises(EndpointError, match="its chat uses another one"):
        await current_session_source(harness.gateway, harness.store, row)
    assert (await session_source(harness.gateway, harness.store, row)).chat_id == "home"


async def test_an_operator_message_before_a_crash_is_answered_by_the_next_start(
    harness: GatewayHarness, until: Until
) -> None:
    """K2: it is durable when it is acknowledged."""
    harness.model.say("hello", "there you are")
    harness.say("hi")
    await harness.texts(1)
    await until(harness.all_delivered)
    session_id = await harness.only_session()
    harness.gateway.lanes.hold(allow_subagents=False)
    await send_as_operator(harness, session_id, "and now?")
    await harness.die()
    await harness.start()
    await until(lambda: len(harness.service.ledger().sent) == 2)
    assert await harness.texts(2) == ["hello", "there you are"]


async def test_no_platform_can_send_as_the_operator(harness: GatewayHarness) -> None:
    source = Source(platform="simulated", chat_id="home", user_id="mallory", author=Author.OPERATOR)
    inbound = Inbound(source=source, event_id="x", message_id="x", text="/restart")
    with pytest.raises(NotAllowed, match="cannot send messages as the operator"):
        await harness.gateway.intake.accept(inbound)


async def test_subagent_and_unconfigured_sessions_accept_no_operator_message(
    harness: GatewayHarness,
) -> None:
    harness.model.say("hello")
    harness.say("hi")
    await harness.texts(1)
    row = await harness.store.read(GetSession(session_id=await harness.only_session()))
    assert row is not None
    subagent_session = msgspec.structs.replace(row, route="house:default:dm:x:")
    with pytest.raises(EndpointError, match="the session that started it"):
        await session_source(harness.gateway, harness.store, subagent_session)
    unconfigured = msgspec.structs.replace(row, id="s_other", route="elsewhere:default:dm:home:")
    with pytest.raises(EndpointError, match="no longer configured"):
        await session_source(harness.gateway, harness.store, unconfigured)

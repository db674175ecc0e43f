"""Tests a gateway with an XMPP account, from incoming message to reply."""

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from tests.platforms.xmpp.builders import new_id, new_platform, settings_for, until
from tests.platforms.xmpp.prosody import Prosody
from tests.platforms.xmpp.users import ANN, XmppUser
from tests.support.approvals import RM
from tests.support.platform_gateway import PlatformGatewayHarness, running_harness

from holdfast.core.ids import CallId
from holdfast.core.messages.outbox import DeliveryState
from holdfast.core.messages.transcript import ToolCall, UserMessage
from holdfast.core.people.approval import ApprovalState
from holdfast.core.ports.store_queries import ListApprovals
from holdfast.testing.scripted_model import ManualReply


@pytest.fixture
async def room(ann: XmppUser) -> str:
    made = f"{new_id('club')}@rooms.localhost"
    await ann.join_room(made)
    return made


@pytest.fixture
async def harness(
    tmp_path: Path, server: Prosody, ann: XmppUser, room: str
) -> AsyncIterator[PlatformGatewayHarness]:
    settings = settings_for(server, rooms=(room,), allow=(ANN,))
    platform = new_platform(server, tmp_path / "xmpp", rooms=(room,))
    platform.capabilities = msgspec.structs.replace(platform.capabilities, edit_interval=0.2)
    async with running_harness(
        PlatformGatewayHarness(tmp_path, platform, settings, texts=ann.texts)
    ) as made:
        await until(lambda: "bot" in ann.plugin["xep_0045"].get_roster(room))
        yield made


async def test_a_reply_streams_into_one_message(
    harness: PlatformGatewayHarness, ann: XmppUser
) -> None:
    """I4: stream, edits and final text are one message."""
    reply = ManualReply()
    harness.model.say(reply)
    ann.write("tell me")
    reply.say("Once upon")
    await harness.wait_for_texts("Once upon")
    reply.say(" a **time**.")
    reply.end()
    await harness.wait_for_texts("Once upon a *time*.")
    await harness.wait_for_deliveries(DeliveryState.SENT, 1)


async def test_a_message_sent_while_the_gateway_was_down_is_answered_once_after_the_start(
    harness: PlatformGatewayHarness, ann: XmppUser, room: str
) -> None:
    """G1, G2, H3: in a chat of two and in a room; nothing that was answered before."""
    harness.model.say("hello")
    ann.write("hi")
    await harness.wait_for_texts("hello")
    await harness.wait_for_deliveries(DeliveryState.SENT, 1)
    await harness.die()
    ann.write("dinner at eight", to=room)
    ann.write("bot: anybody?", to=room)
    harness.model.say("here I am")
    await harness.start()
    await harness.wait_for_texts("hello", "here I am")
    assert ann.read[-1]["type"] == "groupchat"
    assert (await harness.ledger()) == {"answered": 2}


async def test_a_reply_without_a_receipt_arrives_once_and_unmarked(
    harness: PlatformGatewayHarness, ann: XmppUser, server: Prosody
) -> None:
    """I2: unknown → looked up in the archive."""
    server.inject_fault("cut")
    harness.model.say("hello")
    ann.write("hi")
    await harness.wait_for_deliveries(DeliveryState.SENT, 1)
    await until(ann.texts)
    assert ann.texts() == ["hello"]


async def test_a_dangerous_command_is_approved_by_text_and_a_room_message_has_its_speaker(
    harness: PlatformGatewayHarness, ann: XmppUser, room: str
) -> None:
    """J3: there are no buttons. Groups: in a room the agent knows by whom it is asked."""
    harness.model.say([ToolCall(id=CallId("c1"), name="shell", arguments=RM)], "done", "hello ann")
    ann.write("clean up")
    await until(lambda: ann.texts() and "I wait for" in ann.texts()[-1])
    ann.write("yes")
    await until(lambda: "done" in ann.texts())
    (approval,) = await harness.store.read(ListApprovals(limit=5))
    assert approval.state is ApprovalState.APPROVED
    ann.write("bot, who am I?", to=room)
    await until(lambda: "hello ann" in ann.texts())
    last = harness.model.requests[-1].messages[-1]
    assert isinstance(last, UserMessage)
    assert (last.text, last.speaker) == ("who am I?", "ann")

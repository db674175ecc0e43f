"""Tests a gateway with a Discord bot, from incoming message to reply."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.platforms.connection_faults import ConnectionFault
from tests.platforms.discord.builders import new_platform, until
from tests.platforms.discord.fake import ANN, BOB, BOT, TEXT, THREAD, FakeDiscord
from tests.support.approvals import RM
from tests.support.deliveries import wait_for_streamed_message_id
from tests.support.platform_gateway import PlatformGatewayHarness, running_harness

from holdfast.core.ids import CallId
from holdfast.core.messages.outbox import DeliveryState
from holdfast.core.messages.transcript import ToolCall
from holdfast.core.people.approval import ApprovalState
from holdfast.core.ports.store_queries import ListApprovals, ListOutbox
from holdfast.platforms.discord.plugin import DiscordSettings
from holdfast.testing.scripted_model import ManualReply


@pytest.fixture
async def harness(tmp_path: Path, vendor: FakeDiscord) -> AsyncIterator[PlatformGatewayHarness]:
    settings = DiscordSettings(token="env:TOKEN", allow=(ANN["id"], BOB["id"]))
    platform = new_platform(vendor, tmp_path / "discord")
    async with running_harness(
        PlatformGatewayHarness(tmp_path, platform, settings, texts=vendor.texts)
    ) as harness:
        await until(lambda: vendor.sessions)
        yield harness


async def test_a_reply_streams_into_one_message(
    harness: PlatformGatewayHarness, vendor: FakeDiscord
) -> None:
    """I4: stream, edits and final text are one message."""
    reply = ManualReply()
    harness.model.say(reply)
    vendor.say("tell me")
    reply.say("Once upon")
    await harness.wait_for_texts("Once upon")
    reply.say(" a **time**.")
    reply.end()
    await harness.wait_for_texts("Once upon a **time**.")
    await harness.wait_for_deliveries(DeliveryState.SENT, 1)
    assert len(vendor.sent) == 1


async def test_the_reply_of_a_deleted_stream_is_sent_as_a_new_message(
    harness: PlatformGatewayHarness, vendor: FakeDiscord
) -> None:
    """I4: the answer is not lost; the outbox says why there is a new message."""
    reply = ManualReply()
    harness.model.say(reply)
    vendor.say("tell me")
    reply.say("Once upon")
    await harness.wait_for_texts("Once upon")
    await wait_for_streamed_message_id(harness)
    vendor.delete_sent()
    reply.say(" a time.")
    reply.end()
    await harness.wait_for_deliveries(DeliveryState.SENT, 1)
    assert vendor.texts() == ["Once upon a time."]
    (delivery,) = await harness.store.read(ListOutbox(state=None, before=None, limit=5))
    assert "sent as a new message" in delivery.error and "Unknown Message" in delivery.error


async def test_a_message_sent_while_the_gateway_was_down_is_answered_once_after_the_start(
    harness: PlatformGatewayHarness, vendor: FakeDiscord
) -> None:
    """G1, G2, H3: a chat that is known, and one of a server; nothing that was answered before."""
    harness.model.say("hello")
    vendor.say("hi")
    await harness.wait_for_texts("hello")
    await harness.wait_for_deliveries(DeliveryState.SENT, 1)
    await harness.die()
    vendor.say("anybody?")
    harness.model.say("here I am")
    await harness.start()
    await harness.wait_for_texts("hello", "here I am")
    assert (await harness.ledger()) == {"answered": 2}


async def test_a_reply_without_a_receipt_arrives_once_and_unmarked(
    harness: PlatformGatewayHarness, vendor: FakeDiscord
) -> None:
    """I2: unknown → settled by its nonce."""
    vendor.faults.append(ConnectionFault.RESET_AFTER)
    harness.model.say("hello")
    vendor.say("hi")
    await harness.wait_for_deliveries(DeliveryState.SENT, 1)
    assert vendor.texts() == ["hello"]


async def test_pressing_a_button_lets_the_command_run(
    harness: PlatformGatewayHarness, vendor: FakeDiscord
) -> None:
    """J3: by a person who was asked."""
    harness.model.say([ToolCall(id=CallId("c1"), name="shell", arguments=RM)], "done")
    vendor.say("clean up")
    await until(lambda: vendor.sent and vendor.sent[0]["components"])
    yes = vendor.sent[0]["components"][0]["components"][0]
    vendor.interact(3, {"custom_id": yes["custom_id"], "component_type": 2})
    await until(lambda: vendor.callbacks)
    await until(lambda: vendor.texts()[-1] == "done")
    (approval,) = await harness.store.read(ListApprovals(limit=5))
    assert approval.state is ApprovalState.APPROVED
    assert len(harness.shell.started) == 1


async def test_in_a_server_a_mention_gets_a_reply_in_its_thread(
    harness: PlatformGatewayHarness, vendor: FakeDiscord
) -> None:
    """Groups: it answers only if it is addressed."""
    harness.model.say("yes?")
    vendor.say("dinner at eight", by=BOB, channel=THREAD)
    asked = vendor.say(f"<@{BOT['id']}> are you there?", channel=THREAD, mentions=[BOT])
    await harness.wait_for_texts("yes?")
    (sent,) = vendor.messages[THREAD][2:]
    assert sent["message_reference"]["message_id"] == asked["id"]
    assert len(harness.model.requests) == 1
    assert vendor.messages[TEXT] == []


async def test_a_slash_command_gets_the_same_reply_as_a_typed_command(
    harness: PlatformGatewayHarness, vendor: FakeDiscord
) -> None:
    vendor.interact(2, {"id": "1", "name": "usage", "type": 1})
    await until(lambda: vendor.sent)
    assert "token" in vendor.texts()[0]


async def test_files_are_stored_and_a_missing_one_is_named(
    harness: PlatformGatewayHarness, vendor: FakeDiscord
) -> None:
    """Attachments: stored under the session."""
    harness.model.say("thanks")
    here, gone = vendor.upload("plan.txt", b"the plan"), vendor.upload("gone.txt", b"")
    del vendor.files["gone.txt"]
    vendor.say("look", attachments=[here, gone])
    await harness.wait_for_texts("thanks")
    (request,) = harness.model.requests
    assert "[Attached, in the workspace: uploads/plan.txt]" in request.messages[-1].text
    assert "[Attached, and not here: gone.txt (" in request.messages[-1].text

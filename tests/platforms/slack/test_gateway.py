"""Tests a gateway with a Slack app, from incoming message to reply."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.platforms.connection_faults import ConnectionFault
from tests.platforms.slack.builders import new_platform, until
from tests.platforms.slack.fake import ANN, BOB, BOT_USER, CHANNEL, FakeSlack
from tests.platforms.slack.faults import SlackError
from tests.support.approvals import RM
from tests.support.deliveries import wait_for_streamed_message_id
from tests.support.platform_gateway import PlatformGatewayHarness, running_harness

from holdfast.core.ids import CallId
from holdfast.core.messages.outbox import DeliveryState
from holdfast.core.messages.transcript import ToolCall, UserMessage
from holdfast.core.people.approval import ApprovalState
from holdfast.core.ports.store_queries import ListApprovals, ListOutbox
from holdfast.platforms.slack.plugin import SlackSettings
from holdfast.testing.scripted_model import ManualReply


@pytest.fixture
async def harness(
    tmp_path: Path, vendor: FakeSlack, base_url: str
) -> AsyncIterator[PlatformGatewayHarness]:
    settings = SlackSettings(token="env:T", app_token="env:A", allow=(ANN, BOB))
    async with running_harness(
        PlatformGatewayHarness(
            tmp_path, new_platform(vendor, base_url), settings, texts=vendor.texts
        )
    ) as harness:
        yield harness


async def test_a_reply_streams_into_one_message_and_its_event_is_acknowledged(
    harness: PlatformGatewayHarness, vendor: FakeSlack
) -> None:
    """G1, I4: stream, edits and final text are one message."""
    reply = ManualReply()
    harness.model.say(reply)
    vendor.say("tell me")
    reply.say("Once upon")
    await harness.wait_for_texts("Once upon")
    await until(lambda: not vendor.waiting)
    reply.say(" a *time*.")
    reply.end()
    await harness.wait_for_texts("Once upon a _time_.")
    await harness.wait_for_deliveries(DeliveryState.SENT, 1)
    assert len(vendor.sent()) == 1


async def test_the_reply_of_a_deleted_stream_is_sent_as_a_new_message(
    harness: PlatformGatewayHarness, vendor: FakeSlack
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
    assert "sent as a new message" in delivery.error and "message_not_found" in delivery.error


async def test_the_reply_of_a_stream_whose_edit_window_closed_is_sent_as_a_new_message(
    harness: PlatformGatewayHarness, vendor: FakeSlack
) -> None:
    """I4: a workspace may let messages be edited for a minute only."""
    reply = ManualReply()
    harness.model.say(reply)
    vendor.say("tell me")
    reply.say("Once upon")
    await harness.wait_for_texts("Once upon")
    await wait_for_streamed_message_id(harness)
    for _ in range(9):
        vendor.faults.add("chat.update", SlackError("edit_window_closed"))
    reply.say(" a time.")
    reply.end()
    await harness.wait_for_deliveries(DeliveryState.SENT, 1)
    assert vendor.texts() == ["Once upon", "Once upon a time."]
    (delivery,) = await harness.store.read(ListOutbox(state=None, before=None, limit=5))
    assert "edit_window_closed" in delivery.error


async def test_a_mention_is_answered_once_in_a_thread_that_is_the_conversation(
    harness: PlatformGatewayHarness, vendor: FakeSlack
) -> None:
    """Groups, threads: who is not meant is not answered; the thread has its own memory."""
    harness.model.say("here", "still here")
    vendor.say("morning all", chat=CHANNEL, by=BOB)
    asked = vendor.say(f"<@{BOT_USER}> are you there?", chat=CHANNEL)
    await harness.wait_for_texts("here")
    vendor.say("not to you", chat=CHANNEL, by=BOB, thread=asked["ts"])
    vendor.say(f"<@{BOT_USER}> and now?", chat=CHANNEL, by=BOB, thread=asked["ts"])
    await harness.wait_for_texts("here", "still here")
    assert {each["thread_ts"] for each in vendor.sent()} == {asked["ts"]}
    messages = harness.model.requests[-1].messages
    said = [(each.speaker, each.text) for each in messages if isinstance(each, UserMessage)]
    assert said == [("Ann", "are you there?"), ("Bob", "and now?")]
    assert len(harness.model.requests) == 2


async def test_a_reply_without_a_receipt_is_looked_up_and_not_sent_again(
    harness: PlatformGatewayHarness, vendor: FakeSlack
) -> None:
    """I2: unknown → settled by the look-up that the platform declares."""
    vendor.faults.add("chat.postMessage", ConnectionFault.RESET_AFTER)
    harness.model.say("hello")
    vendor.say("hi")
    await harness.wait_for_deliveries(DeliveryState.SENT, 1)
    assert vendor.texts() == ["hello"]


async def test_pressing_a_button_lets_the_command_run(
    harness: PlatformGatewayHarness, vendor: FakeSlack
) -> None:
    """J3: by a person who was asked, acknowledged when the press is durable."""
    harness.model.say([ToolCall(id=CallId("c1"), name="shell", arguments=RM)], "done")
    vendor.say("clean up")
    await until(lambda: any("actions" in str(each["blocks"]) for each in vendor.sent()))
    question = vendor.sent()[0]
    yes = question["blocks"][-1]["elements"][0]
    vendor.press(question, yes["value"])
    await until(lambda: vendor.texts()[-1] == "done")
    (approval,) = await harness.store.read(ListApprovals(limit=5))
    assert approval.state is ApprovalState.APPROVED
    assert not vendor.waiting


async def test_a_message_sent_while_the_gateway_was_down_is_answered_once_after_the_start(
    harness: PlatformGatewayHarness, vendor: FakeSlack
) -> None:
    """G1, G2: an event that was committed before the crash comes again, and counts once."""
    harness.model.say("first", "second")
    vendor.say("hi")
    await harness.wait_for_texts("first")
    await until(lambda: vendor.acks)
    await harness.wait_for_deliveries(DeliveryState.SENT, 1)
    await harness.die()
    vendor.waiting.append({key: vendor.acks[0][key] for key in ("envelope_id", "type", "payload")})
    vendor.say("anybody?")
    await harness.start()
    await harness.wait_for_texts("first", "second")
    assert (await harness.ledger()) == {"answered": 2}

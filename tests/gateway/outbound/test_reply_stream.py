"""I4: stream, edits and final text of one reply are one delivery, whatever happens to it."""

import asyncio
import itertools
from typing import Any

import msgspec
import pytest
from tests.support.approvals import HeldShell, PrefixJudge
from tests.support.controlled_store import Commit, ControlledStore, Intercepted
from tests.support.deliveries import (
    restart_with_edits,
    wait_for_deliveries,
    wait_for_streamed_message_id,
    wait_until_shown,
)
from tests.support.gateway_harness import Call, GatewayHarness, Until, WallClock

from holdfast.core.config.settings import ChatSettings, GatewaySettings, PlatformSettings, Settings
from holdfast.core.errors import InvalidTransition, StoreError
from holdfast.core.ids import DeliveryId, InboxId
from holdfast.core.messages.inbox import BusyMode
from holdfast.core.messages.outbox import (
    Address,
    DeliveryKind,
    DeliveryState,
    MessageEdit,
    NewDelivery,
    Outbound,
    Receipt,
)
from holdfast.core.ports.command import Command
from holdfast.core.ports.store_commands import BeginStream, SettleDelivery
from holdfast.core.ports.store_queries import CountOutbox, ListDeliveriesForMessage, ListUndelivered
from holdfast.core.secrets import Secret
from holdfast.core.turns.model import ModelFailed, ModelFault, Retrying
from holdfast.core.turns.tool import ReplayClass
from holdfast.gateway.outbound.reply_stream import STREAM_TRANSITIONS, ReplyStream, StreamState
from holdfast.testing.scripted_model import ManualReply
from holdfast.testing.simulated.events import Faults, VendorVerdict
from holdfast.testing.simulated.platform import SimulatedPlatform
from holdfast.testing.simulated.service import ChatService


async def test_a_reply_grows_in_one_message_and_ends_in_its_final_text(
    harness: GatewayHarness,
) -> None:
    """I4: one delivery, whose row is committed before its first piece."""
    await restart_with_edits(harness)
    reply = ManualReply()
    harness.model.say(reply)
    harness.say("tell me")
    reply.say("Once upon")
    await wait_until_shown(harness, "Once upon")
    assert (await harness.store.read(CountOutbox()))[DeliveryState.STREAMING] == 1
    reply.say(" a time")
    await wait_until_shown(harness, "Once upon a time")
    reply.say(", the end.")
    reply.end()
    await wait_until_shown(harness, "Once upon a time, the end.")
    await wait_for_deliveries(harness, DeliveryState.SENT)
    (answer,) = await harness.store.read(ListDeliveriesForMessage(inbox_id=InboxId(1)))
    (sent,) = harness.service.ledger().sent
    assert (answer.id, answer.platform_message_id) == (sent.outgoing.delivery_id, sent.message_id)
    assert answer.text == "Once upon a time, the end."


async def test_a_reply_that_is_whole_at_once_is_sent_in_one_piece(harness: GatewayHarness) -> None:
    """I4: an edit that shows nothing new is not worth a message."""
    await restart_with_edits(harness, edit_interval=5.0)
    harness.model.say("hello there")
    harness.say("hi")
    assert await harness.texts(1) == ["hello there"]
    await wait_for_deliveries(harness, DeliveryState.SENT)
    assert harness.service.ledger().edits == ()


async def test_a_platform_without_edits_gets_a_reply_when_it_is_whole(
    harness: GatewayHarness,
) -> None:
    reply = ManualReply()
    harness.model.say(reply)
    harness.say("hi")
    reply.say("half ")
    await harness.model.wait_for_request(1)
    reply.say("and half")
    reply.end()
    assert await harness.texts(1) == ["half and half"]
    assert len(harness.service.ledger().attempts) == 1


async def test_streaming_can_be_switched_off_for_a_platform(harness: GatewayHarness) -> None:
    """`platforms.NAME.stream = false`."""
    platform = PlatformSettings(allow=("ann",), stream=False)
    harness.settings = Settings(platforms={"simulated": platform})
    await restart_with_edits(harness, edit_interval=0.0)
    reply = ManualReply()
    harness.model.say(reply)
    harness.say("hi")
    reply.say("half ")
    await harness.model.wait_for_request(1)
    reply.say("and half")
    reply.end()
    assert await harness.texts(1) == ["half and half"]
    assert harness.service.ledger().edits == ()


async def test_edits_are_paced_and_only_the_newest_text_is_shown(
    harness: GatewayHarness,
) -> None:
    """I3: edits are paced under the platform's limit, and coalesced."""
    await restart_with_edits(harness, edit_interval=0.2)
    reply = ManualReply()
    harness.model.say(reply)
    harness.say("count")
    for number in range(60):
        reply.say(f"{number} ")
        await asyncio.sleep(0.01)
    reply.end()
    await wait_until_shown(harness, "".join(f"{number} " for number in range(60)))
    ledger = harness.service.ledger()
    assert len(ledger.sent) == 1
    times = [edit.at for edit in ledger.edits]
    assert len(times) > 1, "some of it was shown before the end"
    assert all(later - sooner > 0.19 for sooner, later in itertools.pairwise(times))


async def test_text_before_a_tool_call_is_replaced_by_the_text_after_it(
    harness: GatewayHarness, call: Call
) -> None:
    """I4: one message, though the turn took two steps."""
    await restart_with_edits(harness)
    first, second = ManualReply(), ManualReply()
    harness.model.say(first, second)
    harness.say("look it up")
    first.say("I will look.")
    await wait_until_shown(harness, "I will look.")
    first.end(call(ReplayClass.SAFE))
    second.say("Found")
    await wait_until_shown(harness, "Found")
    second.say(" it.")
    second.end()
    await wait_until_shown(harness, "Found it.")
    await wait_for_deliveries(harness, DeliveryState.SENT)
    assert len(harness.service.ledger().sent) == 1


async def test_a_running_tool_is_named_below_the_text_and_not_in_the_reply(
    harness: GatewayHarness, call: Call
) -> None:
    """I4: progress is shown in the streamed message, and is replaced by the text."""
    await restart_with_edits(harness)
    held_tool, (first, second) = (
        harness.held_tools[ReplayClass.SAFE],
        (ManualReply(), ManualReply()),
    )
    held_tool.go.clear()
    harness.model.say(first, second)
    harness.say("look it up")
    first.say("I will look.")
    await wait_until_shown(harness, "I will look.")
    first.end(call(ReplayClass.SAFE, '{"path": "a`b.txt", "lines": 3}'))
    await wait_until_shown(harness, "I will look.\n\n▸ safe `a'b.txt`")
    held_tool.go.set()
    await wait_until_shown(harness, "I will look.")
    second.say("Found it.")
    second.end()
    await wait_until_shown(harness, "Found it.")
    await wait_for_deliveries(harness, DeliveryState.SENT)
    assert len(harness.service.ledger().sent) == 1


RETRYING = Retrying("It is ill.", 1, 7.4, attempts=5, fault=ModelFault.OVERLOADED)
RETRY_LINE = "↻ The model is overloaded; retrying in 8 s (attempt 2 of 5)"


async def test_a_retry_of_the_model_is_shown_until_it_answers(harness: GatewayHarness) -> None:
    """I4: the chat sees why it waits, and the final reply has nothing of it."""
    await restart_with_edits(harness)
    reply = ManualReply()
    harness.model.say(reply)
    harness.say("tell me")
    reply.say("Half of")
    await wait_until_shown(harness, "Half of")
    reply.retry(RETRYING)
    await wait_until_shown(harness, RETRY_LINE)
    reply.say("All")
    await wait_until_shown(harness, "All")
    reply.say(" of it.")
    reply.end()
    await wait_until_shown(harness, "All of it.")
    await wait_for_deliveries(harness, DeliveryState.SENT)
    assert len(harness.service.ledger().sent) == 1


async def test_a_long_wait_for_the_model_gets_a_message_before_there_is_text(
    harness: GatewayHarness,
) -> None:
    await restart_with_edits(harness)
    reply = ManualReply()
    harness.model.say(reply)
    harness.say("tell me")
    reply.retry(RETRYING)
    await wait_until_shown(harness, RETRY_LINE)
    reply.say("Found it.")
    reply.end()
    await wait_until_shown(harness, "Found it.")
    await wait_for_deliveries(harness, DeliveryState.SENT)
    assert len(harness.service.ledger().sent) == 1


async def test_a_retry_is_not_shown_where_progress_is_switched_off(
    harness: GatewayHarness,
) -> None:
    """`platforms.NAME.progress = false`."""
    platform = PlatformSettings(allow=("ann",), progress=False)
    harness.settings = Settings(platforms={"simulated": platform})
    await restart_with_edits(harness)
    reply = ManualReply()
    harness.model.say(reply)
    harness.say("tell me")
    reply.say("Half of")
    await wait_until_shown(harness, "Half of")
    reply.retry(RETRYING)
    reply.say("All of it.")
    reply.end()
    await wait_until_shown(harness, "All of it.")
    assert all("↻" not in edit.text for edit in harness.service.ledger().edits)


async def test_a_stopped_turn_keeps_its_text_and_drops_its_progress(
    harness: GatewayHarness, call: Call
) -> None:
    """I4, F9: the final text of a message never contains progress."""
    await restart_with_edits(harness)
    held_tool, first = harness.held_tools[ReplayClass.SAFE], ManualReply()
    held_tool.go.clear()
    harness.model.say(first)
    harness.say("look it up")
    first.say("I will look.")
    await wait_until_shown(harness, "I will look.")
    first.end(call(ReplayClass.SAFE))
    await wait_until_shown(harness, "I will look.\n\n▸ safe")
    harness.say("/stop")
    await wait_for_deliveries(harness, DeliveryState.SENT, 2)
    text = harness.service.ledger().sent[0].text
    assert text.startswith("I will look.\n\n(") and "▸" not in text


async def test_a_quiet_chat_gets_replies_only(harness: GatewayHarness, call: Call) -> None:
    """Neither typing nor progress nor notices; another chat has them."""
    chats = {"library": ChatSettings(quiet=True)}
    platform = PlatformSettings(allow=("ann",), chats=chats, restart_notices=True)
    gateway = GatewaySettings(busy_mode=BusyMode.QUEUE)
    harness.settings = Settings(platforms={"simulated": platform}, gateway=gateway)
    await restart_with_edits(harness, typing=True, busy_notices=True, restart_notices=True)
    held_tool = harness.held_tools[ReplayClass.SAFE]
    held_tool.go.clear()
    for chat in ("library", "pub"):
        reply = ManualReply()
        harness.model.say(reply)
        harness.say("look it up", chat=chat)
        reply.say("Looking.")
        reply.end(call(ReplayClass.SAFE))
        await held_tool.wait_until_started(1 if chat == "library" else 2)
        harness.say("and then?", chat=chat)
    async with asyncio.timeout(30):
        while len(harness.service.ledger().sent) < 2 or not harness.service.ledger().typing:
            await asyncio.sleep(0.005)
    await harness.stop()
    ledger = harness.service.ledger()
    reached = {sent.outgoing.chat_id for sent in ledger.sent}
    assert reached | {typing.chat_id for typing in ledger.typing} == {"pub"}


async def test_the_quiet_setting_of_a_chat_survives_a_restart(
    harness: GatewayHarness,
) -> None:
    """G5: `/quiet` overrides the configuration, and is saved with its reply."""
    quiet = PlatformSettings(allow=("ann",), quiet=True)
    harness.settings = Settings(platforms={"simulated": quiet})
    await restart_with_edits(harness, edit=False, typing=True)
    for number, (argument, reply) in enumerate(
        (
            ("", "answers only (as configured)"),
            ("off", "answers, progress and notices"),
            ("aloud", "/quiet does not know 'aloud'"),
            ("", "answers, progress and notices (chosen"),
        )
    ):
        harness.say(f"/quiet {argument}")
        assert reply in (await harness.texts(number + 1))[number]
    await harness.stop()
    await harness.start()
    harness.model.say("done")
    harness.say("think", chat="elsewhere")
    await harness.sent(5)
    harness.say("think")
    async with asyncio.timeout(30):
        while not harness.service.ledger().typing:
            await asyncio.sleep(0.005)
    harness.model.say("done")
    await harness.sent(6)
    harness.say("/quiet default")
    assert (await harness.texts(7))[6] == "This chat uses the configuration again."
    before = harness.service.ledger().typing
    harness.model.say("done")
    harness.say("think")
    await harness.sent(8)
    assert harness.service.ledger().typing == before
    assert {typing.chat_id for typing in before} == {"home"}


async def test_a_turn_interrupted_by_a_crash_edits_the_message_it_had_begun(
    harness: GatewayHarness,
) -> None:
    """I4: the platform's message id is durable as soon as it is known."""
    await restart_with_edits(harness)
    reply, again = ManualReply(), ManualReply()
    harness.model.say(reply)
    harness.say("tell me")
    reply.say("Once")
    await wait_until_shown(harness, "Once")
    await wait_for_streamed_message_id(harness)
    await harness.die()
    harness.model.say(again)
    await harness.start()
    again.say("Twice told")
    await wait_until_shown(harness, "Twice told")
    again.end()
    await wait_for_deliveries(harness, DeliveryState.SENT)
    (sent,) = harness.service.ledger().sent
    assert sent.text == "Twice told"


async def test_a_final_text_unsent_at_a_crash_is_an_edit_of_the_stream(
    harness: GatewayHarness,
) -> None:
    """H4, I4: the end is committed, the platform was away: the successor edits, and sends none."""
    await restart_with_edits(harness)
    reply = ManualReply()
    harness.model.say(reply)
    harness.say("tell me")
    reply.say("Once")
    await wait_until_shown(harness, "Once")
    await harness.service.wait_for_ledger(sent=1, wait=5)
    harness.service.set_faults(Faults(disconnected=True))
    reply.say(" more")
    reply.end()
    async with asyncio.timeout(30):
        while (await harness.ledger()).get("answered") != 1:
            await asyncio.sleep(0.005)
    await harness.die()
    harness.service.set_faults(Faults())
    await harness.start()
    await wait_until_shown(harness, "Once more")
    await wait_for_deliveries(harness, DeliveryState.SENT)
    assert len(harness.service.ledger().sent) == 1


async def test_a_first_piece_without_a_receipt_is_resent_once_and_marked(
    harness: GatewayHarness,
) -> None:
    """I2, I4: a second message for one reply is marked, and has the whole text."""
    await restart_with_edits(harness)
    harness.service.set_faults(Faults(lost_receipts=1))
    reply = ManualReply()
    harness.model.say(reply)
    harness.say("tell me")
    reply.say("Once")
    await wait_until_shown(harness, "Once")
    reply.say(" upon a time")
    reply.end()
    await wait_until_shown(harness, "Once upon a time", message=1)
    await wait_for_deliveries(harness, DeliveryState.SENT)
    first, second = harness.service.ledger().sent
    assert (first.outgoing.maybe_repeated, second.outgoing.maybe_repeated) == (False, True)
    assert first.edits == ()


async def test_an_idempotent_vendor_shows_a_reply_once_after_a_lost_receipt(
    harness: GatewayHarness,
) -> None:
    """I2, I4: the delivery id says where the message is, and it is edited there."""
    await restart_with_edits(harness, idempotent_send=True)
    harness.service.set_faults(Faults(lost_receipts=1))
    reply = ManualReply()
    harness.model.say(reply)
    harness.say("tell me")
    reply.say("Once")
    await wait_until_shown(harness, "Once")
    reply.say(" upon a time")
    reply.end()
    await wait_until_shown(harness, "Once upon a time")
    await wait_for_deliveries(harness, DeliveryState.SENT)
    assert len(harness.service.ledger().sent) == 1


async def test_a_rejected_final_edit_is_retried_as_an_edit(harness: GatewayHarness) -> None:
    """I4: a partial message is edited, and no second one is sent beside it."""
    await restart_with_edits(harness)
    reply = ManualReply()
    harness.model.say(reply)
    harness.say("tell me")
    reply.say("Once")
    await wait_until_shown(harness, "Once")
    harness.service.set_faults(Faults(rejected_edits=2))
    reply.say(" upon a time")
    reply.end()
    await wait_until_shown(harness, "Once upon a time")
    await wait_for_deliveries(harness, DeliveryState.SENT)
    assert len(harness.service.ledger().sent) == 1


@pytest.mark.parametrize("idempotent", [False, True])
async def test_the_reply_of_a_deleted_stream_is_sent_once_as_a_new_message(
    harness: GatewayHarness, idempotent: bool
) -> None:
    """I4: the answer is not lost, and the outbox says why there is a second message. A vendor that
    accepts an id once would return the deleted message for the same id."""
    await restart_with_edits(harness, idempotent_send=idempotent)
    reply = ManualReply()
    harness.model.say(reply, "next")
    harness.say("tell me")
    reply.say("Once")
    await wait_until_shown(harness, "Once")
    harness.service.delete_sent(harness.service.sent[0].message_id)
    reply.say(" upon a time")
    reply.end()
    await wait_until_shown(harness, "Once upon a time", message=1)
    await wait_for_deliveries(harness, DeliveryState.SENT)
    (answer,) = await harness.store.read(ListDeliveriesForMessage(inbox_id=InboxId(1)))
    assert answer.platform_message_id == harness.service.sent[1].message_id
    assert "sent as a new message: the service refused the edit: no bot sent" in answer.error
    await harness.die()
    await harness.start()
    harness.say("and now?")
    await wait_until_shown(harness, "next", message=2)
    sent = harness.service.ledger().sent
    assert [each.text for each in sent] == ["Once", "Once upon a time", "next"]
    assert [each.outgoing.maybe_repeated for each in sent] == [False, False, False]


async def test_the_reply_of_a_stream_whose_last_edit_is_always_refused_is_sent_as_a_new_message(
    harness: GatewayHarness,
) -> None:
    """I2, I4: with the platform's reason in the outbox, and the chat continues."""
    await restart_with_edits(harness)
    reply = ManualReply()
    harness.model.say(reply, "next")
    harness.say("tell me")
    reply.say("Once")
    await wait_until_shown(harness, "Once")
    harness.service.set_faults(Faults(rejected_edits=100))
    reply.say(" upon a time")
    reply.end()
    await wait_for_deliveries(harness, DeliveryState.SENT)
    (answer,) = await harness.store.read(ListDeliveriesForMessage(inbox_id=InboxId(1)))
    assert "cannot be edited" in answer.error
    assert [each.text for each in harness.service.sent] == ["Once", "Once upon a time"]
    harness.service.set_faults(Faults())  # or they would hold of what grows next, too
    harness.say("and now?")
    await wait_until_shown(harness, "next", message=2)


async def test_a_new_message_without_a_receipt_is_resent_once_and_marked(
    harness: GatewayHarness,
) -> None:
    """I2, I4: as every other message."""
    await restart_with_edits(harness)
    reply = ManualReply()
    harness.model.say(reply)
    harness.say("tell me")
    reply.say("Once")
    await wait_until_shown(harness, "Once")
    await wait_for_streamed_message_id(harness)
    harness.service.delete_sent(harness.service.sent[0].message_id)
    harness.service.set_faults(Faults(lost_receipts=1))
    reply.say(" upon a time")
    reply.end()
    await wait_for_deliveries(harness, DeliveryState.SENT)
    sent = harness.service.ledger().sent
    assert [each.text for each in sent] == ["Once", "Once upon a time", "Once upon a time"]
    assert [each.outgoing.maybe_repeated for each in sent] == [False, False, True]


async def test_a_new_message_that_is_refused_fails_visibly(harness: GatewayHarness) -> None:
    """I2: with the platform's reason."""
    await restart_with_edits(harness)
    reply = ManualReply()
    harness.model.say(reply)
    harness.say("tell me")
    reply.say("Once")
    await wait_until_shown(harness, "Once")
    harness.service.set_faults(Faults(rejected_edits=100, refusals=1))
    reply.say(" upon a time")
    reply.end()
    await wait_for_deliveries(harness, DeliveryState.FAILED)
    (answer,) = await harness.store.read(ListDeliveriesForMessage(inbox_id=InboxId(1)))
    assert "does not want this message" in answer.error


async def test_a_refused_first_piece_leaves_the_reply_to_be_sent_whole(
    harness: GatewayHarness,
) -> None:
    """I4: nothing was delivered, so the final text goes as a message of its own."""
    await restart_with_edits(harness)
    harness.service.set_faults(Faults(refusals=1))
    reply = ManualReply()
    harness.model.say(reply)
    harness.say("tell me")
    reply.say("Once")
    async with asyncio.timeout(30):
        while not harness.service.ledger().attempts:
            await asyncio.sleep(0.005)
    reply.say(" upon a time")
    reply.end()
    await wait_until_shown(harness, "Once upon a time")
    await wait_for_deliveries(harness, DeliveryState.SENT)
    assert [sent.outgoing.maybe_repeated for sent in harness.service.ledger().sent] == [False]


async def test_flood_control_drops_progress_and_not_the_reply(harness: GatewayHarness) -> None:
    """I3: progress is dropped under pressure, replies never; the wait is obeyed."""
    await restart_with_edits(harness)
    reply = ManualReply()
    harness.model.say(reply)
    harness.say("tell me")
    reply.say("a")
    await wait_until_shown(harness, "a")
    harness.service.set_faults(Faults(floods=2, retry_after=0.3))
    for piece in "bcdefgh":
        reply.say(piece)
        await asyncio.sleep(0.02)
    reply.end()
    await wait_until_shown(harness, "abcdefgh")
    await wait_for_deliveries(harness, DeliveryState.SENT)
    ledger = harness.service.ledger()
    assert len(ledger.sent) == 1
    assert [e.verdict for e in ledger.edits].count(VendorVerdict.FLOOD) == 2
    assert len(ledger.edits) <= 5, "what came while it was to wait was not sent"


async def test_a_stopped_reply_says_so_in_its_own_message(
    harness: GatewayHarness,
) -> None:
    """I4, F9: a partial message that will never be a reply says so."""
    await restart_with_edits(harness)
    reply = ManualReply()
    harness.model.say(reply)
    harness.say("tell me")
    reply.say("Once upon")
    await wait_until_shown(harness, "Once upon")
    harness.say("/stop")
    await wait_until_shown(harness, "Once upon\n\n(stopped by its user)")
    await wait_for_deliveries(harness, DeliveryState.SENT, 2)
    assert len(harness.service.ledger().sent) == 2


class SlowReceiptPlatform(SimulatedPlatform):
    """A platform that returns its receipts only when a test allows it."""

    def __init__(self, service: ChatService) -> None:
        super().__init__(service, account="slow")
        self.may_answer = asyncio.Event()

    async def send(self, outbound: Outbound) -> Receipt:
        receipt = await super().send(outbound)
        await self.may_answer.wait()
        return receipt


async def test_a_reply_stopped_before_its_first_receipt_keeps_its_text(
    harness: GatewayHarness, until: Until
) -> None:
    """I4, F9: users have read it, although its receipt has not arrived yet."""
    await harness.stop()
    harness.service = ChatService(edit=True, edit_interval=0.01)
    allowed = PlatformSettings(allow=("ann",))
    accounts = msgspec.structs.replace(allowed, accounts={"slow": allowed})
    harness.settings = Settings(platforms={"simulated": accounts})
    harness.extra_platforms = [platform := SlowReceiptPlatform(harness.service)]
    await harness.start()
    reply = ManualReply()
    harness.model.say(reply)
    harness.say("tell me", account="slow")
    reply.say("Once upon")
    await wait_until_shown(harness, "Once upon")
    harness.say("/stop", account="slow")

    async def is_stopped() -> bool:
        return (await harness.ledger()).get("superseded") == 1

    await until(is_stopped)
    platform.may_answer.set()
    await wait_until_shown(harness, "Once upon\n\n(stopped by its user)")


async def test_a_delivery_does_not_wait_for_a_streaming_reply_in_its_chat(
    harness: GatewayHarness,
) -> None:
    """I3: a stream delays no other delivery."""
    await restart_with_edits(harness)
    reply = ManualReply()
    harness.model.say(reply)
    harness.say("tell me")
    reply.say("Once")
    await wait_until_shown(harness, "Once")
    harness.say("/help")
    await harness.sent(2)
    reply.say(" upon")
    await wait_until_shown(harness, "Once upon")
    reply.end()
    await wait_for_deliveries(harness, DeliveryState.SENT, 2)


async def test_no_secret_passes_in_the_pieces_of_a_stream(harness: GatewayHarness) -> None:
    """Law 13: neither in edits nor across the boundary of two parts."""
    harness.secrets = [Secret("hunter2hunter2")]
    await restart_with_edits(harness, max_length=30)
    reply = ManualReply()
    harness.model.say(reply)
    harness.say("what is it?")
    reply.say("It is ")
    await wait_until_shown(harness, "It is ")
    for piece in ("hunt", "er2hun", "ter2", " and more of it"):
        reply.say(piece)
        await asyncio.sleep(0.03)
    await wait_until_shown(harness, "It is [redacted] and more of ")
    reply.say(" hunter2hunter2")
    reply.end()
    await wait_for_deliveries(harness, DeliveryState.SENT)
    ledger = harness.service.ledger()
    everything = [*(e.text for e in ledger.edits), *(s.outgoing.text for s in ledger.sent)]
    assert not [text for text in everything if "hunt" in text]


async def test_a_secret_is_redacted_before_a_reply_is_split(
    harness: GatewayHarness,
) -> None:
    """Law 13: redaction comes before splitting, or each part could contain half a secret."""
    await harness.stop()
    harness.secrets = [Secret("correct horse battery staple")]
    harness.service = ChatService(max_length=30)
    await harness.start()
    harness.model.say("The phrase is correct horse battery staple, as it always was.")
    harness.say("what is it?")
    await wait_for_deliveries(harness, DeliveryState.SENT)
    sent = "".join(each.text for each in harness.service.ledger().sent)
    assert sent == "The phrase is [redacted], as it always was."


async def test_a_reply_longer_than_a_message_is_several_numbered_parts(
    harness: GatewayHarness,
) -> None:
    """I4: in order, each sent once; the first is the one that grew."""
    await restart_with_edits(harness, max_length=20)
    text = "one two three four five six seven eight nine ten"
    reply = ManualReply()
    harness.model.say(reply)
    harness.say("count")
    reply.say("one two")
    await wait_until_shown(harness, "one two")
    reply.say(text.removeprefix("one two"))
    reply.end()
    await wait_for_deliveries(harness, DeliveryState.SENT)
    sent = harness.service.ledger().sent
    assert "".join(each.text for each in sent) == text
    assert all(len(each.text) <= 20 for each in sent)
    name = sent[0].outgoing.delivery_id
    assert [each.outgoing.delivery_id for each in sent] == [name, f"{name}.2", f"{name}.3"]


async def test_trailing_whitespace_beyond_the_limit_adds_no_message(
    harness: GatewayHarness,
) -> None:
    """I3: the whitespace is dropped, and the text is not refused for it."""
    await harness.stop()
    harness.service = ChatService(max_length=10)
    await harness.start()
    harness.model.say("a word" + "\n" * 40)
    harness.say("hi")
    await wait_for_deliveries(harness, DeliveryState.SENT)
    assert [each.text.strip() for each in harness.service.ledger().sent] == ["a word"]


async def test_a_long_reply_continues_after_a_crash_at_its_unsent_part(
    harness: GatewayHarness,
) -> None:
    """I2, I4: without edits too; what has its receipt is not sent again after a crash."""
    await harness.stop()
    harness.service = ChatService(max_length=10)
    await harness.start()
    harness.model.say("aaaaaaaaa bbbbbbbbb ccccccccc")
    harness.say("hi")
    await harness.sent(1)
    harness.service.set_faults(Faults(disconnected=True))
    await harness.die()
    harness.service.set_faults(Faults())
    await harness.start()
    await wait_for_deliveries(harness, DeliveryState.SENT)
    sent = harness.service.ledger().sent
    texts = [each.text.strip() for each in sent]
    assert list(dict.fromkeys(texts)) == ["aaaaaaaaa", "bbbbbbbbb", "ccccccccc"]
    again = [s for number, s in enumerate(sent) if s.text.strip() in texts[:number]]
    assert all(each.outgoing.maybe_repeated for each in again)


async def test_typing_is_shown_while_a_turn_runs_and_has_no_row(harness: GatewayHarness) -> None:
    """I3, I4: it passes the send gate like every output, and has no delivery."""
    await restart_with_edits(harness, edit=False, typing=True)
    harness.say("think", thread="t")
    await harness.model.wait_for_request(1)
    async with asyncio.timeout(30):
        while not harness.service.ledger().typing:
            await asyncio.sleep(0.005)
    assert sum((await harness.store.read(CountOutbox())).values()) == 0
    harness.model.say("done")
    assert await harness.texts(1) == ["done"]
    (typing,) = harness.service.ledger().typing
    assert (typing.chat_id, typing.thread_id) == ("home", "t")


async def test_flood_control_of_typing_delays_the_reply_as_long_as_requested(
    harness: GatewayHarness,
) -> None:
    """I3: one gate is in front of every output, and what is dropped there is not repeated."""
    await restart_with_edits(harness, edit=False, typing=True)
    harness.service.set_faults(Faults(floods=1, retry_after=0.2))
    harness.model.say("done")
    harness.say("quick")
    assert await harness.texts(1) == ["done"]
    ledger = harness.service.ledger()
    assert ledger.typing == ()
    assert [attempt.verdict for attempt in ledger.attempts] == [VendorVerdict.TAKEN]


async def test_a_reply_whose_turn_fails_says_so_in_its_own_message(harness: GatewayHarness) -> None:
    """I4: the reason replaces the partial reply, and there is no second message."""
    await restart_with_edits(harness)
    reply = ManualReply()
    harness.model.say(reply)
    harness.say("tell me")
    reply.say("Once upon")
    await wait_until_shown(harness, "Once upon")
    reply.fail(ModelFailed("the model will not go on", fault=ModelFault.AUTH))
    await wait_for_deliveries(harness, DeliveryState.SENT)
    (sent,) = harness.service.ledger().sent
    assert sent.text.startswith("This could not be answered:")
    assert "the model will not go on" in sent.text


async def test_an_interrupted_reply_says_so_and_the_next_message_has_its_own(
    harness: GatewayHarness,
) -> None:
    """G4, I4: the interrupted reply says so, and the next message has its own reply."""
    gateway = GatewaySettings(busy_mode=BusyMode.INTERRUPT)
    harness.settings = msgspec.structs.replace(harness.settings, gateway=gateway)
    await restart_with_edits(harness)
    first, second = ManualReply(), ManualReply()
    harness.model.say(first, second)
    harness.say("tell me")
    first.say("Once upon")
    await wait_until_shown(harness, "Once upon")
    harness.say("no, something else")
    await wait_until_shown(harness, "Once upon\n\n(interrupted by the next message)")
    second.say("Something")
    await wait_until_shown(harness, "Something", message=1)
    second.say(" else.")
    second.end()
    await wait_until_shown(harness, "Something else.", message=1)
    await wait_for_deliveries(harness, DeliveryState.SENT, 2)
    assert await harness.ledger() == {"answered": 1, "merged": 1}


async def test_a_reply_that_waits_for_an_approval_continues_in_its_message(
    harness: GatewayHarness, call: Call
) -> None:
    """I4, J3: the question is a message below the streamed reply."""
    await harness.stop()
    harness.extra_tools = [HeldShell()]
    harness.judge = PrefixJudge()
    harness.service = ChatService(edit=True, edit_interval=0.01)
    await harness.start()
    first, second = ManualReply(), ManualReply()
    harness.model.say(first, second)
    harness.say("clean up")
    first.say("I will delete it.")
    await wait_until_shown(harness, "I will delete it.")
    first.end(call("shell", '{"command": "rm -rf build"}'))
    await harness.sent(2)
    harness.say("/approve")
    second.say("Deleted")
    await wait_until_shown(harness, "Deleted")
    second.say(".")
    second.end()
    await wait_until_shown(harness, "Deleted.")
    await wait_for_deliveries(harness, DeliveryState.SENT, 3)
    assert len(harness.service.ledger().sent) == 3


async def test_an_edit_without_an_answer_counts_as_possibly_made(
    harness: GatewayHarness, call: Call
) -> None:
    """I2, I4: it may have been made, so the final text is sent whatever was shown before."""
    await restart_with_edits(harness)
    first, second = ManualReply(), ManualReply()
    harness.model.say(first, second)
    harness.say("tell me")
    first.say("Yes")
    await wait_until_shown(harness, "Yes")
    harness.service.set_faults(Faults(lost_edits=1))
    first.say(", or no")
    await wait_until_shown(harness, "Yes, or no")
    first.end(call(ReplayClass.SAFE))
    second.say("Yes")
    second.end()
    await wait_for_deliveries(harness, DeliveryState.SENT)
    assert [sent.text for sent in harness.service.ledger().sent] == ["Yes"]


async def test_a_reply_that_is_shown_completely_ends_with_its_turn(
    harness: GatewayHarness, until: Until
) -> None:
    """I1, I4: the commit that ends the turn ends the delivery, without another edit."""
    await restart_with_edits(harness)
    reply = ManualReply()
    harness.model.say(reply)
    harness.say("tell me")
    reply.say("Once upon a time.")
    await wait_until_shown(harness, "Once upon a time.")
    await wait_for_streamed_message_id(harness)
    edits = len(harness.service.ledger().edits)
    commits = harness.store.status.commits
    reply.end()

    async def is_answered() -> bool:
        return (await harness.ledger()).get("answered") == 1

    await until(is_answered)
    (answer,) = await harness.store.read(ListDeliveriesForMessage(inbox_id=InboxId(1)))
    (sent,) = harness.service.ledger().sent
    assert (answer.state, answer.text) == (DeliveryState.SENT, "Once upon a time.")
    assert answer.platform_message_id == sent.message_id
    await harness.stop()
    assert len(harness.service.ledger().edits) == edits
    assert harness.store.status.commits - commits == 1
    await harness.start()
    assert await harness.store.read(ListUndelivered()) == []


class SlowEditPlatform(SimulatedPlatform):
    """A platform that makes an edit at once, and says so only when a test allows it."""

    def __init__(self, service: ChatService) -> None:
        super().__init__(service, account="slow")
        self.may_answer = asyncio.Event()

    async def edit(self, edit: MessageEdit) -> None:
        await super().edit(edit)
        await self.may_answer.wait()


async def test_a_reply_whose_progress_is_being_shown_gets_its_last_edit(
    harness: GatewayHarness, call: Call
) -> None:
    """I4: an edit under way may replace the text that was shown before, so nothing is known to be
    shown when the turn ends."""
    await harness.stop()
    harness.service = ChatService(edit=True, edit_interval=0.01)
    allowed = PlatformSettings(allow=("ann",))
    accounts = msgspec.structs.replace(allowed, accounts={"slow": allowed})
    harness.settings = Settings(platforms={"simulated": accounts})
    harness.extra_platforms = [platform := SlowEditPlatform(harness.service)]
    await harness.start()
    held_tool, (first, second) = (
        harness.held_tools[ReplayClass.SAFE],
        (ManualReply(), ManualReply()),
    )
    held_tool.go.clear()
    harness.model.say(first, second)
    harness.say("tell me", account="slow")
    first.say("Yes")
    await wait_until_shown(harness, "Yes")
    first.end(call(ReplayClass.SAFE))
    await wait_until_shown(harness, "Yes\n\n▸ safe")
    held_tool.go.set()
    second.say("Yes")
    second.end()
    async with asyncio.timeout(30):
        while (await harness.ledger()).get("answered") != 1:
            await asyncio.sleep(0.005)
    platform.may_answer.set()
    await wait_until_shown(harness, "Yes")
    await wait_for_deliveries(harness, DeliveryState.SENT)


class UnstreamableStore(ControlledStore):
    """A store that refuses the row of a streamed reply."""

    def intercept(self, command: Command[Any], commit: Commit) -> Intercepted:
        return StoreError("the disk is full") if isinstance(command, BeginStream) else None


async def test_a_reply_whose_stream_cannot_be_recorded_is_sent_when_it_is_whole(
    harness: GatewayHarness,
) -> None:
    """I2, I4: nothing is shown that is not recorded, and nothing is lost by it."""
    harness.open_store = UnstreamableStore
    await restart_with_edits(harness)
    reply = ManualReply()
    harness.model.say(reply)
    harness.say("tell me")
    reply.say("Once upon")
    await asyncio.sleep(0.1)  # it would be shown within a tenth of this
    assert harness.service.ledger().sent == ()
    reply.say(" a time")
    reply.end()
    await wait_for_deliveries(harness, DeliveryState.SENT)
    (sent,) = harness.service.ledger().sent
    assert (sent.text, sent.outgoing.maybe_repeated) == ("Once upon a time", False)


class ForgetfulStore(ControlledStore):
    """A store that refuses the first end of a delivery."""

    refused = 0

    def intercept(self, command: Command[Any], commit: Commit) -> Intercepted:
        if isinstance(command, SettleDelivery) and not self.refused:
            self.refused += 1
            return StoreError("the disk is full")
        return None


async def test_the_end_of_a_stream_that_cannot_be_recorded_is_retried_without_an_edit(
    harness: GatewayHarness,
) -> None:
    """I2: nothing waits for that write; a waiter is still notified of the one that succeeds."""
    harness.open_store = ForgetfulStore
    await restart_with_edits(harness, edit_interval=0.3)  # the second text is shown by the end
    reply = ManualReply()
    harness.model.say(reply)
    harness.say("tell me")
    reply.say("Once upon")
    await wait_until_shown(harness, "Once upon")
    reply.say(" a time")
    reply.end()
    await wait_until_shown(harness, "Once upon a time")
    (answer,) = await harness.store.read(ListDeliveriesForMessage(inbox_id=InboxId(1)))
    waiters = harness.gateway.delivery_waiters
    ended = await waiters.wait_for_end(answer.id, reads=harness.store, wait=30)
    assert ended is not None and ended.state is DeliveryState.SENT
    assert isinstance(harness.store, ForgetfulStore) and harness.store.refused == 1
    edits = [each.text for each in harness.service.ledger().edits]
    assert edits.count("Once upon a time") == 1


def test_a_muted_stream_is_never_opened_again() -> None:
    """Each state but the last leads somewhere, and an illegal change raises."""
    assert set(STREAM_TRANSITIONS) == set(StreamState)
    assert [state for state in StreamState if not STREAM_TRANSITIONS[state]] == [StreamState.MUTED]
    address = Address(platform="simulated", account="default", chat_id="home")
    new = NewDelivery(id=DeliveryId("d"), address=address, kind=DeliveryKind.REPLY, text=None)
    stream = ReplyStream(new, interval=1.0, show=lambda _: True, clock=WallClock())
    stream.close()
    stream.reopen(muted=False)
    assert stream.state is StreamState.OPEN
    stream.reopen(muted=True)
    stream.close()
    stream.reopen(muted=False)
    assert stream.state is StreamState.MUTED
    with pytest.raises(InvalidTransition):
        stream._move_to(StreamState.OPEN)

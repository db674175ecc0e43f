"""A gateway with a bot: from what people write in Discord to what they read there."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.gateway.approvals.test_approvals import RM
from tests.platforms.discord.builders import door_to, until
from tests.platforms.discord.fake import ANN, BOB, BOT, TEXT, THREAD, Vendor
from tests.platforms.discord.faults import Break
from tests.support.platform_gateway import PlatformHarness, started

from holdfast.core.ids import CallId
from holdfast.core.messages.outbox import DeliveryState
from holdfast.core.messages.transcript import ToolCall
from holdfast.core.people.approval import ApprovalState
from holdfast.platforms.discord.plugin import DiscordSettings
from holdfast.testing.scripted_model import ManualReply


@pytest.fixture
async def bot(tmp_path: Path, vendor: Vendor) -> AsyncIterator[PlatformHarness]:
    settings = DiscordSettings(token="env:TOKEN", allow=(ANN["id"], BOB["id"]))
    door = door_to(vendor, tmp_path / "discord")
    async with started(PlatformHarness(tmp_path, door, settings, texts=vendor.texts)) as stage:
        await until(lambda: vendor.sessions)
        yield stage


async def test_a_person_is_answered_in_one_message_that_grows(
    bot: PlatformHarness, vendor: Vendor
) -> None:
    """I4: stream, edits and final text are one message."""
    reply = ManualReply()
    bot.model.say(reply)
    vendor.say("tell me")
    reply.say("Once upon")
    await bot.read("Once upon")
    reply.say(" a **time**.")
    reply.end()
    await bot.read("Once upon a **time**.")
    await bot.settled(DeliveryState.SENT, 1)
    assert len(vendor.sent) == 1


async def test_what_was_said_while_the_gateway_was_down_is_answered_once_after_its_start(
    bot: PlatformHarness, vendor: Vendor
) -> None:
    """G1, G2, H3: a chat that is known, and one of a server; nothing that was answered before."""
    bot.model.say("hello")
    vendor.say("hi")
    await bot.read("hello")
    await bot.settled(DeliveryState.SENT, 1)
    await bot.die()
    vendor.say("anybody?")
    bot.model.say("here I am")
    await bot.start()
    await bot.read("hello", "here I am")
    assert (await bot.ledger()) == {"answered": 2}


async def test_a_reply_whose_receipt_was_lost_is_there_once_and_unmarked(
    bot: PlatformHarness, vendor: Vendor
) -> None:
    """I2: unknown → settled by its nonce."""
    vendor.faults.append(Break.CUT_AFTER)
    bot.model.say("hello")
    vendor.say("hi")
    await bot.settled(DeliveryState.SENT, 1)
    assert vendor.texts() == ["hello"]


async def test_a_press_on_a_button_lets_the_command_run(
    bot: PlatformHarness, vendor: Vendor
) -> None:
    """J3: by somebody who was asked."""
    bot.model.say([ToolCall(id=CallId("c1"), name="shell", arguments=RM)], "done")
    vendor.say("clean up")
    await until(lambda: vendor.sent and vendor.sent[0]["components"])
    yes = vendor.sent[0]["components"][0]["components"][0]
    vendor.interact(3, {"custom_id": yes["custom_id"], "component_type": 2})
    await until(lambda: vendor.callbacks)
    await until(lambda: vendor.texts()[-1] == "done")
    (approval,) = await bot.store.approvals(limit=5)
    assert approval.state is ApprovalState.APPROVED
    assert len(bot.shell.started) == 1


async def test_in_a_server_it_answers_who_names_it_in_their_thread(
    bot: PlatformHarness, vendor: Vendor
) -> None:
    """Groups: when meant, and nobody else."""
    bot.model.say("yes?")
    vendor.say("dinner at eight", by=BOB, channel=THREAD)
    asked = vendor.say(f"<@{BOT['id']}> are you there?", channel=THREAD, mentions=[BOT])
    await bot.read("yes?")
    (sent,) = vendor.messages[THREAD][2:]
    assert sent["message_reference"]["message_id"] == asked["id"]
    assert len(bot.model.requests) == 1
    assert vendor.messages[TEXT] == []


async def test_a_slash_command_is_answered_as_any_other(
    bot: PlatformHarness, vendor: Vendor
) -> None:
    vendor.interact(2, {"id": "1", "name": "usage", "type": 1})
    await until(lambda: vendor.sent)
    assert "token" in vendor.texts()[0]


async def test_files_are_kept_and_one_that_is_gone_is_named(
    bot: PlatformHarness, vendor: Vendor
) -> None:
    """Attachments: stored under the session."""
    bot.model.say("thanks")
    here, gone = vendor.upload("plan.txt", b"the plan"), vendor.upload("gone.txt", b"")
    del vendor.files["gone.txt"]
    vendor.say("look", attachments=[here, gone])
    await bot.read("thanks")
    (request,) = bot.model.requests
    assert "[Attached, in the workspace: uploads/plan.txt]" in request.messages[-1].text
    assert "[Attached, and not here: gone.txt (" in request.messages[-1].text

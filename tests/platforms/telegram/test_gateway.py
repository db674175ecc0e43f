"""Tests a gateway with a Telegram bot, from incoming message to reply."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.platforms.connection_faults import ConnectionFault
from tests.platforms.telegram.builders import new_platform, until
from tests.platforms.telegram.fake import ANN, BOB, FakeTelegram
from tests.support.approvals import RM
from tests.support.deliveries import wait_for_streamed_message_id
from tests.support.platform_gateway import PlatformGatewayHarness, running_harness

from holdfast.core.ids import CallId, SessionId
from holdfast.core.messages.outbox import DeliveryState
from holdfast.core.messages.transcript import ToolCall
from holdfast.core.people.approval import ApprovalState
from holdfast.core.ports.capabilities import WAITING_REACTION
from holdfast.core.ports.store_queries import CountOutbox, ListApprovals, ListOutbox
from holdfast.core.secrets import Secret
from holdfast.platforms.telegram.plugin import TelegramSettings
from holdfast.runner.workspace import Workspace
from holdfast.store.sqlite import writer
from holdfast.testing.scripted_model import ManualReply
from holdfast.tools.send import SendFileTool

PNG = b"\x89PNG\r\n\x1a\n and so on"


@pytest.fixture
async def harness(
    tmp_path: Path, vendor: FakeTelegram, base_url: str
) -> AsyncIterator[PlatformGatewayHarness]:
    settings = TelegramSettings(token="env:TOKEN", allow=(str(ANN["id"]), str(BOB["id"])))
    platform = new_platform(vendor, base_url)
    harness = PlatformGatewayHarness(
        tmp_path, platform, settings, texts=vendor.texts, tools=[SendFileTool()]
    )
    async with running_harness(harness):
        yield harness


async def test_a_user_gets_a_reply_and_the_update_is_confirmed(
    harness: PlatformGatewayHarness, vendor: FakeTelegram
) -> None:
    harness.model.say("Hello **Ann**")
    vendor.say("hi")
    await harness.wait_for_texts("Hello Ann")
    await until(lambda: vendor.updates.confirmed)
    assert vendor.sent[0]["entities"][0]["type"] == "bold"
    assert vendor.actions[0]["action"] == "typing"
    await harness.wait_for_deliveries(DeliveryState.SENT, 1)


async def test_a_reply_streams_into_one_message(
    harness: PlatformGatewayHarness, vendor: FakeTelegram
) -> None:
    """I4: stream, edits and final text are one message."""
    reply = ManualReply()
    harness.model.say(reply)
    vendor.say("tell me")
    reply.say("Once upon")
    await harness.wait_for_texts("Once upon")
    reply.say(" a *time*.")
    reply.end()
    await harness.wait_for_texts("Once upon a time.")
    await harness.wait_for_deliveries(DeliveryState.SENT, 1)
    assert len(vendor.sent) == 1


async def test_the_reply_of_a_deleted_stream_is_sent_as_a_new_message(
    harness: PlatformGatewayHarness, vendor: FakeTelegram
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
    assert (
        "sent as a new message" in delivery.error and "message to edit not found" in delivery.error
    )


async def test_a_streamed_reply_costs_five_commits_when_a_message_follows(
    harness: PlatformGatewayHarness, vendor: FakeTelegram, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K2, I4: accepted, begun, the row with its first attempt, its receipt, ended. The last edit
    is recorded with what is committed next."""
    monkeypatch.setattr(writer, "_MAX_DEFERRAL", 600.0)  # however slow this machine is
    before = harness.store.status.commits
    shown: list[str] = []
    for number in range(3):
        reply = ManualReply()
        harness.model.say(reply)
        vendor.say("hello")
        reply.say(f"Hello {number}")
        await harness.wait_for_texts(*shown, f"Hello {number}")
        reply.say(", Ann")
        reply.end()
        shown.append(f"Hello {number}, Ann")
        await harness.wait_for_texts(*shown)
        await until(lambda: not len(harness.gateway.outbox))
    assert harness.store.status.commits - before <= 3 * 5
    assert (await harness.store.read(CountOutbox()))[DeliveryState.SENT] == 2
    await harness.stop()
    await harness.start()
    assert (await harness.store.read(CountOutbox()))[DeliveryState.SENT] == 3


async def test_a_streamed_turn_with_a_tool_call_costs_seven_commits(
    harness: PlatformGatewayHarness, vendor: FakeTelegram, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K2, H1: besides those of a reply, one for the call that it asks for, and one for its
    result."""
    monkeypatch.setattr(writer, "_MAX_DEFERRAL", 600.0)
    before = harness.store.status.commits
    asking, reply = ManualReply(), ManualReply()
    harness.model.say(asking, reply)
    vendor.say("look it up")
    asking.say("I will look.")
    await harness.wait_for_texts("I will look.")
    asking.end(ToolCall(id=CallId("c1"), name="shell", arguments='{"command": "ls"}'))
    await harness.model.wait_for_request(2)
    reply.say("Found it.")
    reply.end()
    await harness.wait_for_texts("Found it.")
    await until(lambda: not len(harness.gateway.outbox))
    assert harness.store.status.commits - before <= 7


async def test_a_queued_message_has_a_reaction_until_its_turn_starts(
    harness: PlatformGatewayHarness, vendor: FakeTelegram
) -> None:
    reply = ManualReply()
    harness.model.say(reply, "2")
    vendor.say("one")
    await harness.model.wait_for_request(1)
    waits = vendor.say("/queue two")
    message_key = waits["chat"]["id"], waits["message_id"]
    await until(lambda: vendor.reactions.get(message_key) == [WAITING_REACTION])
    reply.say("1")
    reply.end()
    await until(lambda: "2" in vendor.texts())
    await until(lambda: vendor.reactions[message_key] == [])


async def test_a_long_reply_is_split_into_messages_that_telegram_accepts(
    harness: PlatformGatewayHarness, vendor: FakeTelegram
) -> None:
    words = " ".join(["🦆🦆🦆🦆"] * 1200)
    harness.model.say(words)
    vendor.say("quack")
    await harness.wait_for_deliveries(DeliveryState.SENT, 1)
    assert len(vendor.sent) == 3
    assert " ".join(vendor.texts()) == words


async def test_a_message_sent_while_the_gateway_was_down_is_answered_after_the_start(
    harness: PlatformGatewayHarness, vendor: FakeTelegram
) -> None:
    """G1, H3: nothing is dropped at connect."""
    await harness.stop()
    vendor.say("anybody?")
    harness.model.say("here I am")
    await harness.start()
    await harness.wait_for_texts("here I am")


async def test_an_update_delivered_again_after_a_crash_is_answered_once(
    harness: PlatformGatewayHarness, vendor: FakeTelegram
) -> None:
    """G2: it was committed, and killed before it could be confirmed."""
    harness.model.say("once", "next")
    update = vendor.say("hi")
    await harness.wait_for_texts("once")
    await harness.wait_for_deliveries(DeliveryState.SENT, 1)
    await until(lambda: vendor.updates.confirmed)
    await harness.die()
    vendor.updates.waiting.insert(0, {"update_id": vendor.updates.confirmed[0], "message": update})
    vendor.say("and now?")
    await harness.start()
    await harness.wait_for_texts("once", "next")
    assert (await harness.ledger()) == {"answered": 2}


async def test_a_reply_without_a_receipt_is_sent_once_more_and_marked(
    harness: PlatformGatewayHarness, vendor: FakeTelegram
) -> None:
    """I2: unknown → resent once, marked."""
    vendor.faults.add("sendMessage", ConnectionFault.RESET_AFTER)
    harness.model.say("hello")
    vendor.say("hi")
    await harness.wait_for_texts("hello", "(This may have reached you before.)\n\nhello")


async def test_pressing_a_button_lets_the_command_run(
    harness: PlatformGatewayHarness, vendor: FakeTelegram
) -> None:
    """J3: by a person who was asked; the button is answered when the press is durable."""
    harness.model.say([ToolCall(id=CallId("c1"), name="shell", arguments=RM)], "done")
    vendor.say("clean up")
    await until(lambda: vendor.sent and "reply_markup" in vendor.sent[0])
    (question,) = vendor.sent
    yes = question["reply_markup"]["inline_keyboard"][0][0]
    vendor.click(question, yes["callback_data"])
    await until(lambda: vendor.answered)
    await until(lambda: vendor.texts()[-1] == "done")
    (approval,) = await harness.store.read(ListApprovals(limit=5))
    assert approval.state is ApprovalState.APPROVED
    assert len(harness.shell.started) == 1


async def test_an_edited_message_gets_a_new_reply(
    harness: PlatformGatewayHarness, vendor: FakeTelegram
) -> None:
    harness.model.say("Paris is in France.", "Bern is in Switzerland.")
    said = vendor.say("where is Paris?")
    await harness.wait_for_texts("Paris is in France.")
    vendor.revise(said, "where is Bern?")
    await harness.wait_for_texts("Paris is in France.", "Bern is in Switzerland.")


async def test_an_album_is_one_turn_with_files_in_the_workspace_and_pictures_for_the_model(
    harness: PlatformGatewayHarness, vendor: FakeTelegram
) -> None:
    """Attachments: stored under the session, pictures to models that see."""
    harness.model.say("nice")
    vendor.say("look at these", photo=vendor.picture(PNG), album="a1")
    vendor.say(document=vendor.upload("../plan.txt", b"the plan"), album="a1")
    await harness.wait_for_texts("nice")
    (request,) = harness.model.requests
    first, second = request.messages[-2:]
    assert first.text.startswith("look at these\n\n[Attached, in the workspace: uploads/photo-")
    assert second.text == "[Attached, in the workspace: uploads/plan.txt]"
    assert [len(each.images) for each in (first, second)] == [1, 0]
    session = await harness.only_session()
    paths = [each.path for each in Workspace(harness.home, SessionId(session)).list_or_open("")]
    assert paths == ["uploads/photo-1.jpg", "uploads/plan.txt"]


async def test_a_file_that_is_gone_is_named_and_its_message_is_answered(
    harness: PlatformGatewayHarness, vendor: FakeTelegram
) -> None:
    harness.model.say("a pity")
    vendor.say("here", document={"file_id": "gone", "file_unique_id": "u", "file_name": "a[1].pdf"})
    await harness.wait_for_texts("a pity")
    (request,) = harness.model.requests
    assert "[Attached, and not here: a_1_.pdf (" in request.messages[-1].text


async def test_a_file_download_is_retried(
    harness: PlatformGatewayHarness, vendor: FakeTelegram
) -> None:
    vendor.faults.add("getFile", ConnectionFault.RESET_BEFORE)
    harness.model.say("thanks")
    vendor.say("here", document=vendor.upload("plan.txt", b"the plan"))
    await harness.wait_for_texts("thanks")
    (request,) = harness.model.requests
    assert "uploads/plan.txt" in request.messages[-1].text


async def test_a_file_that_can_never_be_downloaded_does_not_block_its_message(
    harness: PlatformGatewayHarness, vendor: FakeTelegram
) -> None:
    vendor.faults.add("getFile", *[ConnectionFault.RESET_BEFORE] * 20)
    harness.model.say("a pity")
    vendor.say("here", document=vendor.upload("plan.txt", b"the plan"))
    await harness.wait_for_texts("a pity")
    (request,) = harness.model.requests
    assert "[Attached, and not here: plan.txt (could not" in request.messages[-1].text


def sending(path: str, caption: str = "") -> list[ToolCall]:
    arguments = json.dumps({"path": path, "caption": caption})
    return [ToolCall(id=CallId("c1"), name="send_file", arguments=arguments)]


async def test_an_agent_sends_a_file_of_its_workspace(
    harness: PlatformGatewayHarness, vendor: FakeTelegram
) -> None:
    """Attachments out: the file is owed before the call has its result, and comes first."""
    harness.model.say(sending("/workspace/uploads/plan.txt", "as asked"), "there it is")
    vendor.say("send it back", document=vendor.upload("plan.txt", b"the plan"))
    await harness.wait_for_texts("as asked", "there it is")
    (document, _) = vendor.sent
    assert document["document"]["file_name"] == "plan.txt"
    assert list(vendor.files.values())[-1][1] == b"the plan"
    await harness.wait_for_deliveries(DeliveryState.SENT, 2)


@pytest.mark.parametrize("name", ["plan.txt", "plan.png"])
async def test_a_file_that_is_too_large_for_telegram_is_reported_to_its_chat_and_to_the_agent(
    harness: PlatformGatewayHarness, vendor: FakeTelegram, name: str
) -> None:
    """I2: Telegram answers 413; a picture is tried as a file, too."""
    vendor.largest_upload = 3
    harness.model.say(sending(f"/workspace/uploads/{name}"), "there it is")
    vendor.say(
        "send it back", document=vendor.upload(name, PNG if name.endswith("png") else b"long")
    )
    await until(lambda: len(vendor.sent) == 2)
    told = f"The file {name} was not delivered: Telegram accepts no file of this size (413)"
    assert sorted(vendor.texts()) == sorted([told, "there it is"])
    harness.model.say("I see")
    vendor.say("and now?")
    await until(lambda: len(vendor.sent) == 3)
    asked = [message.text for message in harness.model.requests[-1].messages]
    (note,) = [text for text in asked if f'the file "{name}"' in text]
    assert "was not delivered" in note and "(413)" in note


async def test_a_file_pending_at_a_crash_is_sent_after_the_restart(
    harness: PlatformGatewayHarness, vendor: FakeTelegram
) -> None:
    """I2: the row of a file is settled as any other; killed at the send, it says that it may be a
    repetition."""
    vendor.faults.add("sendDocument", ConnectionFault.SILENT_AFTER)
    # Twice: the life that ends may or may not have asked the model by then.
    harness.model.say(sending("uploads/plan.txt", "as asked"), "there it is", "there it is")
    vendor.say("send it back", document=vendor.upload("plan.txt", b"the plan"))
    await until(lambda: vendor.sent)
    await harness.die()
    await harness.start()
    marked = "*(This may have reached you before.)*"
    await until(lambda: f"{marked}\n\nas asked" in vendor.texts())
    await until(lambda: vendor.texts()[-1] == "there it is")


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("uploads/none.txt", "has no file"),
        ("uploads", "is a folder"),
        ("../state.db", "not a path inside"),
        ("uploads/keys.txt", "contains a secret"),
    ],
)
async def test_the_agent_gets_the_reason_why_a_file_cannot_be_sent(
    harness: PlatformGatewayHarness, vendor: FakeTelegram, path: str, why: str
) -> None:
    await harness.stop()
    harness.secrets = [Secret("sk-0123456789")]
    await harness.start()
    harness.model.say(sending(path), "I could not")
    vendor.say("send it", document=vendor.upload("keys.txt", b"key = sk-0123456789"))
    await harness.wait_for_texts("I could not")
    result = harness.model.requests[-1].messages[-1]
    assert why in result.text


async def test_the_agent_is_informed_that_a_chat_accepts_no_files(
    harness: PlatformGatewayHarness,
) -> None:
    harness.model.say(sending("uploads/plan.txt"), "fetch it there")
    await harness.end_of(await harness.accept("send it"))
    assert "takes no files" in harness.model.requests[-1].messages[-1].text


async def test_in_a_group_a_mention_gets_a_reply_in_its_topic(
    harness: PlatformGatewayHarness, vendor: FakeTelegram
) -> None:
    """Groups: it answers only if it is addressed."""
    family = vendor.group(forum=True)
    harness.model.say("yes?")
    vendor.say("dinner at eight", chat=family, topic=7, by=BOB)
    asked = vendor.say("@holdfast_bot are you there?", chat=family, topic=7)
    await harness.wait_for_texts("yes?")
    (sent,) = vendor.sent
    assert sent["message_thread_id"] == 7
    assert sent["reply_to_message"]["message_id"] == asked["message_id"]
    assert len(harness.model.requests) == 1


async def test_a_direct_message_to_a_channel_is_answered_in_its_topic(
    harness: PlatformGatewayHarness, vendor: FakeTelegram
) -> None:
    """Each person has a conversation of their own; what an administrator answers them is not for
    the agent."""
    inbox = vendor.direct_messages()
    harness.model.say("Until six.", "At nine.")
    vendor.say("are you open?", chat=inbox, direct=ANN)
    await harness.wait_for_texts("Until six.")
    vendor.say("Really.", chat=inbox, by=BOB, direct=ANN)
    vendor.say("when do you open?", chat=inbox, by=BOB, direct=BOB)
    await harness.wait_for_texts("Until six.", "At nine.")
    topics = [each["direct_messages_topic"]["topic_id"] for each in vendor.sent]
    assert topics == [ANN["id"], BOB["id"]]
    assert [len(each.messages) for each in harness.model.requests] == [1, 1]


async def test_the_reply_to_a_deleted_topic_arrives_in_the_chat(
    harness: PlatformGatewayHarness, vendor: FakeTelegram
) -> None:
    """I2: the delivery does not fail."""
    family = vendor.group(forum=True)
    reply = ManualReply()
    harness.model.say(reply)
    vendor.say("@holdfast_bot tell me", chat=family, topic=7)
    await harness.model.wait_for_request(1)
    vendor.delete_topic(family, 7)
    reply.say("Once upon a time.")
    reply.end()
    await harness.wait_for_texts("Once upon a time.")
    await harness.wait_for_deliveries(DeliveryState.SENT, 1)
    assert "message_thread_id" not in vendor.sent[0]

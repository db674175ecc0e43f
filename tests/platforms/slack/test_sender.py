"""What the gateway sends to Slack, and what it knows of it when something goes wrong."""

from collections.abc import AsyncIterator

import pytest
from tests.platforms.slack.builders import address, change, door_to, outbound
from tests.platforms.slack.fake import ANN, CHANNEL, SCOPES, Vendor, dm
from tests.platforms.slack.faults import Break, SlackError

from holdfast.core.errors import NotConnected, OutcomeUnknown, SendRejected, Throttled
from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import Button, OutboundFile
from holdfast.core.ports.capabilities import WAITING_REACTION
from holdfast.core.secrets import Secret
from holdfast.platforms.slack.client import SlackClient as Line
from holdfast.platforms.slack.platform import SlackPlatform
from holdfast.platforms.slack.sender import SlackDeliveryLookup
from holdfast.testing.intake import RecordingIntake

PLAN = OutboundFile(name="plan ü.txt", data=b"the plan")


@pytest.fixture
async def door(vendor: Vendor, base_url: str) -> AsyncIterator[SlackPlatform]:
    platform = door_to(vendor, base_url)
    async with platform.connect(RecordingIntake()):
        yield platform


@pytest.fixture
async def finding(vendor: Vendor, base_url: str) -> AsyncIterator[SlackDeliveryLookup]:
    async def at_once(seconds: float) -> None:
        assert seconds > 0

    line = Line(Secret(vendor.token), base_url=base_url)
    async with line.open(lambda: None, lambda error: None):
        yield SlackDeliveryLookup(line, sleep=at_once)


async def test_a_message_has_its_form_in_blocks_and_its_words_beside_them(
    vendor: Vendor, door: SlackPlatform
) -> None:
    buttons = (Button(label="Yes" * 40, value="/approve 1"), Button(label="No", value="/deny 1"))
    await door.send(outbound("**bold** & more", thread="1.000001", buttons=buttons))
    (sent,) = vendor.sent()
    assert sent["text"] == "*bold* &amp; more"
    assert sent["thread_ts"] == "1.000001"
    words, buttons = sent["blocks"]
    assert words["type"] == "rich_text"
    assert [each["value"] for each in buttons["elements"]] == ["/approve 1", "/deny 1"]


async def test_blocks_that_are_refused_leave_the_words_and_the_buttons(
    vendor: Vendor, door: SlackPlatform
) -> None:
    vendor.faults.add("chat.postMessage", SlackError("invalid_blocks"))
    await door.send(outbound("**bold**", buttons=(Button(label="Yes", value="/approve 1"),)))
    (sent,) = vendor.sent()
    assert sent["text"] == "*bold*"
    assert [block["type"] for block in sent["blocks"]] == ["actions"]


@pytest.mark.parametrize("fault", [Break.CUT_AFTER, Break.ERROR_AFTER, Break.TEXT_AFTER])
async def test_an_answer_that_is_none_leaves_it_open_and_the_history_settles_it(
    vendor: Vendor, door: SlackPlatform, finding: SlackDeliveryLookup, fault: Break
) -> None:
    """I2: unknown, and settled by a look-up: the message carries its delivery, unseen."""
    vendor.faults.add("chat.postMessage", fault)
    with pytest.raises(OutcomeUnknown):
        await door.send(outbound("hello"))
    (sent,) = vendor.sent()
    found = await finding.find_delivery(DeliveryId("d1"), address())
    assert found is not None and found.platform_message_id == sent["ts"]
    assert await finding.find_delivery(DeliveryId("d2"), address()) is None
    assert door.capabilities.lookup


async def test_a_delivery_in_a_thread_and_one_behind_many_others_are_found(
    vendor: Vendor, door: SlackPlatform, finding: SlackDeliveryLookup
) -> None:
    """I2: replies are not in the history of their channel; the history comes in pages."""
    root = vendor.say("plans?", chat=CHANNEL)
    await door.send(outbound("yes", chat=CHANNEL, thread=root["ts"]))
    assert await finding.find_delivery(DeliveryId("d1"), address(CHANNEL)) is None
    assert await finding.find_delivery(DeliveryId("d1"), address(CHANNEL, thread_id=root["ts"]))
    await door.send(outbound("hello"))
    for number in range(250):
        vendor.say(str(number))
    assert await finding.find_delivery(DeliveryId("d1"), address())


async def test_a_file_is_brought_and_then_shown_with_its_words_and_can_be_found(
    vendor: Vendor, door: SlackPlatform, finding: SlackDeliveryLookup
) -> None:
    """Attachments out, I2: a file has no metadata, and carries its delivery in its words."""
    vendor.faults.add("files.completeUploadExternal", Break.CUT_AFTER)
    with pytest.raises(OutcomeUnknown):
        await door.send(outbound("as **asked**", chat=CHANNEL, file=PLAN))
    (sent,) = vendor.sent()
    (file,) = sent["files"]
    assert (file["name"], vendor.contents[file["id"]]) == (PLAN.name, PLAN.data)
    assert await finding.find_delivery(DeliveryId("d1"), address(CHANNEL))
    await door.send(outbound("", file=PLAN))
    assert len(vendor.sent()) == 2


@pytest.mark.parametrize("fault", [Break.CUT_AFTER, Break.ERROR_AFTER])
async def test_a_file_that_nobody_was_shown_is_still_ours_to_send(
    vendor: Vendor, door: SlackPlatform, fault: Break
) -> None:
    vendor.faults.add("files.getUploadURLExternal", fault)
    with pytest.raises(NotConnected):
        await door.send(outbound("", file=PLAN))
    assert vendor.sent() == []


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("internal_error", OutcomeUnknown),
        ("ratelimited", Throttled),
        ("channel_not_found", SendRejected),
        ("account_inactive", NotConnected),
    ],
)
async def test_each_refusal_says_what_is_known_of_the_message(
    vendor: Vendor, door: SlackPlatform, error: str, kind: type[Exception]
) -> None:
    """I2: by Slack's own words, for its status is 200."""
    vendor.faults.add("chat.postMessage", SlackError(error))
    with pytest.raises(kind):
        await door.send(outbound("hello"))


async def test_a_missing_permission_is_named(vendor: Vendor, door: SlackPlatform) -> None:
    lacking = SlackError("missing_scope", needed="files:write", provided="chat:write")
    vendor.faults.add("files.getUploadURLExternal", lacking)
    with pytest.raises(SendRejected, match="files:write"):
        await door.send(outbound("", file=PLAN))


async def test_what_is_not_ours_or_gone_cannot_be_changed(
    vendor: Vendor, door: SlackPlatform
) -> None:
    hers = vendor.say("hello")
    for message in (hers["ts"], "1.000001"):
        with pytest.raises(SendRejected):
            await door.edit(change(message, "changed", chat=dm(ANN)))


async def test_without_its_scope_there_are_no_signs_and_nothing_else_is_missing(
    vendor: Vendor, base_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Told as any other scope that the app lacks."""
    vendor.scopes = SCOPES.replace("reactions:write,", "")
    door, said = door_to(vendor, base_url), vendor.say("hello")
    async with door.connect(RecordingIntake()):
        assert not door.capabilities.reactions
        (lack,) = door.capabilities.missing_grants
        assert "the scope reactions:write: queued messages get no reaction" in lack
        with pytest.raises(SendRejected):
            await door.react(outbound("").address, said["ts"], WAITING_REACTION)
        vendor.scopes = SCOPES  # somebody has installed the app again
        await door.probe()
        assert door.capabilities.reactions
        await door.react(outbound("").address, said["ts"], WAITING_REACTION)
        with pytest.raises(SendRejected):
            await door.react(outbound("").address, said["ts"], "🦆")
    assert "lacks the scope reactions:write" in caplog.text


async def test_without_the_history_a_repetition_says_that_it_may_be_one(
    vendor: Vendor, base_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """I2: a door declares only what settles doubt; what the app lacks stands in the log."""
    vendor.scopes = "chat:write,im:history"
    door = door_to(vendor, base_url)
    async with door.connect(RecordingIntake()):
        assert not door.capabilities.lookup
        await door.send(outbound("hello", may_be_duplicate=True))
    for scope in ("channels:history", "groups:history", "mpim:history"):
        assert f"lacks the scope {scope}" in caplog.text
    assert "may have reached you before" in vendor.texts()[0]

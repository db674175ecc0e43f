"""Tests sending to Slack, and the outcome of each failure."""

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

import pytest
from tests.platforms.connection_faults import ConnectionFault
from tests.platforms.slack.builders import address, change, new_platform, outbound
from tests.platforms.slack.fake import ANN, CHANNEL, SCOPES, FakeSlack, dm
from tests.platforms.slack.faults import SlackError

from holdfast.core.errors import NotConnected, OutcomeUnknown, SendRejected, Throttled
from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import Address, Button, OutboundFile, Receipt
from holdfast.core.ports.capabilities import WAITING_REACTION
from holdfast.core.secrets import Secret
from holdfast.platforms.slack.client import SlackClient
from holdfast.platforms.slack.platform import SlackPlatform
from holdfast.platforms.slack.sender import find_delivery
from holdfast.testing.intake import RecordingIntake

FindDelivery = Callable[[DeliveryId, Address], Awaitable[Receipt | None]]

PLAN = OutboundFile(name="plan ü.txt", data=b"the plan")


@pytest.fixture
async def platform(vendor: FakeSlack, base_url: str) -> AsyncIterator[SlackPlatform]:
    platform = new_platform(vendor, base_url)
    async with platform.connect(RecordingIntake()):
        yield platform


@pytest.fixture
async def lookup(vendor: FakeSlack, base_url: str) -> AsyncIterator[FindDelivery]:
    async def at_once(seconds: float) -> None:
        assert seconds > 0

    client = SlackClient(Secret(vendor.token), base_url=base_url)
    async with client.open(lambda: None, lambda error: None):
        yield partial(find_delivery, client, sleep=at_once)


async def test_a_message_has_blocks_and_a_plain_text(
    vendor: FakeSlack, platform: SlackPlatform
) -> None:
    buttons = (Button(label="Yes" * 40, value="/approve 1"), Button(label="No", value="/deny 1"))
    await platform.send(outbound("**bold** & more", thread="1.000001", buttons=buttons))
    (sent,) = vendor.sent()
    assert sent["text"] == "*bold* &amp; more"
    assert sent["thread_ts"] == "1.000001"
    words, buttons = sent["blocks"]
    assert words["type"] == "rich_text"
    assert [each["value"] for each in buttons["elements"]] == ["/approve 1", "/deny 1"]


async def test_refused_blocks_are_replaced_by_text_and_buttons(
    vendor: FakeSlack, platform: SlackPlatform
) -> None:
    vendor.faults.add("chat.postMessage", SlackError("invalid_blocks"))
    await platform.send(outbound("**bold**", buttons=(Button(label="Yes", value="/approve 1"),)))
    (sent,) = vendor.sent()
    assert sent["text"] == "*bold*"
    assert [block["type"] for block in sent["blocks"]] == ["actions"]


@pytest.mark.parametrize(
    "fault", [ConnectionFault.RESET_AFTER, ConnectionFault.ERROR_AFTER, ConnectionFault.TEXT_AFTER]
)
async def test_an_invalid_response_leaves_the_outcome_unknown_and_the_history_resolves_it(
    vendor: FakeSlack, platform: SlackPlatform, lookup: FindDelivery, fault: ConnectionFault
) -> None:
    """I2: unknown, and settled by a look-up: the message carries its delivery, unseen."""
    vendor.faults.add("chat.postMessage", fault)
    with pytest.raises(OutcomeUnknown):
        await platform.send(outbound("hello"))
    (sent,) = vendor.sent()
    found = await lookup(DeliveryId("d1"), address())
    assert found is not None and found.platform_message_id == sent["ts"]
    assert await lookup(DeliveryId("d2"), address()) is None
    assert platform.capabilities.lookup


async def test_a_delivery_in_a_thread_and_one_on_a_later_page_are_found(
    vendor: FakeSlack, platform: SlackPlatform, lookup: FindDelivery
) -> None:
    """I2: replies are not in the history of their channel; the history comes in pages."""
    root = vendor.say("plans?", chat=CHANNEL)
    await platform.send(outbound("yes", chat=CHANNEL, thread=root["ts"]))
    assert await lookup(DeliveryId("d1"), address(CHANNEL)) is None
    assert await lookup(DeliveryId("d1"), address(CHANNEL, thread_id=root["ts"]))
    await platform.send(outbound("hello"))
    for number in range(250):
        vendor.say(str(number))
    assert await lookup(DeliveryId("d1"), address())


async def test_a_file_is_uploaded_and_shared_with_its_text_and_can_be_looked_up(
    vendor: FakeSlack, platform: SlackPlatform, lookup: FindDelivery
) -> None:
    """Attachments out, I2: a file has no metadata, and carries its delivery in its words."""
    vendor.faults.add("files.completeUploadExternal", ConnectionFault.RESET_AFTER)
    with pytest.raises(OutcomeUnknown):
        await platform.send(outbound("as **asked**", chat=CHANNEL, file=PLAN))
    (sent,) = vendor.sent()
    (file,) = sent["files"]
    assert (file["name"], vendor.contents[file["id"]]) == (PLAN.name, PLAN.data)
    assert await lookup(DeliveryId("d1"), address(CHANNEL))
    await platform.send(outbound("", file=PLAN))
    assert len(vendor.sent()) == 2


@pytest.mark.parametrize("fault", [ConnectionFault.RESET_AFTER, ConnectionFault.ERROR_AFTER])
async def test_a_file_that_was_not_shared_yet_stays_pending(
    vendor: FakeSlack, platform: SlackPlatform, fault: ConnectionFault
) -> None:
    vendor.faults.add("files.getUploadURLExternal", fault)
    with pytest.raises(NotConnected):
        await platform.send(outbound("", file=PLAN))
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
async def test_each_error_code_says_whether_the_message_was_sent(
    vendor: FakeSlack, platform: SlackPlatform, error: str, kind: type[Exception]
) -> None:
    """I2: by Slack's own words, for its status is 200."""
    vendor.faults.add("chat.postMessage", SlackError(error))
    with pytest.raises(kind):
        await platform.send(outbound("hello"))


async def test_a_missing_permission_is_named(vendor: FakeSlack, platform: SlackPlatform) -> None:
    lacking = SlackError("missing_scope", needed="files:write", provided="chat:write")
    vendor.faults.add("files.getUploadURLExternal", lacking)
    with pytest.raises(SendRejected, match="files:write"):
        await platform.send(outbound("", file=PLAN))


async def test_a_foreign_or_deleted_message_cannot_be_edited(
    vendor: FakeSlack, platform: SlackPlatform
) -> None:
    hers = vendor.say("hello")
    for message in (hers["ts"], "1.000001"):
        with pytest.raises(SendRejected):
            await platform.edit(change(message, "changed", chat=dm(ANN)))


async def test_without_the_scope_there_are_no_reactions_and_all_else_works(
    vendor: FakeSlack, base_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Told as any other scope that the app lacks."""
    vendor.scopes = SCOPES.replace("reactions:write,", "")
    platform, said = new_platform(vendor, base_url), vendor.say("hello")
    async with platform.connect(RecordingIntake()):
        assert not platform.capabilities.reactions
        (lack,) = map(str, platform.capabilities.missing_grants)
        assert "the scope reactions:write: queued messages get no reaction" in lack
        with pytest.raises(SendRejected):
            await platform.react(outbound("").address, said["ts"], WAITING_REACTION)
        vendor.scopes = SCOPES  # the app was installed again
        await platform.probe()
        assert platform.capabilities.reactions
        await platform.react(outbound("").address, said["ts"], WAITING_REACTION)
        with pytest.raises(SendRejected):
            await platform.react(outbound("").address, said["ts"], "🦆")
    assert "lacks the scope reactions:write" in caplog.text


async def test_without_history_access_a_resent_message_is_marked(
    vendor: FakeSlack, base_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """I2: a platform declares only look-ups that work; missing permissions are logged."""
    vendor.scopes = "chat:write,im:history"
    platform = new_platform(vendor, base_url)
    async with platform.connect(RecordingIntake()):
        assert not platform.capabilities.lookup
        await platform.send(outbound("hello", may_be_duplicate=True))
    for scope in ("channels:history", "groups:history", "mpim:history"):
        assert f"lacks the scope {scope}" in caplog.text
    assert "may have reached you before" in vendor.texts()[0]

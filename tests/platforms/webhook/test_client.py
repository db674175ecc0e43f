"""Tests posting to a receiver, and the outcome of each response."""

import base64
import logging
import socket

import pytest
from aiohttp import web
from tests.platforms.connection_faults import ConnectionFault
from tests.platforms.telegram.builders import until
from tests.platforms.webhook.builders import OURS, PATH, SECRET, new_platform, outbound
from tests.platforms.webhook.fake_receiver import FakeReceiver, listening
from tests.support.gateway_harness import WallClock

from holdfast.core.errors import (
    AccountDisconnected,
    ConnectRefused,
    NotConnected,
    OutcomeUnknown,
    SendError,
    SendRejected,
    Throttled,
)
from holdfast.core.messages.outbox import OutboundFile
from holdfast.core.messages.source import Author
from holdfast.core.net import is_public
from holdfast.core.secrets import Secret
from holdfast.platforms.webhook.client import WebhookClient, classify_response
from holdfast.platforms.webhook.platform import WebhookPlatform
from holdfast.platforms.webhook.plugin import SignatureScheme, WebhookSettings
from holdfast.testing.intake import RecordingIntake


async def test_a_message_is_posted_with_its_chat_and_a_stable_idempotency_key(
    receiver: FakeReceiver, url: str
) -> None:
    """I2: the delivery id is the Idempotency-Key, in every attempt at it."""
    platform = new_platform(url)
    receiver.faults = [(503, {}), ConnectionFault.RESET_AFTER]
    async with platform.connect(RecordingIntake()):
        for error in (OutcomeUnknown, OutcomeUnknown):
            with pytest.raises(error):
                await platform.send(outbound("Hello **you**", delivery="d7"))
        receipt = await platform.send(outbound("Hello **you**", delivery="d7"))
    assert receipt.platform_message_id == "d7"
    assert receiver.messages == [
        {
            "type": "message",
            "id": "d7",
            "account": "default",
            "chat": "build",
            "thread": None,
            "text": "Hello **you**",
            "part": 1,
            "maybe_repeated": False,
            "file": None,
        }
    ]
    assert {each["Idempotency-Key"] for each in receiver.headers} == {"d7"}
    assert {each["webhook-id"] for each in receiver.headers} == {"d7"}
    assert len(receiver.headers) == 3


async def test_a_file_is_posted_with_its_text(receiver: FakeReceiver, url: str) -> None:
    platform, data = new_platform(url), b"\x00\xff" * 200_000
    async with platform.connect(RecordingIntake()):
        await platform.send(outbound("as asked", file=OutboundFile(name="a.bin", data=data)))
    (message,) = receiver.messages
    assert (message["file"]["name"], message["text"]) == ("a.bin", "as asked")
    assert base64.b64decode(message["file"]["data"]) == data


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (200, None),
        (204, None),
        (302, SendRejected),
        (400, SendRejected),
        (401, NotConnected),
        (403, SendRejected),
        (404, SendRejected),
        (408, OutcomeUnknown),
        (409, OutcomeUnknown),
        (410, SendRejected),
        (422, SendRejected),
        (429, Throttled),
        (500, OutcomeUnknown),
        (504, OutcomeUnknown),
    ],
)
def test_each_status_code_says_whether_the_post_was_accepted(
    status: int, error: type[SendError] | None
) -> None:
    """I2."""
    found = classify_response(status, {})
    assert (None if found is None else type(found)) is error or isinstance(found, error or ())


@pytest.mark.parametrize(
    ("given", "seconds"), [("7", 7.0), ("", 5.0), ("99999", 3600.0), ("Fri, 31 Dec", 5.0)]
)
def test_retry_after_is_honoured_within_limits(given: str, seconds: float) -> None:
    found = classify_response(429, {"Retry-After": given})
    assert isinstance(found, Throttled)
    assert found.retry_after == seconds


async def test_a_redirect_is_not_followed(receiver: FakeReceiver, url: str) -> None:
    """Otherwise the server could redirect a post, and its text, to any address."""

    async def lead_on(request: web.Request) -> web.Response:
        return web.Response(status=307, headers={"Location": url})

    async with listening([web.post("/", lead_on)]) as other_address:
        platform = new_platform(f"{other_address}/")
        async with platform.connect(RecordingIntake()):
            with pytest.raises(SendRejected, match="redirects are not followed"):
                await platform.send(outbound("hello"))
    assert receiver.messages == receiver.pings == []


async def test_a_host_name_of_a_private_network_is_not_connected_to(
    receiver: FakeReceiver, url: str
) -> None:
    """SSRF: judged is the address that is connected to, whatever it is called."""
    client = WebhookClient(
        url.replace("127.0.0.1", "localhost"),
        Secret(OURS),
        is_allowed_address=is_public,
        timeout=5.0,
        clock=WallClock(),
    )
    async with client.open(lambda: None):
        with pytest.raises(NotConnected, match="private address"):
            await client.post("d1", b'{"type": "message", "text": "hello"}')
    assert receiver.headers == []


async def test_an_invalid_address_is_not_connected_to() -> None:
    """I2: nothing was written, so it is still ours to send."""
    platform = new_platform("https://127.1/inbox", allow_private=False)
    async with platform.connect(RecordingIntake()):
        with pytest.raises(NotConnected):
            await platform.send(outbound("hello"))


async def test_the_receiver_is_pinged_at_connect(receiver: FakeReceiver, url: str) -> None:
    """Law 9: connected is proof. A secret that does not hold parks the account."""
    intake, platform = RecordingIntake(), new_platform(url)
    async with platform.connect(intake):
        assert intake.confirmations == [("webhook", "default")]
        await platform.probe()
    assert len(receiver.pings) == 2
    receiver.secret = "another secret"
    with pytest.raises(ConnectRefused, match="does not accept our secret") as raised:
        async with platform.connect(intake):
            pass
    assert "platforms.webhook.secret" in str(raised.value.remedy)


async def test_a_rejected_secret_is_reported_and_loses_no_message(
    receiver: FakeReceiver, url: str
) -> None:
    intake, platform = RecordingIntake(), new_platform(url)
    async with platform.connect(intake):
        receiver.secret = "another secret"
        with pytest.raises(NotConnected):
            await platform.send(outbound("hello"))
        (loss,) = intake.disconnects
        assert isinstance(loss, ConnectRefused)
    receiver.secret = OURS
    async with platform.connect(intake):
        await platform.send(outbound("hello"))
    assert receiver.texts() == ["hello"]


async def test_pings_continue_while_connected(receiver: FakeReceiver, url: str) -> None:
    intake, platform = RecordingIntake(), new_platform(url, ping_every=0.01)
    async with platform.connect(intake):
        await until(lambda: len(intake.confirmations) >= 3)
        receiver.secret = "another secret"
        await until(lambda: intake.disconnects)
    assert len(receiver.pings) >= 3


async def test_no_pings_are_sent_when_they_are_disabled(receiver: FakeReceiver, url: str) -> None:
    intake, platform = RecordingIntake(), new_platform(url, ping_every=0)
    async with platform.connect(intake):
        assert receiver.pings == intake.confirmations == []
        await platform.send(outbound("hello"))
        assert intake.confirmations


async def test_an_unreachable_receiver_does_not_block_hooks(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What is posted here is taken; what is to be sent waits."""
    with socket.create_server(("127.0.0.1", 0)) as free_port:
        port = free_port.getsockname()[1]
    intake, platform = RecordingIntake(), new_platform(f"http://127.0.0.1:{port}/")
    with caplog.at_level(logging.WARNING):
        async with platform.connect(intake):
            with pytest.raises(NotConnected):
                await platform.send(outbound("hello"))
            with pytest.raises(NotConnected):
                await platform.probe()
    assert intake.confirmations == []
    assert [each.action for each in caplog.records] == ["webhook_endpoint_unreachable"]  # type: ignore[attr-defined]


async def test_an_account_without_hooks_is_disconnected_with_its_receiver(
    receiver: FakeReceiver, url: str
) -> None:
    """Law 9: there is nothing else to be connected to. It is told, so that it is tried again."""
    intake, platform = RecordingIntake(), new_platform(url, hooks={}, ping_every=0.01)
    receiver.faults_of_pings = [503]
    with pytest.raises(OutcomeUnknown):
        async with platform.connect(intake):
            pass
    async with platform.connect(intake):
        assert intake.confirmations
        receiver.faults_of_pings = [503]
        await until(lambda: intake.disconnects)
    assert isinstance(intake.disconnects[0], AccountDisconnected)


async def test_without_a_receiver_replies_are_fetchable(receiver: FakeReceiver) -> None:
    platform = new_platform()
    assert platform.capabilities.fetchable and not platform.capabilities.restart_notices
    async with platform.connect(RecordingIntake()):
        await platform.probe()
        with pytest.raises(SendRejected):
            await platform.send(outbound("hello"))


def test_a_receiver_without_idempotency_gets_marked_repetitions() -> None:
    """I2: resent once, and marked, if the recipient could not recognise the copy."""
    assert new_platform("https://example.org/").capabilities.idempotent_send
    non_idempotent = new_platform("https://example.org/", idempotent=False)
    assert not non_idempotent.capabilities.can_resolve_unknown


async def test_a_post_of_one_gateway_is_accepted_once_by_a_hook_of_another() -> None:
    """Both ends agree on signature, id, files and pings."""
    hook = {
        "scheme": SignatureScheme.STANDARD,
        "event": "{type}",
        "events": ("message",),
        "template": "{text}",
        "thread": "{thread|}",
        "files": "file",
    }
    there, heard = new_platform(hook=hook), RecordingIntake()
    async with listening(there.routes()) as address, there.connect(heard):
        here = WebhookPlatform(
            {"secret": Secret(SECRET)},
            account="default",
            settings=WebhookSettings(url=address + PATH, secret="env:OURS", allow_private=True),
            clock=WallClock(),
            new_id=lambda prefix: f"{prefix}1",
        )
        async with here.connect(RecordingIntake()):
            for _ in range(2):
                await here.send(outbound("look", file=OutboundFile(name="a", data=b"\xff")))
            await here.probe()
    (inbound,) = heard.accepted
    assert (inbound.text, inbound.message_id, inbound.source.thread_id) == ("look", "d1", None)
    assert ("a", b"\xff") in heard.attachments
    assert inbound.source.author is Author.BOT  # so that the two do not go on for ever

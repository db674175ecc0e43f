"""Tests the Events API: signatures, acknowledgement after the commit, and duplicates."""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Sequence

import aiohttp
import pytest
from tests.platforms.slack.builders import listening, new_platform, until
from tests.platforms.slack.fake import FakeSlack, Json
from tests.platforms.slack.fake_events_api import content, posting, signed

from holdfast.core.errors import ConnectRefused, IntakeClosed, NotAllowed, StoreError
from holdfast.core.messages.inbox import Accepted, Inbound
from holdfast.core.messages.source import Attachment
from holdfast.platforms.slack.platform import SlackPlatform
from holdfast.testing.intake import RecordingIntake


class StuckIntake(RecordingIntake):
    """One that never has it durable."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()

    async def accept(self, inbound: Inbound, attachments: Sequence[Attachment] = ()) -> Accepted:
        self.asked.set()
        await asyncio.Event().wait()
        raise AssertionError("no wait may be endless")


@pytest.fixture
def platform(vendor: FakeSlack, base_url: str) -> SlackPlatform:
    return new_platform(vendor, base_url, posted=True)


@pytest.fixture
async def url(platform: SlackPlatform) -> AsyncIterator[str]:
    async with listening(platform) as address:
        yield address


async def test_an_event_is_posted_again_until_it_is_durable(
    vendor: FakeSlack, platform: SlackPlatform, url: str
) -> None:
    """G1: the 200 comes after the commit; `X-Slack-Retry-Num` says that it was tried before."""
    intake = RecordingIntake()
    intake.fail_next(StoreError("disk full"), IntakeClosed("stopping"))
    async with platform.connect(intake), posting(vendor, url):
        vendor.say("hello")
        await until(lambda: vendor.acks)
    assert [each.text for each in intake.attempted] == ["hello"] * 3
    assert vendor.acks[0]["retries"] == 2


async def test_an_event_that_is_posted_twice_counts_once(
    vendor: FakeSlack, platform: SlackPlatform, url: str
) -> None:
    """G2: Slack posts again what was answered too late for it."""
    intake = RecordingIntake()
    vendor.say("hello")
    (envelope,) = vendor.waiting
    body, kind = content(envelope)
    async with platform.connect(intake), aiohttp.ClientSession() as http:
        for retry in range(3):
            headers = {"Content-Type": kind, "X-Slack-Retry-Num": str(retry), **signed(body)}
            async with http.post(url, data=body, headers=headers) as response:
                assert response.status == 200
    assert (len(intake.attempted), len(intake.accepted)) == (3, 1)


async def test_button_presses_and_commands_are_forms_and_an_unknown_sender_gets_a_reason(
    vendor: FakeSlack, platform: SlackPlatform, url: str
) -> None:
    intake = RecordingIntake()
    intake.fail_next(NotAllowed("not on the list"))
    asked = vendor.post("D0ANN", {"text": "may I?"})
    async with platform.connect(intake), posting(vendor, url):
        vendor.command("/holdfast", "stop")
        vendor.press(asked, "/approve 1")
        vendor.command("/holdfast", "say & do ü")
        await until(lambda: len(vendor.acks) == 3)
    assert (
        json.loads(vendor.acks[0]["answer"]["payload"])["text"]
        == "Das darfst du hier nicht."  # Ann reads German
    )
    assert [each.text for each in intake.accepted] == ["/approve 1", "say & do ü"]


async def test_the_address_is_verified_by_its_challenge(
    vendor: FakeSlack, platform: SlackPlatform, url: str
) -> None:
    """https://docs.slack.dev/reference/events/url_verification; also before it is connected, for
    it is asked when the address is entered."""
    body = json.dumps({"type": "url_verification", "token": "z", "challenge": "3eZbrw1"}).encode()
    async with aiohttp.ClientSession() as http:
        headers = {"Content-Type": "application/json", **signed(body)}
        async with http.post(url, data=body, headers=headers) as response:
            assert (response.status, await response.text()) == (200, "3eZbrw1")


async def posts(http: aiohttp.ClientSession, url: str, body: bytes, headers: Json) -> int:
    async with http.post(url, data=body, headers=headers) as response:
        return response.status


async def test_a_request_that_is_unsigned_or_was_signed_long_ago_is_rejected(
    vendor: FakeSlack, platform: SlackPlatform, url: str
) -> None:
    """The window of five minutes; a stamp that is none is no error of ours."""
    intake = RecordingIntake()
    vendor.say("forged")
    body, kind = content(vendor.waiting[0])
    old, other = signed(body, at=1_790_000_000), signed(body, secret="guessed")
    nonsense = {**signed(body), "X-Slack-Request-Timestamp": "now"}
    async with (
        platform.connect(intake),
        aiohttp.ClientSession(headers={"Content-Type": kind}) as http,
    ):
        for headers in ({}, old, other, nonsense):
            assert await posts(http, url, body, headers) == 401
        assert await posts(http, url, body + b" ", signed(body)) == 401
        assert await posts(http, url, b"no event", signed(b"no event")) == 400
    assert intake.attempted == []


async def test_an_event_in_progress_at_disconnect_stays_at_slack(
    vendor: FakeSlack, platform: SlackPlatform, url: str
) -> None:
    """G1, C8: neither durable nor acknowledged; and the work on it is cancelled."""
    slow, quick = StuckIntake(), RecordingIntake()
    vendor.say("hello")
    async with posting(vendor, url):
        async with platform.connect(slow):
            await slow.asked.wait()
        assert vendor.acks == []
        async with platform.connect(quick):
            await until(lambda: vendor.acks)
    assert [each.text for each in quick.accepted] == ["hello"]
    assert slow.attempted == []


async def test_a_token_revoked_later_is_reported_at_the_first_failed_call(
    vendor: FakeSlack, platform: SlackPlatform
) -> None:
    """The sender sees it first: the account is parked without waiting for a keepalive."""
    intake = RecordingIntake()
    async with platform.connect(intake):
        vendor.token = "another"
        with pytest.raises(ConnectRefused):
            await platform.probe()
    assert isinstance(intake.disconnects[0], ConnectRefused)


async def test_a_socket_mode_platform_has_no_route(vendor: FakeSlack, base_url: str) -> None:
    assert list(new_platform(vendor, base_url).routes()) == []


async def test_a_body_that_is_larger_than_any_event_is_refused_before_it_is_read(
    platform: SlackPlatform, url: str
) -> None:
    """The attack: 32 MB per request, from anyone, before the signature is checked."""
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while sent < 32 * 2**20:
            sent += 2**16
            yield bytes(2**16)

    async with aiohttp.ClientSession() as http:
        for body in (io.BytesIO(bytes(2**20 + 1)), endless()):
            try:
                async with http.post(url, data=body, headers=signed(b"")) as response:
                    assert response.status == 413
            except aiohttp.ClientConnectionError:
                pass  # it was hung up on while it sent
        assert sent < 16 * 2**20
        async with http.post(url, data=io.BytesIO(bytes(2**20)), headers=signed(b"")) as response:
            assert response.status == 401

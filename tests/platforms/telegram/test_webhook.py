"""Tests updates by webhook: the response is 200 only after the commit."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from tests.platforms.telegram.builders import new_platform, until
from tests.platforms.telegram.fake import BOB, FakeTelegram

from holdfast.core.errors import AccountInUse, IntakeClosed, NotAllowed, StoreError
from holdfast.core.secrets import Secret
from holdfast.platforms.telegram.client import TelegramClient, TelegramConflict
from holdfast.platforms.telegram.platform import TelegramPlatform
from holdfast.platforms.telegram.receiver import SECRET_HEADER, TelegramWebhook
from holdfast.testing.intake import RecordingIntake

OUTSIDE = "https://bot.example.org"
PATH = "/hooks/telegram/default"


@asynccontextmanager
async def listening(platform: TelegramPlatform, vendor: FakeTelegram) -> AsyncIterator[str]:
    """The platform's routes on a listener behind a proxy that has a certificate."""
    app = web.Application()
    app.add_routes(platform.routes())
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    inside = f"http://127.0.0.1:{runner.addresses[0][1]}"
    vendor.proxies[OUTSIDE] = inside
    try:
        yield inside
    finally:
        await runner.cleanup()


@pytest.fixture
async def platform(vendor: FakeTelegram, base_url: str) -> AsyncIterator[TelegramPlatform]:
    platform = new_platform(vendor, base_url, webhook=OUTSIDE)
    async with listening(platform, vendor):
        yield platform


async def test_an_update_is_posted_again_until_it_is_durable(
    vendor: FakeTelegram, platform: TelegramPlatform
) -> None:
    """G1: the webhook's 200 comes after the commit."""
    intake = RecordingIntake()
    intake.fail_next(StoreError("disk full"), IntakeClosed("stopping"))
    vendor.say("one")
    async with platform.connect(intake):
        vendor.say("two")
        await until(lambda: len(vendor.updates.confirmed) == 2)
    assert [each.text for each in intake.attempted] == ["one", "one", "one", "two"]
    assert [each.cursor for each in intake.accepted] == [None, None]


async def test_a_message_of_an_unknown_sender_is_acknowledged_and_not_posted_again(
    vendor: FakeTelegram, platform: TelegramPlatform
) -> None:
    intake = RecordingIntake()
    intake.fail_next(NotAllowed("not on the list"))
    async with platform.connect(intake):
        vendor.say("let me in", by=BOB)
        await until(lambda: vendor.updates.confirmed)
    assert len(intake.attempted) == 1


async def test_a_request_without_the_secret_is_rejected(
    vendor: FakeTelegram, platform: TelegramPlatform
) -> None:
    intake = RecordingIntake()
    async with platform.connect(intake), aiohttp.ClientSession(vendor.proxies[OUTSIDE]) as http:
        forged = {"update_id": 1, "message": vendor.say("real")}
        for headers in ({}, {SECRET_HEADER: "guessed"}):
            async with http.post(PATH, json=forged, headers=headers) as response:
                assert response.status == 401
        secret = {SECRET_HEADER: vendor.webhook["secret"]}
        async with http.post(PATH, data=b"not an update", headers=secret) as response:
            assert response.status == 400
        await until(lambda: vendor.updates.confirmed)
    assert [each.text for each in intake.attempted] == ["real"]
    assert vendor.webhook["url"] == OUTSIDE + PATH


async def test_a_disconnected_platform_leaves_updates_at_telegram(
    vendor: FakeTelegram, platform: TelegramPlatform
) -> None:
    intake = RecordingIntake()
    async with platform.connect(intake):
        pass
    vendor.say("while away")
    await until(lambda: "503" in vendor.webhook["last_error_message"])
    async with platform.connect(intake):
        await until(lambda: vendor.updates.confirmed)
    assert [each.text for each in intake.accepted] == ["while away"]


async def test_a_webhook_of_another_program_is_not_replaced(
    vendor: FakeTelegram, platform: TelegramPlatform
) -> None:
    vendor.webhook = {"url": "https://other.example.org/bot"}
    with pytest.raises(AccountInUse) as raised:
        async with platform.connect(RecordingIntake()):
            pass
    assert raised.value.holder == "https://other.example.org/bot"
    assert vendor.webhook == {"url": "https://other.example.org/bot"}


async def test_a_deleted_webhook_is_noticed(vendor: FakeTelegram, base_url: str) -> None:
    """Law 9: connected means a round trip, and that it is still us whom Telegram posts to."""
    token = Secret(vendor.token)
    api = TelegramClient(token, base_url=base_url)
    proofs: list[int] = []

    def alive() -> None:
        proofs.append(1)
        if len(proofs) == 3:  # two answers while it was set, and one that it is so still
            vendor.webhook = {"url": ""}

    async with api.open(alive):
        webhook = TelegramWebhook(api, token, account="default", address=OUTSIDE)
        await webhook.register()
        with pytest.raises(TelegramConflict, match="deleted"):
            await webhook.run(None, check_interval=0.001)  # type: ignore[arg-type]
    assert len(proofs) == 4


async def test_a_polling_platform_has_no_route(vendor: FakeTelegram, base_url: str) -> None:
    assert list(new_platform(vendor, base_url).routes()) == []

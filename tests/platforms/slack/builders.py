"""Builds a Slack platform for the fake vendor, its listener, and the messages that tests send."""

import asyncio
import shutil
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from aiohttp import web
from tests.platforms.slack.fake import ANN, SIGNING_SECRET, FakeSlack, dm

from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import Address, MessageEdit, Outbound
from holdfast.core.ports.runtime import Clock
from holdfast.core.secrets import Secret
from holdfast.platforms.slack.platform import SlackPlatform
from holdfast.platforms.slack.plugin import SlackSettings
from holdfast.system.clock import SystemClock

PATH = "/hooks/slack/default"


def new_platform(
    vendor: FakeSlack,
    base_url: str,
    *,
    posted: bool = False,
    folder: Path | None = None,
    clock: Clock | None = None,
    limit: float = 20.0,
    **settings: Any,
) -> SlackPlatform:
    """Without a folder, the checkpoint is in a temporary one of its own."""
    credentials: dict[str, Any] = {"signing_secret": "env:S"} if posted else {"app_token": "env:A"}
    secrets = {"token": Secret(vendor.token)}
    secrets |= (
        {"signing_secret": Secret(SIGNING_SECRET)}
        if posted
        else {"app_token": Secret(vendor.app_token)}
    )
    return SlackPlatform(
        secrets,
        account="default",
        settings=SlackSettings(token="env:T", base_url=base_url, **credentials, **settings),
        folder=folder or _of_its_own(vendor),
        clock=clock or SystemClock(),
        timeout=limit,
    )


def _of_its_own(vendor: FakeSlack) -> Path:
    folder = Path(mkdtemp())
    weakref.finalize(vendor, shutil.rmtree, folder, ignore_errors=True)
    return folder


@asynccontextmanager
async def listening(platform: SlackPlatform) -> AsyncIterator[str]:
    """The routes of the platform on a listener; yields the address that Slack posts to."""
    app = web.Application()
    app.add_routes(platform.routes())
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}{PATH}"
    finally:
        await runner.cleanup()


def outbound(text: str, *, chat: str = dm(ANN), thread: str | None = None, **more: Any) -> Outbound:
    to = address(chat, thread_id=thread)
    return Outbound(delivery_id=DeliveryId("d1"), address=to, text=text, **more)


def change(message_id: str, text: str, *, chat: str = dm(ANN)) -> MessageEdit:
    return MessageEdit(
        delivery_id=DeliveryId("d1"),
        address=address(chat),
        platform_message_id=message_id,
        text=text,
    )


def address(chat: str = dm(ANN), **more: Any) -> Address:
    return Address(platform="slack", account="default", chat_id=chat, **more)


async def until(fact: Callable[[], object]) -> None:
    """Wait for what another task does; the test's own timeout ends a wait for nothing."""
    while not fact():
        await asyncio.sleep(0.005)

"""Measures how long a gateway takes to start with five platforms, and to connect to all of them."""

import asyncio
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web
from processes import HERE, BenchmarkFailed
from subjects import gateway

from holdfast.server.local.control_client import ControlClient
from holdfast.system.paths import Paths
from holdfast.testing.simulated.server import serve
from holdfast.testing.simulated.service import ChatService

sys.path.insert(0, str(HERE.parent))  # the fake vendors are in tests/

from tests.platforms.irc.fake_ircv3 import FakeIrcServer
from tests.platforms.slack.fake import FakeSlack
from tests.platforms.slack.fake_web_api import FakeWebApi
from tests.platforms.telegram.fake import FakeTelegram
from tests.platforms.telegram.fake_bot_api import FakeBotApi

PLATFORMS = ("irc", "simulated", "slack", "telegram", "webhook")
_TIMEOUT = 30.0  # seconds in which all are connected


@dataclass(frozen=True, kw_only=True)
class StartTimes:
    """Seconds from `exec` to the first good answer, and to the last account that is connected."""

    ready: float
    connected: float


def start_with_five_platforms(directory: Path, *, model_url: str, starts: int) -> StartTimes:
    """The median of so many starts, each on a fresh home."""
    return asyncio.run(_measure(directory, model_url=model_url, starts=starts))


async def _measure(directory: Path, *, model_url: str, starts: int) -> StartTimes:
    async with fake_vendors() as settings:
        found = [
            await asyncio.to_thread(_start, directory, model_url, settings) for _ in range(starts)
        ]
    return StartTimes(
        ready=statistics.median(each.ready for each in found),
        connected=statistics.median(each.connected for each in found),
    )


def _start(directory: Path, model_url: str, settings: dict[str, str]) -> StartTimes:
    began = time.perf_counter()
    with gateway(directory, model_url=model_url, **settings) as subject:
        assert subject.home is not None, "a gateway has a home"
        control = ControlClient(Paths(subject.home))
        while True:
            elapsed = time.perf_counter() - began
            accounts = control.get("/platforms")["accounts"]
            disconnected = [each["name"] for each in accounts if not each["connected"]]
            if {each["name"] for each in accounts} >= set(PLATFORMS) and not disconnected:
                return StartTimes(ready=subject.started_in, connected=elapsed)
            if elapsed > _TIMEOUT:
                what = f"{', '.join(disconnected)} not connected in {elapsed:.0f} s"
                raise BenchmarkFailed(f"{what}; see {subject.server.tail()}")
            time.sleep(0.01)


@asynccontextmanager
async def fake_vendors() -> AsyncIterator[dict[str, str]]:
    """Five fake vendors, and the settings of a gateway that has an account with each."""
    slack, irc = FakeSlack(), FakeIrcServer()
    slack.token = slack.app_token = "sk-bench"
    async with AsyncExitStack() as stack:
        telegram = await stack.enter_async_context(
            FakeBotApi(FakeTelegram(token="sk-bench")).serving()
        )
        slack_url = await stack.enter_async_context(FakeWebApi(slack).serving())
        simulated = await stack.enter_async_context(serve(ChatService(edit=True)))
        receiver = await stack.enter_async_context(_receiver())
        await stack.enter_async_context(irc.serving())
        yield {
            "PLATFORMS_TELEGRAM_TOKEN": "env:BENCH_KEY",
            "PLATFORMS_TELEGRAM_BASE_URL": telegram,
            "PLATFORMS_SLACK_TOKEN": "env:BENCH_KEY",
            "PLATFORMS_SLACK_APP_TOKEN": "env:BENCH_KEY",
            "PLATFORMS_SLACK_BASE_URL": slack_url,
            "PLATFORMS_SIMULATED_BASE_URL": simulated,
            "PLATFORMS_IRC_HOST": "127.0.0.1",
            "PLATFORMS_IRC_PORT": str(irc.port),
            "PLATFORMS_IRC_TLS": "false",
            "PLATFORMS_WEBHOOK_URL": receiver,
            "PLATFORMS_WEBHOOK_ALLOW_PRIVATE": "true",
        }


@asynccontextmanager
async def _receiver() -> AsyncIterator[str]:
    async def accept(_: web.Request) -> web.Response:
        return web.Response()

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", accept)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    finally:
        await runner.cleanup()

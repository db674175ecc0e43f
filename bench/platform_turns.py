"""Measures the CPU of a turn over a platform: Telegram beside the simulated platform."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from processes import HERE, BenchmarkFailed
from subjects import Subject, gateway

from holdfast.testing.simulated.events import SayRequest
from holdfast.testing.simulated.server import serve
from holdfast.testing.simulated.service import ChatService

sys.path.insert(0, str(HERE.parent))  # the fake Bot API is in tests/

from tests.platforms.telegram.fake import FakeTelegram, user
from tests.platforms.telegram.fake_bot_api import FakeBotApi

CHATS = 16
_TIMEOUT = 60.0  # seconds in which a round of turns is answered


@dataclass(frozen=True, kw_only=True)
class MeasuredPlatform:
    """A gateway with an account at a fake vendor: `say` writes to the bot, `sent` counts."""

    name: str
    subject: Subject
    say: Callable[[int, str], None]
    sent: Callable[[], int]


def platform_turn_costs(
    directory: Path, *, model_url: str, rounds: int, turns: int
) -> dict[str, float]:
    """CPU milliseconds of the gateway per turn, by platform: the median of its rounds. The
    platforms alternate, so that both meet the same noise."""
    return asyncio.run(_measure(directory, model_url=model_url, rounds=rounds, turns=turns))


async def _measure(directory: Path, *, model_url: str, rounds: int, turns: int) -> dict[str, float]:
    async with AsyncExitStack() as stack:
        platforms = [
            await stack.enter_async_context(telegram(directory, model_url)),
            await stack.enter_async_context(simulated(directory, model_url)),
        ]
        for platform in platforms:
            await _turns(platform, turns=2)
        found: dict[str, list[float]] = {platform.name: [] for platform in platforms}
        for _ in range(rounds):
            for platform in platforms:
                found[platform.name].append(await _turns(platform, turns=turns))
        return {name: median(costs) for name, costs in found.items()}


async def _turns(platform: MeasuredPlatform, *, turns: int) -> float:
    """Every chat sends a message and waits for its answer, `turns` times; ms per turn."""
    before = platform.subject.server.cpu_seconds()
    for number in range(turns):
        expected = platform.sent() + CHATS
        for chat in range(1, CHATS + 1):
            platform.say(chat, f"turn {number}")
        await _answered(platform, expected)
    return (platform.subject.server.cpu_seconds() - before) * 1000 / (turns * CHATS)


async def _answered(platform: MeasuredPlatform, expected: int) -> None:
    try:
        async with asyncio.timeout(_TIMEOUT):
            while platform.sent() < expected:  # noqa: ASYNC110 - the fakes have no event to wait for
                await asyncio.sleep(0.001)
    except TimeoutError:
        log = platform.subject.server.tail()
        raise BenchmarkFailed(
            f"{platform.name} answered {platform.sent()} of {expected}; see {log}"
        ) from None


@asynccontextmanager
async def telegram(directory: Path, model_url: str) -> AsyncIterator[MeasuredPlatform]:
    vendor = FakeTelegram(token="sk-bench")
    settings = {"PLATFORMS_TELEGRAM_TOKEN": "env:BENCH_KEY"}

    def say(chat: int, text: str) -> None:
        vendor.say(text, by=user(chat, "Ann"))

    async with FakeBotApi(vendor).serving() as base_url:
        settings |= {"PLATFORMS_TELEGRAM_BASE_URL": base_url, "PLATFORMS_TELEGRAM_ALLOW": '["*"]'}
        async with _gateway_with("telegram", directory, model_url, settings) as subject:
            yield MeasuredPlatform(
                name="telegram", subject=subject, say=say, sent=lambda: len(vendor.sent)
            )


@asynccontextmanager
async def simulated(directory: Path, model_url: str) -> AsyncIterator[MeasuredPlatform]:
    """With all the capabilities of Telegram, so that both do the same work."""
    service = ChatService(edit=True, typing=True, buttons=True, max_length=4096)

    def say(chat: int, text: str) -> None:
        service.say(SayRequest(chat=str(chat), user="ann", text=text))

    async with serve(service) as base_url:
        settings = {"PLATFORMS_SIMULATED_BASE_URL": base_url}
        settings["PLATFORMS_SIMULATED_ALLOW"] = '["*"]'
        async with _gateway_with("simulated", directory, model_url, settings) as subject:
            yield MeasuredPlatform(
                name="simulated",
                subject=subject,
                say=say,
                sent=lambda: len(service.ledger().sent),
            )


@asynccontextmanager
async def _gateway_with(
    name: str, directory: Path, model_url: str, settings: dict[str, str]
) -> AsyncIterator[Subject]:
    """A gateway with that platform alone. It starts and stops in a thread: the vendor runs here."""
    opened = gateway(directory, model_url=model_url, **settings)
    subject = await asyncio.to_thread(opened.__enter__)
    try:
        yield subject
    finally:
        await asyncio.to_thread(opened.__exit__, None, None, None)

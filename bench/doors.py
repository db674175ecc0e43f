"""Doors: what a turn costs that comes over a platform, Telegram's beside the simulated one's."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from children import HERE, BenchFailed
from subjects import Subject, gateway

from holdfast.testing.simulated.events import SayRequest
from holdfast.testing.simulated.server import serve
from holdfast.testing.simulated.service import ChatService

sys.path.insert(0, str(HERE.parent))  # the pretend Bot API stands among the tests

from tests.platforms.telegram.fake import Vendor, user
from tests.platforms.telegram.fake_bot_api import BotApi

CHATS = 16
_PATIENCE = 60.0  # seconds in which a round of turns is answered


@dataclass(frozen=True, kw_only=True)
class Door:
    """A gateway behind a pretend vendor: how people write there, and how much they were sent."""

    name: str
    subject: Subject
    say: Callable[[int, str], None]
    sent: Callable[[], int]


def door_costs(directory: Path, *, model_url: str, rounds: int, turns: int) -> dict[str, float]:
    """CPU milliseconds of the gateway for a turn, by door: the median of its rounds. The doors
    take turns, so that both meet the same noise."""
    return asyncio.run(_measure(directory, model_url=model_url, rounds=rounds, turns=turns))


async def _measure(directory: Path, *, model_url: str, rounds: int, turns: int) -> dict[str, float]:
    async with AsyncExitStack() as stack:
        doors = [
            await stack.enter_async_context(telegram(directory, model_url)),
            await stack.enter_async_context(simulated(directory, model_url)),
        ]
        for door in doors:
            await _turns(door, turns=2)
        found: dict[str, list[float]] = {door.name: [] for door in doors}
        for _ in range(rounds):
            for door in doors:
                found[door.name].append(await _turns(door, turns=turns))
        return {name: median(costs) for name, costs in found.items()}


async def _turns(door: Door, *, turns: int) -> float:
    """Every chat says something and waits for its answer, so many times; ms for one turn."""
    before = door.subject.child.cpu_seconds()
    for number in range(turns):
        wanted = door.sent() + CHATS
        for chat in range(1, CHATS + 1):
            door.say(chat, f"turn {number}")
        await _answered(door, wanted)
    return (door.subject.child.cpu_seconds() - before) * 1000 / (turns * CHATS)


async def _answered(door: Door, wanted: int) -> None:
    try:
        async with asyncio.timeout(_PATIENCE):
            while door.sent() < wanted:  # noqa: ASYNC110 - one loop for vendors that wake nobody
                await asyncio.sleep(0.001)
    except TimeoutError:
        log = door.subject.child.tail()
        raise BenchFailed(f"{door.name} answered {door.sent()} of {wanted}; see {log}") from None


@asynccontextmanager
async def telegram(directory: Path, model_url: str) -> AsyncIterator[Door]:
    vendor = Vendor(token="sk-bench")
    settings = {"PLATFORMS_TELEGRAM_TOKEN": "env:BENCH_KEY"}

    def say(chat: int, text: str) -> None:
        vendor.say(text, by=user(chat, "Ann"))

    async with BotApi(vendor).serving() as base_url:
        settings |= {"PLATFORMS_TELEGRAM_BASE_URL": base_url, "PLATFORMS_TELEGRAM_ALLOW": '["*"]'}
        async with _behind("telegram", directory, model_url, settings) as subject:
            yield Door(name="telegram", subject=subject, say=say, sent=lambda: len(vendor.sent))


@asynccontextmanager
async def simulated(directory: Path, model_url: str) -> AsyncIterator[Door]:
    """With all that Telegram has, so that both are asked for the same."""
    service = ChatService(edit=True, typing=True, buttons=True, max_length=4096)

    def say(chat: int, text: str) -> None:
        service.say(SayRequest(chat=str(chat), user="ann", text=text))

    async with serve(service) as base_url:
        settings = {"PLATFORMS_SIMULATED_BASE_URL": base_url}
        settings["PLATFORMS_SIMULATED_ALLOW"] = '["*"]'
        async with _behind("simulated", directory, model_url, settings) as subject:
            yield Door(
                name="simulated",
                subject=subject,
                say=say,
                sent=lambda: len(service.ledger().sent),
            )


@asynccontextmanager
async def _behind(
    name: str, directory: Path, model_url: str, settings: dict[str, str]
) -> AsyncIterator[Subject]:
    """A gateway of that door alone. Started and ended in a thread: the vendor is served here."""
    opened = gateway(directory, model_url=model_url, **settings)
    subject = await asyncio.to_thread(opened.__enter__)
    try:
        yield subject
    finally:
        await asyncio.to_thread(opened.__exit__, None, None, None)

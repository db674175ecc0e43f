"""A real gateway with a bot: killed before it could confirm a message, and posted to."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.faults.lone import Lone
from tests.platforms.telegram.doors import until
from tests.platforms.telegram.vendor import ANN, Vendor


@pytest.fixture
async def lone(tmp_path: Path, vendor: Vendor, base_url: str) -> AsyncIterator[Lone]:
    lone = Lone(tmp_path / "home")
    lone.variables = {
        "BOT_TOKEN": vendor.token,
        "HOLDFAST_PLATFORMS_TELEGRAM_TOKEN": "env:BOT_TOKEN",
        "HOLDFAST_PLATFORMS_TELEGRAM_BASE_URL": base_url,
        "HOLDFAST_PLATFORMS_TELEGRAM_ALLOW": json.dumps([str(ANN["id"])]),
    }
    try:
        yield lone
    finally:
        if lone.process is not None and lone.process.poll() is None:
            await asyncio.to_thread(lone.stop)


async def test_a_gateway_that_was_killed_before_it_could_confirm_answers_once(
    vendor: Vendor, lone: Lone
) -> None:
    """G1, G2: committed and not confirmed; the successor has it, and confirms it."""
    vendor.say("hello")
    lone.variables["HOLDFAST_CRASH_AT"] = "accept_committed"
    lone.begin()
    assert await asyncio.to_thread(lone.ended) == -signal.SIGKILL
    assert (vendor.updates.confirmed, vendor.sent) == ([], [])
    del lone.variables["HOLDFAST_CRASH_AT"]
    await asyncio.to_thread(lone.start)
    await asyncio.to_thread(lone.until, lambda: answered(lone) == 1)
    await until(lambda: vendor.updates.confirmed)
    status = await asyncio.to_thread(lone.status)
    assert await asyncio.to_thread(lone.stop) == 0
    assert len(vendor.sent) == 1
    (bot,) = [each for each in status["snapshot"]["platforms"] if each["name"] == "telegram"]
    assert bot["proven_at"] is not None
    assert vendor.token not in (lone.home / "errors").read_text()


def answered(lone: Lone) -> int:
    """By what the gateway itself says of its ledger."""
    return int(lone.status()["snapshot"]["ledger"].get("answered", 0))


async def test_updates_are_posted_to_the_gateways_own_listener(vendor: Vendor, lone: Lone) -> None:
    """G1: by webhook, through a proxy; what is posted while the gateway starts is posted again."""
    lone.variables["HOLDFAST_PLATFORMS_TELEGRAM_WEBHOOK"] = "https://bot.example.org"
    await asyncio.to_thread(lone.start)
    vendor.proxies["https://bot.example.org"] = lone.address
    vendor.say("hello")
    await asyncio.to_thread(lone.until, lambda: answered(lone) == 1)
    await until(lambda: vendor.updates.confirmed and vendor.sent)
    assert vendor.webhook["url"] == "https://bot.example.org/hooks/telegram/default"
    assert "getupdates" not in vendor.calls

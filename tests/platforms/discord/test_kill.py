"""Tests a gateway with a Discord bot that is killed when a message is committed (G1, G2)."""

import asyncio
import json
import signal
from pathlib import Path

from tests.faults.standalone_gateway import StandaloneGateway
from tests.platforms.discord.builders import until
from tests.platforms.discord.fake import ANN, FakeDiscord


async def test_a_gateway_killed_while_it_accepted_a_message_answers_it_once(
    tmp_path: Path, vendor: FakeDiscord
) -> None:
    """G1, G2: Discord does not deliver it again; the history does, and it counts once. Messages
    sent while the gateway was down are answered, too."""
    gateway = StandaloneGateway(tmp_path / "home")
    gateway.variables = {
        "HOLDFAST_PLATFORMS_DISCORD_BASE_URL": f"{vendor.base_url}/api/v10",
        "BOT_TOKEN": vendor.token,
        "HOLDFAST_PLATFORMS_DISCORD_TOKEN": "env:BOT_TOKEN",
        "HOLDFAST_PLATFORMS_DISCORD_ALLOW": json.dumps([ANN["id"]]),
        "HOLDFAST_CRASH_AT": "accept_committed",
    }
    try:
        gateway.launch()
        await until(lambda: vendor.sessions)
        vendor.say("hello")
        assert await asyncio.to_thread(gateway.wait_for_exit) == -signal.SIGKILL
        assert vendor.sent == []
        vendor.say("anybody?")
        del gateway.variables["HOLDFAST_CRASH_AT"]
        await asyncio.to_thread(gateway.start)
        await asyncio.to_thread(gateway.until, lambda: ended(gateway) == 2)
        await until(lambda: vendor.sent)
        status = await asyncio.to_thread(gateway.status)
        assert await asyncio.to_thread(gateway.stop) == 0
    finally:
        if gateway.process is not None and gateway.process.poll() is None:
            await asyncio.to_thread(gateway.stop)
    (bot,) = [each for each in status["snapshot"]["platforms"] if each["name"] == "discord"]
    assert bot["last_ok_at"] is not None
    assert status["snapshot"]["inbox_counts"]["accepted"] == 2
    assert vendor.token not in (gateway.home / "errors").read_text()


def ended(gateway: StandaloneGateway) -> int:
    """Messages that have come to an end, by what the gateway itself says of its ledger."""
    ledger = gateway.status()["snapshot"]["inbox_counts"]
    return int(ledger.get("answered", 0)) + int(ledger.get("merged", 0))

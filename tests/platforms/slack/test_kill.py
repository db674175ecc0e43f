"""Tests a gateway with a Slack app that is killed before it acknowledges an event."""

import asyncio
import json
import signal
from pathlib import Path

from tests.faults.standalone_gateway import StandaloneGateway
from tests.platforms.slack.builders import PATH, until
from tests.platforms.slack.fake import ANN, SIGNING_SECRET, FakeSlack
from tests.platforms.slack.fake_events_api import posting


async def test_a_gateway_killed_before_it_acknowledged_an_event_answers_once(
    tmp_path: Path, vendor: FakeSlack, base_url: str
) -> None:
    """G1, G2: committed over its own listener and not answered; Slack posts it again."""
    gateway = StandaloneGateway(tmp_path / "home")
    gateway.variables = {
        "BOT_TOKEN": vendor.token,
        "SIGN": SIGNING_SECRET,
        "HOLDFAST_PLATFORMS_SLACK_TOKEN": "env:BOT_TOKEN",
        "HOLDFAST_PLATFORMS_SLACK_SIGNING_SECRET": "env:SIGN",
        "HOLDFAST_PLATFORMS_SLACK_BASE_URL": base_url,
        "HOLDFAST_PLATFORMS_SLACK_ALLOW": json.dumps([ANN]),
        "HOLDFAST_CRASH_AT": "accept_committed",
    }
    try:
        await asyncio.to_thread(gateway.start)
        vendor.say("hello")
        async with posting(vendor, gateway.address + PATH):
            assert await asyncio.to_thread(gateway.wait_for_exit) == -signal.SIGKILL
        assert (vendor.acks, vendor.sent()) == ([], [])
        del gateway.variables["HOLDFAST_CRASH_AT"]
        await asyncio.to_thread(gateway.start)
        async with posting(vendor, gateway.address + PATH):
            await until(lambda: vendor.acks)
            await asyncio.to_thread(gateway.until, lambda: answered(gateway) == 1)
        status = await asyncio.to_thread(gateway.status)
        assert await asyncio.to_thread(gateway.stop) == 0
    finally:
        if gateway.process is not None and gateway.process.poll() is None:
            await asyncio.to_thread(gateway.stop)
    assert len(vendor.sent()) == 1
    (app,) = [each for each in status["snapshot"]["platforms"] if each["name"] == "slack"]
    assert app["last_ok_at"] is not None
    assert vendor.token not in (gateway.home / "errors").read_text()


def answered(gateway: StandaloneGateway) -> int:
    """By what the gateway itself says of its inbox."""
    return int(gateway.status()["snapshot"]["inbox_counts"].get("answered", 0))

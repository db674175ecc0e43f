"""Tests a gateway with a Telegram bot in its own process: kills, webhooks and `holdfast send`."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.faults.standalone_gateway import StandaloneGateway
from tests.platforms.telegram.builders import until
from tests.platforms.telegram.fake import ANN, FakeTelegram

from holdfast.system import exit_codes


@pytest.fixture
async def gateway(
    tmp_path: Path, vendor: FakeTelegram, base_url: str
) -> AsyncIterator[StandaloneGateway]:
    gateway = StandaloneGateway(tmp_path / "home")
    gateway.variables = {
        "BOT_TOKEN": vendor.token,
        "HOLDFAST_PLATFORMS_TELEGRAM_TOKEN": "env:BOT_TOKEN",
        "HOLDFAST_PLATFORMS_TELEGRAM_BASE_URL": base_url,
        "HOLDFAST_PLATFORMS_TELEGRAM_ALLOW": json.dumps([str(ANN["id"])]),
    }
    try:
        yield gateway
    finally:
        if gateway.process is not None and gateway.process.poll() is None:
            await asyncio.to_thread(gateway.stop)


async def test_a_gateway_killed_before_it_confirmed_an_update_answers_once(
    vendor: FakeTelegram, gateway: StandaloneGateway
) -> None:
    """G1, G2: committed and not confirmed; the successor has it, and confirms it."""
    vendor.say("hello")
    gateway.variables["HOLDFAST_CRASH_AT"] = "accept_committed"
    gateway.launch()
    assert await asyncio.to_thread(gateway.wait_for_exit) == -signal.SIGKILL
    assert (vendor.updates.confirmed, vendor.sent) == ([], [])
    del gateway.variables["HOLDFAST_CRASH_AT"]
    await asyncio.to_thread(gateway.start)
    await asyncio.to_thread(gateway.until, lambda: answered(gateway) == 1)
    await until(lambda: vendor.updates.confirmed)
    status = await asyncio.to_thread(gateway.status)
    assert await asyncio.to_thread(gateway.stop) == 0
    assert len(vendor.sent) == 1
    (bot,) = [each for each in status["snapshot"]["platforms"] if each["name"] == "telegram"]
    assert bot["last_ok_at"] is not None
    assert vendor.token not in (gateway.home / "errors").read_text()


def answered(gateway: StandaloneGateway) -> int:
    """By what the gateway itself says of its ledger."""
    return int(gateway.status()["snapshot"]["inbox_counts"].get("answered", 0))


async def test_updates_are_posted_to_the_gateways_own_listener(
    vendor: FakeTelegram, gateway: StandaloneGateway
) -> None:
    """G1: by webhook, through a proxy; what is posted while the gateway starts is posted again."""
    gateway.variables["HOLDFAST_PLATFORMS_TELEGRAM_WEBHOOK"] = "https://bot.example.org"
    await asyncio.to_thread(gateway.start)
    vendor.proxies["https://bot.example.org"] = gateway.address
    vendor.say("hello")
    await asyncio.to_thread(gateway.until, lambda: answered(gateway) == 1)
    await until(lambda: vendor.updates.confirmed and vendor.sent)
    assert vendor.webhook["url"] == "https://bot.example.org/hooks/telegram/default"
    assert "getupdates" not in vendor.calls


async def test_the_owner_sends_texts_and_files_from_the_command_line(
    vendor: FakeTelegram, gateway: StandaloneGateway, tmp_path: Path
) -> None:
    """Proactive: durable before the command returns, and sent like all other messages. What
    cannot be sent is reported by the part that first knows it."""
    chat = f"telegram:{ANN['id']}"
    down = await asyncio.to_thread(gateway.cli, "send", chat, "hello")
    assert (down.returncode, "No gateway is running" in down.stderr) == (
        exit_codes.GATEWAY_DOWN,
        True,
    )
    vendor.say("hi")  # a bot may not begin a chat
    await asyncio.to_thread(gateway.start)
    await until(lambda: vendor.sent)
    plan = tmp_path / "plan.txt"
    plan.write_text("the plan")
    sent = await asyncio.to_thread(gateway.cli, "send", chat, "hello", "--wait", "--key", "k1")
    assert (sent.returncode, sent.stdout[:8]) == (0, "Sent to "), sent.stderr
    again = await asyncio.to_thread(gateway.cli, "send", chat, "hello", "--json", "--key", "k1")
    assert json.loads(again.stdout)["id"] in sent.stdout
    filed = await asyncio.to_thread(
        gateway.cli, "send", chat, "look", "--file", str(plan), "--wait", "--json"
    )
    result = json.loads(filed.stdout)
    assert (result["state"], result["file"], result["to"]) == ("sent", "plan.txt", chat)
    assert vendor.texts()[1:] == ["hello", "look"]
    assert list(vendor.files.values())[-1][1] == b"the plan"
    await until(lambda: not list((gateway.home / "outgoing").iterdir()))
    for _ in range(2):
        command = ("send", chat, "once", "--file", str(plan), "--key", "k2", "--wait")
        assert (await asyncio.to_thread(gateway.cli, *command)).returncode == 0
    refusals: list[tuple[tuple[str, ...], str]] = [
        (("telegram:bob", "x"), "'bob' is not a chat of telegram. Write it like 12345."),
        (("telegram", "x"), "'telegram' is not a chat"),
        (("icq:1", "x"), "Nothing can be sent to the platform 'icq'. Use one of these: telegram."),
        ((chat, "x", "--account", "work"), "telegram has no account 'work'"),
        ((chat, "--wait"), "Nothing to send"),
        ((chat, "bye", "--key", "k1"), "'k1' was used for another message"),
        ((chat, "x" * 501, "--file", str(plan)), "a caption can have 500 characters"),
    ]
    for words, why in refusals:
        refused = await asyncio.to_thread(gateway.cli, "send", *words)
        assert refused.returncode and why in refused.stderr, words
    assert vendor.texts()[1:] == ["hello", "look", "once"]
    await until(lambda: not list((gateway.home / "outgoing").iterdir()))

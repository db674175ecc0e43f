"""Notices of a restart, with real processes: by the command line, in a chat, after a crash."""

import asyncio
import json
import sys

from tests.support.process_harness import NewProcessHarness, ProcessHarness

from holdfast.core.crash_points import CrashPoint
from holdfast.system import exit_codes
from holdfast.testing.simulated.events import BotMessage

RESTART = exit_codes.GATEWAY_SERVICE_RESTART_EXIT_CODE
NOTICE_SETTINGS = """
operators = ["ann"]
home = "hall"

[log]"""


def configure(process_harness: ProcessHarness) -> None:
    """Ann is an operator, `hall` is the home channel, and the test is the supervisor."""
    config = process_harness.paths.config_file.read_text()
    config = config.replace("\n[log]", NOTICE_SETTINGS).replace(
        "[gateway]", '[gateway]\nsupervisor = "s6"\npark_timeout = 0'
    )
    process_harness.paths.config_file.write_text(config)


async def wait_for_sent(process_harness: ProcessHarness, number: int) -> list[BotMessage]:
    """The bot's messages, once there are so many."""
    ledger = await process_harness.people.ledger(sent=number, wait=20)
    assert len(ledger.sent) >= number, [each.outgoing.text for each in ledger.sent]
    return list(ledger.sent)


def summarise(sent: list[BotMessage]) -> list[tuple[str, str, str | None]]:
    return [(s.outgoing.chat_id, s.outgoing.text, s.outgoing.reply_to) for s in sent]


async def restart_by_cli(process_harness: ProcessHarness) -> None:
    """`holdfast gateway restart` returns when the successor, which its supervisor starts, is
    ready."""
    asked = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast.cli", "gateway", "restart", "--json"),
        stdout=asyncio.subprocess.PIPE,
        env=process_harness.environment(),
    )
    await process_harness.wait_for_exit(RESTART)
    await process_harness.start()
    out, _ = await asked.communicate()
    assert asked.returncode == 0, out
    assert json.loads(out)["restarted"]


async def test_each_affected_chat_is_notified_of_a_restart_once(
    new_process_harness: NewProcessHarness,
) -> None:
    """D1, D2, D3, D4: a restart by the command line notifies the home channel and the chat with
    a running turn, one from a chat notifies that chat alone; each once."""
    async with new_process_harness("--restart-notices") as process_harness:
        configure(process_harness)
        await process_harness.start()
        slowly = {"match": "slowly", "delay": 0.2, "text": "word " * 500}
        process_harness.model.script(slowly, {"match": "slowly", "text": "there it is"})
        await process_harness.people.say("slowly", chat="work")
        await process_harness.wait_for_running_turn()
        await restart_by_cli(process_harness)
        first = summarise(await wait_for_sent(process_harness, 4))
        working = [text for chat, text, _ in first if chat == "work"]
        assert working == [
            "The gateway is restarting. I will try to resume my current work here in a moment.",
            "there it is",
        ]
        assert [(text, reply) for chat, text, reply in first if chat == "hall"] == [
            ("The gateway is restarting.", None),
            ("The gateway is back. 1 conversation continues.", None),
        ]
        asked = await process_harness.people.say("/restart", chat="ops")
        await process_harness.wait_for_exit(RESTART)
        await process_harness.start()
        await process_harness.wait_until_settled()
        assert summarise(await wait_for_sent(process_harness, 6))[4:] == [
            ("ops", "The gateway is restarting.", asked),
            ("ops", "The gateway is back.", asked),
        ]


async def test_a_restart_accepted_before_a_crash_restarts_no_successor(
    new_process_harness: NewProcessHarness,
) -> None:
    """Law 8: the process that accepted it is gone; its successors drop it. The home channel is
    notified of the crash, and not of one that follows closely."""
    async with new_process_harness("--restart-notices") as process_harness:
        configure(process_harness)
        await process_harness.start(CrashPoint.ACCEPT_COMMITTED)
        await process_harness.people.say("/restart")
        await process_harness.wait_for_crash()
        await process_harness.start()
        ledger = await process_harness.wait_until_settled()
        assert (await process_harness.status())["inbox_counts"]["superseded"] == 1
        assert summarise(list(ledger.sent)) == [
            ("hall", "The gateway was interrupted and is back.", None)
        ]
        await process_harness.kill()
        await process_harness.start()
        await process_harness.people.say("still here?")
        await wait_for_sent(process_harness, 2)
        assert summarise(list((await process_harness.wait_until_settled()).sent))[1:] == [
            ("home", "You said: still here?", None)
        ]
        assert process_harness.alive

"""Who hears of a restart, with real processes: by the command line, in a chat, after a crash."""

import asyncio
import json
import sys

from tests.faults.conftest import Worlds
from tests.faults.world import World

from holdfast.core.crash_points import CrashPoint
from holdfast.system import exit_codes
from holdfast.testing.simulated.events import BotMessage

RESTART = exit_codes.GATEWAY_SERVICE_RESTART_EXIT_CODE
MORE = """
operators = ["ann"]
home = "hall"

[log]"""


def settle(world: World) -> None:
    """Ann runs it from the chats, people hear of it in the hall, and the test starts it again."""
    config = world.paths.config_file.read_text()
    config = config.replace("\n[log]", MORE).replace(
        "[gateway]", '[gateway]\nsupervisor = "s6"\npark_timeout = 0'
    )
    world.paths.config_file.write_text(config)


async def heard(world: World, number: int) -> list[BotMessage]:
    """All that chats have got, once it is so much."""
    ledger = await world.people.ledger(sent=number, wait=20)
    assert len(ledger.sent) >= number, [each.outgoing.text for each in ledger.sent]
    return list(ledger.sent)


def told(sent: list[BotMessage]) -> list[tuple[str, str, str | None]]:
    return [(s.outgoing.chat_id, s.outgoing.text, s.outgoing.reply_to) for s in sent]


async def restart_by_hand(world: World) -> None:
    """`holdfast gateway restart` returns when the successor, which its supervisor starts, is
    ready."""
    asked = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast.cli", "gateway", "restart", "--json"),
        stdout=asyncio.subprocess.PIPE,
        env=world.environment(),
    )
    await world.ends(RESTART)
    await world.start()
    out, _ = await asked.communicate()
    assert asked.returncode == 0, out
    assert json.loads(out)["restarted"]


async def test_a_restart_is_told_to_whom_it_concerns_once(worlds: Worlds) -> None:
    """D1, D2, D3, D4: by the command line home and the chat at work hear of it, in a chat that
    chat alone does; each once."""
    async with worlds("--restart-notices") as world:
        settle(world)
        await world.start()
        slowly = {"match": "slowly", "delay": 0.2, "text": "word " * 500}
        world.model.script(slowly, {"match": "slowly", "text": "there it is"})
        await world.people.say("slowly", chat="work")
        await world.at_work()
        await restart_by_hand(world)
        first = told(await heard(world, 4))
        working = [text for chat, text, _ in first if chat == "work"]
        assert working == [
            "The gateway is restarting. What I am working on here is interrupted; I will try to "
            "resume it in a moment.",
            "there it is",
        ]
        assert [(text, reply) for chat, text, reply in first if chat == "hall"] == [
            ("The gateway is restarting.", None),
            ("The gateway is back; 1 conversation goes on.", None),
        ]
        asked = await world.people.say("/restart", chat="ops")
        await world.ends(RESTART)
        await world.start()
        await world.settled()
        assert told(await heard(world, 6))[4:] == [
            ("ops", "Restarting …", asked),
            ("ops", "The gateway is back.", asked),
        ]


async def test_a_restart_accepted_before_a_crash_restarts_no_successor(worlds: Worlds) -> None:
    """Law 8: the one that accepted it is gone; those after it drop it, and home hears of the
    crash, and of none that follows closely."""
    async with worlds("--restart-notices") as world:
        settle(world)
        await world.start(CrashPoint.ACCEPT_COMMITTED)
        await world.people.say("/restart")
        await world.dies()
        await world.start()
        ledger = await world.settled()
        assert (await world.status())["inbox_counts"]["superseded"] == 1
        assert told(list(ledger.sent)) == [
            ("hall", "The gateway was interrupted and is back.", None)
        ]
        await world.kill()
        await world.start()
        await world.people.say("still here?")
        await heard(world, 2)
        assert told(list((await world.settled()).sent))[1:] == [
            ("home", "You said: still here?", None)
        ]
        assert world.alive

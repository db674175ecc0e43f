"""G5: the effect of a command is committed together with the end of its row, or not at all."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.controlled_store import Commit, ControlledStore, Intercepted
from tests.support.gateway_harness import GatewayHarness, Until
from tests.support.store_file import open_read_only

from holdfast.core.commands import COMMANDS
from holdfast.core.config.settings import PlatformSettings
from holdfast.core.ports.command import Command
from holdfast.core.sessions.session import CommandEffect

# The messages before, the command, and the beginning of its reply.
CHANGES = (
    ((), "/background look into it", "Working on it in the background: look into it"),
    (("hi",), "/background look into it", "Working on it in the background: look into it"),
    (("hi",), "/busy queue", "While the agent works, a new message waits"),
    ((), '/cron add "every day at 9" look', "Job 1: every day at 9"),
    (('/cron add "every day at 9" look',), "/cron pause 1", "Paused: job 1"),
    (('/cron add "every day at 9" look',), "/cron rm 1", "Removed: job 1"),
    (('/cron add "every day at 9" look',), "/cron run 1", "Job 1 runs now"),
    (("hi",), "/fork", "You are now in a copy: hi"),
    ((), "/memory add likes tea", "Saved as note 1."),
    (("/memory add likes tea",), "/memory edit 1 likes coffee", "Note 1 is changed."),
    (("/memory add likes tea",), "/memory forget 1", "Deleted: 1."),
    (("/memory add likes tea",), "/memory clear yes", "Deleted 1 note."),
    ((), "/memory off", "Memory is off"),
    (("/memory off",), "/memory on", "Memory is on."),
    (("hi",), "/new", "A new conversation begins."),
    ((), "/sethome", "This chat is now the home channel"),
    ((), "/quiet on", "This chat gets answers"),
    (("hi",), "/title Tea", "This conversation is now called: Tea"),
    (("hi",), "/undo", "Taken back"),
)
# Tested elsewhere: approvals, commands that end or start a turn, and commands that only read.
TESTED_ELSEWHERE = {
    *("approve", "deny", "pairing"),
    *("compact", "model", "queue", "restart", "resume", "retry", "steer", "stop"),
    *("approvals", "help", "search", "sessions", "status", "usage"),
}
# The tables through which a command itself passes, and those derived from the others.
DELIVERY_TABLES = {"inbox", "outbox", "attempts", "cursors", "meta"}


class InterruptedCommandStore(ControlledStore):
    """A store that holds the commit of a command, so that a test can kill the process before it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.interrupting = False
        self.reached = asyncio.Event()
        self.held: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def intercept(self, command: Command[Any], commit: Commit) -> Intercepted:
        if not isinstance(command, CommandEffect) or not self.interrupting:
            return None
        self.reached.set()
        return self._hold()

    async def _hold(self) -> None:
        await self.held


@pytest.fixture
async def interruptible_harness(harness: GatewayHarness) -> GatewayHarness:
    await harness.stop()
    allowed = PlatformSettings(allow=("ann",), operators=("ann",))
    harness.settings = msgspec.structs.replace(harness.settings, platforms={"simulated": allowed})
    harness.open_store = InterruptedCommandStore
    await harness.start()
    return harness


def stored_rows(path: Path) -> Mapping[str, list[Any]]:
    """All rows of the store, except those of messages and deliveries."""
    with open_read_only(path) as cursor:
        named = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'search%'"
        names = [str(row[0]) for row in cursor.execute(named).fetchall()]
        tables = [
            name for name in names if name not in DELIVERY_TABLES and not name.startswith("sqlite_")
        ]
        return {name: cursor.execute(f"SELECT * FROM {name}").fetchall() for name in tables}


async def send_and_wait(harness: GatewayHarness, text: str) -> str:
    number = len(harness.service.ledger().sent) + 1
    harness.say(text)
    return (await harness.texts(number))[-1]


@pytest.mark.parametrize(
    ("before", "command", "answer"), CHANGES, ids=[f"{c[1]} {len(c[0])}" for c in CHANGES]
)
async def test_an_interrupted_command_has_no_effect_and_is_then_applied_once(
    interruptible_harness: GatewayHarness,
    until: Until,
    before: tuple[str, ...],
    command: str,
    answer: str,
) -> None:
    interruptible_harness.model.say(*["hello"] * 5)
    for text in before:
        await send_and_wait(interruptible_harness, text)
    await until(lambda: not len(interruptible_harness.gateway.lanes))
    await until(interruptible_harness.all_delivered)
    store = interruptible_harness.store
    assert isinstance(store, InterruptedCommandStore)
    rows_before, sent_before, store.interrupting = (
        stored_rows(interruptible_harness.path),
        len(interruptible_harness.service.ledger().sent),
        True,
    )
    interruptible_harness.say(command)
    async with asyncio.timeout(10):
        await store.reached.wait()
    assert stored_rows(interruptible_harness.path) == rows_before
    asyncio.get_running_loop().call_soon(store.held.cancel)  # once the file has been copied
    await interruptible_harness.die()
    await interruptible_harness.start()
    answers = (await interruptible_harness.texts(sent_before + 1))[sent_before:]
    assert sum(text.startswith(answer) for text in answers) == 1, answers
    assert stored_rows(interruptible_harness.path) != rows_before


def test_every_command_is_interrupted_here_or_tested_elsewhere() -> None:
    interrupted_here = {command.split()[0][1:] for _, command, _ in CHANGES}
    assert interrupted_here.isdisjoint(TESTED_ELSEWHERE)
    assert interrupted_here | TESTED_ELSEWHERE == {spec.name for spec in COMMANDS}

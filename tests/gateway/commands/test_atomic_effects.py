"""G5: what a command does is in the log together with the end of its row, or not at all."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.gateway_harness import GatewayHarness, Until
from tests.support.store_file import open_read_only

from holdfast.core.config.settings import PlatformSettings
from holdfast.core.people.commands import COMMANDS
from holdfast.core.sessions.session import CommandEffect
from holdfast.store.sqlite.store import SqliteStore

# What is said first, the command, and how its answer begins.
CHANGES = (
    ((), "/background look into it", "Working on it in the background: look into it"),
    (("hi",), "/background look into it", "Working on it in the background: look into it"),
    (("hi",), "/busy queue", "While the agent works, a new message waits"),
    ((), '/cron add "every day at 9" look', "Job 1: every day at 9"),
    (('/cron add "every day at 9" look',), "/cron pause 1", "Paused: job 1"),
    (('/cron add "every day at 9" look',), "/cron rm 1", "Removed: job 1"),
    (('/cron add "every day at 9" look',), "/cron run 1", "Job 1 runs now"),
    (("hi",), "/fork", "You are now in a copy: hi"),
    ((), "/memory add likes tea", "Noted as 1."),
    (("/memory add likes tea",), "/memory edit 1 likes coffee", "Note 1 is changed."),
    (("/memory add likes tea",), "/memory forget 1", "Forgotten: 1."),
    (("/memory add likes tea",), "/memory clear yes", "Forgotten: the only note."),
    ((), "/memory off", "Memory is off"),
    (("/memory off",), "/memory on", "Memory is on."),
    (("hi",), "/new", "A new conversation begins."),
    ((), "/sethome", "This chat is the home channel"),
    ((), "/quiet on", "This chat gets answers"),
    (("hi",), "/title Tea", "This conversation is now called: Tea"),
    (("hi",), "/undo", "Taken back"),
)
# With a contract of their own: what asks a person, what ends or hands in a turn, what only looks.
ELSEWHERE = {
    *("approve", "deny", "pairing"),
    *("compact", "model", "queue", "restart", "resume", "retry", "steer", "stop"),
    *("approvals", "help", "search", "sessions", "status", "usage"),
}
# A command's own way through the log, and what is made anew from the rest.
ITS_WAY = {"inbox", "outbox", "attempts", "cursors", "meta"}


class Cut(SqliteStore):
    """A store before whose commit of a command the process dies."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.cutting = False
        self.reached = asyncio.Event()
        self.held: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def apply_command(self, effect: CommandEffect) -> Any:
        if not self.cutting:
            return super().apply_command(effect)
        self.reached.set()
        return self.held


@pytest.fixture
async def cut(harness: GatewayHarness) -> GatewayHarness:
    await harness.stop()
    allowed = PlatformSettings(allow=("ann",), operators=("ann",))
    harness.settings = msgspec.structs.replace(harness.settings, platforms={"simulated": allowed})
    harness.open_store = Cut
    await harness.start()
    return harness


def holdings(path: Path) -> Mapping[str, list[Any]]:
    """All that the store holds, but for the ways of messages."""
    with open_read_only(path) as cursor:
        named = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'search%'"
        names = [str(row[0]) for row in cursor.execute(named).fetchall()]
        kept = [name for name in names if name not in ITS_WAY and not name.startswith("sqlite_")]
        return {name: cursor.execute(f"SELECT * FROM {name}").fetchall() for name in kept}


async def said(harness: GatewayHarness, text: str) -> str:
    number = len(harness.service.ledger().sent) + 1
    harness.say(text)
    return (await harness.texts(number))[-1]


@pytest.mark.parametrize(
    ("before", "command", "answer"), CHANGES, ids=[f"{c[1]} {len(c[0])}" for c in CHANGES]
)
async def test_an_interrupted_command_has_no_effect_and_is_then_applied_once(
    cut: GatewayHarness, until: Until, before: tuple[str, ...], command: str, answer: str
) -> None:
    cut.model.say(*["hello"] * 5)
    for text in before:
        await said(cut, text)
    await until(lambda: not len(cut.gateway.lanes))
    await until(cut.all_delivered)
    store = cut.store
    assert isinstance(store, Cut)
    had, told, store.cutting = holdings(cut.path), len(cut.service.ledger().sent), True
    cut.say(command)
    async with asyncio.timeout(10):
        await store.reached.wait()
    assert holdings(cut.path) == had
    asyncio.get_running_loop().call_soon(store.held.cancel)  # when the file has been taken as it is
    await cut.die()
    await cut.start()
    answers = (await cut.texts(told + 1))[told:]
    assert sum(text.startswith(answer) for text in answers) == 1, answers
    assert holdings(cut.path) != had


def test_every_command_is_interrupted_here_or_tested_elsewhere() -> None:
    cut_here = {command.split()[0][1:] for _, command, _ in CHANGES}
    assert cut_here.isdisjoint(ELSEWHERE)
    assert cut_here | ELSEWHERE == {spec.name for spec in COMMANDS}

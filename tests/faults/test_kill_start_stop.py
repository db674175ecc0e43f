"""`kill -9` at random instants of start and stop, each followed by a start at once.

Set HOLDFAST_SEED to repeat a run.
"""

import asyncio
import os
import random
import signal
import time
from pathlib import Path
from typing import Protocol

import pytest
from tests.faults.gateway_succession import GatewaySuccession, LaunchedProcess, open_succession

from holdfast.testing.misbehaving_model.process import ModelProcess

KILLS = 25  # of each kind: fifty in all
SOAK_KILLS = 500


def seed() -> int:
    chosen = os.environ.get("HOLDFAST_SEED")
    return int(chosen) if chosen else random.SystemRandom().randrange(2**32)


class Chain:
    """Owns a lineage whose lives are killed, one after the other, and what they were asked."""

    def __init__(self, succession: GatewaySuccession, chance: random.Random) -> None:
        self.succession = succession
        self.chance = chance
        self.asked = 0
        self.start_takes = 1.0
        self.stop_takes = 0.3

    async def start(self) -> LaunchedProcess:
        """At once after whatever was before; it must become ready, and answer."""
        began = time.monotonic()
        life = await self.succession.start()
        self.start_takes = time.monotonic() - began
        self.asked += 1
        answer = await self.succession.ask(life.address, "hello", message_id=f"m-{self.asked}")
        assert answer
        return life

    async def kill_in_start(self, life: LaunchedProcess) -> None:
        """The life that runs is killed; the next is, somewhere on its way to ready."""
        await life.kill()
        victim = await self.succession.launch()
        await asyncio.sleep(self.chance.uniform(0, self.start_takes))
        await victim.kill()

    async def kill_in_stop(self, life: LaunchedProcess) -> None:
        began = time.monotonic()
        life.signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(self.chance.uniform(0, self.stop_takes)):
                await life.wait_for_exit()
            self.stop_takes = time.monotonic() - began
        except TimeoutError:
            pass
        await life.kill()

    async def run(self, kills: int, *, stopping: bool) -> None:
        life = await self.start()
        for _ in range(kills):
            await (self.kill_in_stop(life) if stopping else self.kill_in_start(life))
            life = await self.start()
        ledger = (await self.succession.status())["inbox_counts"]
        assert ledger["answered"] == ledger["accepted"] == self.asked, ledger


class KillAndStart(Protocol):
    async def __call__(self, kills: int, *, stopping: bool) -> None: ...


@pytest.fixture
def kill_and_start(tmp_path: Path, model_process: ModelProcess) -> KillAndStart:
    """With a model that answers at once: the demo takes its time, a second for each life."""
    model = f'provider = "openai"\nname = "scripted"\nbase_url = "{model_process.base_url}"'

    async def run(kills: int, *, stopping: bool) -> None:
        chosen = seed()
        print(f"HOLDFAST_SEED={chosen}")
        async with open_succession(tmp_path / "home", model=model, forked=True) as succession:
            await Chain(succession, random.Random(chosen)).run(kills, stopping=stopping)

    return run


@pytest.mark.timeout(240)
@pytest.mark.parametrize("stopping", [False, True], ids=["starting", "stopping"])
async def test_a_killed_gateway_leaves_nothing_that_prevents_the_next_start(
    kill_and_start: KillAndStart, stopping: bool
) -> None:
    """E4: whatever lock, pid, socket or status file it had at that instant."""
    await kill_and_start(KILLS, stopping=stopping)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("stopping", [False, True], ids=["starting", "stopping"])
async def test_kills_at_many_instants_leave_nothing_that_prevents_a_start(
    kill_and_start: KillAndStart, stopping: bool
) -> None:
    """E4: the same, at as many instants as there is time for."""
    await kill_and_start(SOAK_KILLS, stopping=stopping)

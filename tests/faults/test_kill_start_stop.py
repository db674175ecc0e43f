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
from tests.faults.gateway_sequence import GatewaySequence, LaunchedProcess, open_sequence

from holdfast.testing.misbehaving_model.process import ModelProcess

KILLS = 25  # of each kind: fifty in all
SOAK_KILLS = 500


def seed() -> int:
    chosen = os.environ.get("HOLDFAST_SEED")
    return int(chosen) if chosen else random.SystemRandom().randrange(2**32)


class KillChain:
    """Kills the gateways of a sequence one after the other, and counts their messages."""

    def __init__(self, sequence: GatewaySequence, rng: random.Random) -> None:
        self.sequence = sequence
        self.rng = rng
        self.messages_sent = 0
        self.start_seconds = 1.0
        self.stop_seconds = 0.3

    async def start(self) -> LaunchedProcess:
        """Start the next gateway at once; it must become ready, and answer."""
        began = time.monotonic()
        running = await self.sequence.start()
        self.start_seconds = time.monotonic() - began
        self.messages_sent += 1
        answer = await self.sequence.ask(
            running.address, "hello", message_id=f"m-{self.messages_sent}"
        )
        assert answer
        return running

    async def kill_in_start(self, running: LaunchedProcess) -> None:
        """Kill the running gateway, and then the next one at a random instant of its start."""
        await running.kill()
        victim = await self.sequence.launch()
        await asyncio.sleep(self.rng.uniform(0, self.start_seconds))
        await victim.kill()

    async def kill_in_stop(self, running: LaunchedProcess) -> None:
        began = time.monotonic()
        running.signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(self.rng.uniform(0, self.stop_seconds)):
                await running.wait_for_exit()
            self.stop_seconds = time.monotonic() - began
        except TimeoutError:
            pass
        await running.kill()

    async def run(self, kills: int, *, stopping: bool) -> None:
        running = await self.start()
        for _ in range(kills):
            await (self.kill_in_stop(running) if stopping else self.kill_in_start(running))
            running = await self.start()
        ledger = (await self.sequence.status())["inbox_counts"]
        assert ledger["answered"] == ledger["accepted"] == self.messages_sent, ledger


class KillAndStart(Protocol):
    async def __call__(self, kills: int, *, stopping: bool) -> None: ...


@pytest.fixture
def kill_and_start(tmp_path: Path, model_process: ModelProcess) -> KillAndStart:
    """Uses a model that answers at once: the demo model takes a second for each gateway."""
    model = f'provider = "openai"\nname = "scripted"\nbase_url = "{model_process.base_url}"'

    async def run(kills: int, *, stopping: bool) -> None:
        chosen = seed()
        print(f"HOLDFAST_SEED={chosen}")
        async with open_sequence(tmp_path / "home", model=model, forked=True) as sequence:
            await KillChain(sequence, random.Random(chosen)).run(kills, stopping=stopping)

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

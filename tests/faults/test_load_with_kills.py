"""Sixty-four chats at once, a vendor that misbehaves, and a SIGKILL every five seconds."""

import os
import random

import pytest
from tests.faults.conservation import ANSWERED, check_invariants
from tests.faults.load import ChatLoad, LoadSettings
from tests.faults.random_schedule import check_failed_messages, chosen_seed
from tests.support.process_harness import NewProcessHarness

from holdfast.core.messages.inbox import InboxState

SETTLES_WITHIN = 300.0


async def run_load(
    new_process_harness: NewProcessHarness, settings: LoadSettings, *options: str
) -> None:
    """Run the load and check the invariants; print the statistics."""
    seed = chosen_seed()
    print(f"HOLDFAST_SEED={seed}")
    async with new_process_harness(*options) as process_harness:
        load = ChatLoad(process_harness, random.Random(seed), settings)
        await load.run()
        contents = await check_invariants(
            process_harness,
            idempotent=bool(options),
            ends=ANSWERED | {InboxState.FAILED},
            within=SETTLES_WITHIN,
        )
        check_failed_messages(contents)
        print(load.result(contents))


@pytest.mark.timeout(120)
async def test_a_few_busy_chats_lose_nothing_to_a_few_kills(
    new_process_harness: NewProcessHarness,
) -> None:
    """G, H, I: what the soak does for minutes, for a few seconds."""
    await run_load(
        new_process_harness, LoadSettings(chats=12, seconds=4, between_kills=1.2, pause=0.5)
    )


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("options", [(), ("--idempotent-send",)], ids=["marked", "idempotent"])
async def test_busy_chats_lose_nothing_to_a_kill_every_five_seconds(
    new_process_harness: NewProcessHarness, options: tuple[str, ...]
) -> None:
    """The same for five minutes, or for HOLDFAST_LOAD_SECONDS, and its statistics."""
    seconds = float(os.environ.get("HOLDFAST_LOAD_SECONDS", "300"))
    await run_load(new_process_harness, LoadSettings(seconds=seconds), *options)

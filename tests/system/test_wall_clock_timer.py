"""The wall clock timer: it fires at its time, and leaves nothing open."""

import asyncio
import os
import time

from holdfast.system.linux import TimerfdTimer


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


async def test_the_timer_fires_at_its_time_and_not_before() -> None:
    at = time.time() + 0.05
    async with asyncio.timeout(10):
        await TimerfdTimer().wait_until(at)
    assert time.time() >= at - 0.001


async def test_a_time_in_the_past_fires_at_once() -> None:
    for at in (time.time() - 5, 0.0):
        async with asyncio.timeout(10):
            await TimerfdTimer().wait_until(at)


async def test_a_cancelled_timer_leaves_nothing_open() -> None:
    before = open_files()
    ringing = asyncio.create_task(TimerfdTimer().wait_until(time.time() + 3600))
    await asyncio.sleep(0)
    assert open_files() == before + 1
    ringing.cancel()
    await asyncio.gather(ringing, return_exceptions=True)
    assert open_files() == before

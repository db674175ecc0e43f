"""A crowd goes on a few at a time, and makes way for what is urgent."""

import asyncio
import time
from itertools import pairwise

from holdfast.system.pacing import IterationPacer


async def start(pacer: IterationPacer, started: list[int], number: int) -> None:
    if (place := pacer.enter()) is not None:
        await place
    started.append(number)


async def test_a_crowd_goes_on_in_order_and_a_few_in_each_iteration() -> None:
    pacer, started = IterationPacer(at_once=64, per_iteration=8), list[int]()
    async with asyncio.TaskGroup() as tasks:
        crowd = [tasks.create_task(start(pacer, started, number)) for number in range(300)]
        await asyncio.sleep(0)
        at_once = len(started)
        crowd[at_once].cancel()  # its place goes to the next one
        counts = [at_once]
        while len(started) < 299:
            await asyncio.sleep(0)
            counts.append(len(started))
    assert 64 <= at_once < 300
    assert started == [number for number in range(300) if number != at_once]
    assert max(later - before for before, later in pairwise(counts)) <= 8


async def test_a_crowd_waits_while_urgent_work_is_done_and_goes_on_after_it() -> None:
    pacer, started = IterationPacer(at_once=64, per_iteration=8), list[int]()
    async with asyncio.TaskGroup() as tasks:
        for number in range(200):
            tasks.create_task(start(pacer, started, number))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        with pacer.urgent():
            await asyncio.sleep(0)  # what was released in the iteration before goes on
            held = len(started)
            for _ in range(5):
                await asyncio.sleep(0)
            assert len(started) == held < 200
    assert started == list(range(200))


async def test_a_crowd_is_not_held_for_long_however_much_is_urgent() -> None:
    """One command after the other must not keep all turns from starting."""
    pacer, started = IterationPacer(at_once=8, per_iteration=4), list[int]()
    began = time.monotonic()
    async with asyncio.TaskGroup() as tasks:
        for number in range(24):
            tasks.create_task(start(pacer, started, number))
        while len(started) < 24:
            with pacer.urgent():
                await asyncio.sleep(0.005)
    assert time.monotonic() - began < 20
    assert started == list(range(24))


async def test_urgent_work_in_every_iteration_does_not_stop_the_crowd() -> None:
    pacer, started = IterationPacer(at_once=64, per_iteration=8), list[int]()
    over = asyncio.Event()

    async def command() -> None:
        while not over.is_set():
            with pacer.urgent():
                await asyncio.sleep(0)
            await asyncio.sleep(0)

    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        for _ in range(2):
            tasks.create_task(command())
        for number in range(160):
            tasks.create_task(start(pacer, started, number))
        while len(started) < 160:
            await asyncio.sleep(0.001)
        over.set()


async def test_those_who_come_without_a_crowd_wait_for_nothing() -> None:
    pacer = IterationPacer(at_once=64, per_iteration=8)
    with pacer.urgent():
        assert [pacer.enter() for _ in range(20)] == [None] * 20

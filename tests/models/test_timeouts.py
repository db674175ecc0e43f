"""The deadline of a model call: silence and total time are limited, and no timer is left."""

import asyncio
import gc
from functools import partial

import pytest
from tests.state_machine.virtual_time import VirtualTimeLoop

from holdfast.core.config.settings import Provider
from holdfast.core.turns.model import ModelFailed, ModelFault
from holdfast.models.errors import TimeoutStage
from holdfast.models.retry import CallDeadline
from holdfast.models.target import CallLimits, ModelTarget


def new_deadline(whole: float = 600) -> CallDeadline:
    target = ModelTarget(provider=Provider.LOCAL, name="m", limits=CallLimits(total=whole))
    return CallDeadline(target, sleep=asyncio.sleep)


async def wait(deadline: CallDeadline, seconds: float, limit: float) -> None:
    await deadline.wait(
        partial(asyncio.sleep, seconds), limit, stage=TimeoutStage.STALLED, setting="the_limit"
    )


def test_silence_adds_up_until_data_arrives() -> None:
    async def silences() -> None:
        deadline = new_deadline()
        for _ in range(4):
            await wait(deadline, 20, 50)
            deadline.mark_progress()
        with pytest.raises(ModelFailed, match="the_limit") as failed:
            for _ in range(4):
                await wait(deadline, 20, 50)
        assert failed.value.fault is ModelFault.TIMEOUT
        deadline.finish()

    loop = VirtualTimeLoop()
    loop.run_until_complete(silences())
    loop.close()


async def test_an_uninterrupted_stream_is_bounded_by_the_total_limit() -> None:
    async def at_once() -> None:
        return None

    deadline = new_deadline(whole=0.05)
    end = asyncio.get_running_loop().time() + 2
    with pytest.raises(ModelFailed, match="whole_timeout"):
        while asyncio.get_running_loop().time() < end:
            await deadline.wait(at_once, 0, stage=TimeoutStage.STALLED, setting="the_limit")
    deadline.finish()


async def test_a_cancellation_from_outside_takes_precedence() -> None:
    deadline = new_deadline()
    task = asyncio.create_task(wait(deadline, 30, 0))
    await asyncio.sleep(0)
    task.cancel()
    deadline.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()
    deadline.finish()


async def test_an_ended_wait_leaves_its_task_uncancelled() -> None:
    deadline = new_deadline()

    async def run() -> int:
        with pytest.raises(ModelFailed, match="was cancelled"):
            await wait(deadline, 30, 0)
        await asyncio.sleep(0)  # a cancellation left over would strike here
        current = asyncio.current_task()
        assert current is not None
        return current.cancelling()

    task = asyncio.create_task(run())
    await asyncio.sleep(0)
    deadline.cancel()
    deadline.cancel()
    assert await task == 0


async def test_a_finished_call_leaves_no_timer_behind() -> None:
    """A timer that is not needed any more would keep the call in memory until it fires."""
    soon = asyncio.get_running_loop().time() + 2000
    for _ in range(20):
        deadline = new_deadline(whole=9000)
        await wait(deadline, 0, 3000)
        deadline.finish()
    timers = [each for each in gc.get_objects() if isinstance(each, asyncio.TimerHandle)]
    ours = [timer for timer in timers if timer._loop is asyncio.get_running_loop()]
    assert not [timer for timer in ours if timer.when() > soon and not timer.cancelled()]

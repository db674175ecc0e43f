"""J4: scheduled jobs. A run is a row before it starts, and enters through a lane like everything."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.contract.conftest import Call, HeldClock, Until, World

from holdfast.core.ids import SessionId
from holdfast.core.job import Cause, JobId, JobRun, RunState
from holdfast.core.message import NoteMessage, ToolMessage, UserMessage
from holdfast.core.settings import JobSettings, PlatformSettings
from holdfast.tools.schedule import Schedule

MONDAY = 1_800_000_000.0 - 1_800_000_000.0 % 86400 + 3 * 86400  # midnight, in UTC
DAY, HOUR, MINUTE = 86400, 3600, 60


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(tmp_path / "state.db")
    world.clock = HeldClock(MONDAY)
    configure(world)
    await world.start()
    yield world
    await world.stop()


def configure(world: World, **jobs: Any) -> None:
    settings = JobSettings(time_zone="UTC", **jobs)
    allowed = PlatformSettings(allow=("ann", "bob"), operators=("olga",))
    world.settings = msgspec.structs.replace(
        world.settings, jobs=settings, platforms={"simulated": allowed}
    )
    world.more_tools = [Schedule()]


def clock(world: World) -> HeldClock:
    assert isinstance(world.clock, HeldClock)
    return world.clock


def passes(world: World, seconds: float) -> None:
    """Time goes on, and the alarm rings."""
    clock(world).at += seconds
    world.gateway.scheduler.stirred()


Talk = Callable[..., Awaitable[str]]


@pytest.fixture
def talk(world: World) -> Talk:
    """Says a command, and waits for its answer."""

    async def say(text: str, **more: Any) -> str:
        number = len(world.service.ledger().sent) + 1
        world.say(text, **more)
        return (await world.texts(number))[-1]

    return say


async def ended(world: World, until: Until, number: int, job: int = 1) -> list[JobRun]:
    """The history, once so many runs are over; the oldest first."""

    async def over() -> bool:
        runs = await world.store.runs(JobId(job), limit=200)
        open_ = (RunState.WAITING, RunState.RUNNING)
        return len(runs) >= number and not any(run.state in open_ for run in runs)

    await until(over)
    return list(reversed(await world.store.runs(JobId(job), limit=200)))


async def test_a_job_runs_when_it_is_due_and_its_answer_is_told_where_it_was_made(
    world: World, talk: Talk, until: Until
) -> None:
    """J4: in a session of its own, once; the outcome is in its history."""
    told = await talk('/cron add "every day at 9" Summarise the news')
    assert told.splitlines() == [
        "Job 1: every day at 9 (0 9 * * *, UTC).",
        "Next: Mon 18 Jan 2027 09:00, then Tue 19 Jan 2027 09:00.",
        "It does: Summarise the news",
        "Told here.",
    ]
    passes(world, 9 * HOUR - 1)
    assert (await world.store.runs(JobId(1), limit=5)) == []
    world.model.say("nothing new")
    passes(world, 1)
    assert (await world.texts(2))[-1] == "nothing new"
    [run] = await ended(world, until, 1)
    assert (run.state, run.cause, run.text) == (RunState.ANSWERED, Cause.DUE, "nothing new")
    [asked] = world.model.requests
    assert "scheduled job" in asked.system
    assert [m.text for m in asked.messages if isinstance(m, UserMessage)] == ["Summarise the news"]
    job = await world.store.job(JobId(1))
    assert job is not None and job.next_due == MONDAY + DAY + 9 * HOUR

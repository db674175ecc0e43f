"""Tests of jobs: a run is a row before it starts, and runs in a lane like any message (J4)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest
from tests.support.approvals import AlwaysDangerousJudge, InstantShell
from tests.support.controlled_store import Commit, ControlledStore, Intercepted
from tests.support.gateway_harness import Call, GatewayHarness, ManualClock, Until

from holdfast.core.config.settings import JobSettings, PlatformSettings
from holdfast.core.ids import InboxId, PrincipalId
from holdfast.core.jobs.job import (
    JobId,
    JobRequest,
    JobRun,
    JobSpec,
    NewJob,
    RunCause,
    RunRequest,
    RunState,
)
from holdfast.core.jobs.schedule import Schedule
from holdfast.core.messages.events import MessageEnded
from holdfast.core.messages.inbox import InboxState
from holdfast.core.messages.source import Source
from holdfast.core.messages.transcript import NoteMessage, ToolMessage, UserMessage
from holdfast.core.ports.command import Command
from holdfast.core.ports.store_commands import AcceptMessage, AddJob, PruneRuns, SkipRuns
from holdfast.core.ports.store_queries import (
    CountWaitingRuns,
    GetInboxRow,
    GetJob,
    GetWorkload,
    ListJobRuns,
    ListJobs,
)
from holdfast.core.sessions.session import CommandEffect
from holdfast.core.turns.model import ModelFailed, ModelFault
from holdfast.core.turns.tool import ReplayClass
from holdfast.gateway.jobs.service import JobRequester
from holdfast.gateway.jobs.turn_jobs import TurnJobs
from holdfast.tools.schedule import ScheduleTool

MONDAY = 1_800_000_000.0 - 1_800_000_000.0 % 86400 + 3 * 86400  # midnight, in UTC
DAY, HOUR, MINUTE = 86400, 3600, 60


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[GatewayHarness]:
    harness = GatewayHarness(tmp_path / "state.db")
    harness.clock = ManualClock(MONDAY)
    configure(harness)
    await harness.start()
    yield harness
    await harness.stop()


def configure(harness: GatewayHarness, **jobs: Any) -> None:
    settings = JobSettings(time_zone="UTC", **jobs)
    allowed = PlatformSettings(allow=("ann", "bob"), operators=("olga",))
    harness.settings = msgspec.structs.replace(
        harness.settings, jobs=settings, platforms={"simulated": allowed}
    )
    harness.extra_tools = [ScheduleTool()]


def clock(harness: GatewayHarness) -> ManualClock:
    assert isinstance(harness.clock, ManualClock)
    return harness.clock


def advance(harness: GatewayHarness, seconds: float) -> None:
    """Advance the clock and wake the scheduler."""
    clock(harness).at += seconds
    harness.gateway.scheduler.wake()


SendCommand = Callable[..., Awaitable[str]]


@pytest.fixture
def send(harness: GatewayHarness) -> SendCommand:
    """Send a command and return its reply."""

    async def say(text: str, **more: Any) -> str:
        number = len(harness.service.ledger().sent) + 1
        harness.say(text, **more)
        return (await harness.texts(number))[-1]

    return say


async def finished_runs(
    harness: GatewayHarness, until: Until, number: int, job: int = 1
) -> list[JobRun]:
    """The runs of a job, oldest first, once so many have finished."""

    async def over() -> bool:
        runs = await harness.store.read(ListJobRuns(job_id=JobId(job), limit=200))
        open_ = (RunState.WAITING, RunState.RUNNING)
        return len(runs) >= number and not any(run.state in open_ for run in runs)

    await until(over)
    return list(reversed(await harness.store.read(ListJobRuns(job_id=JobId(job), limit=200))))


async def test_a_job_runs_when_due_and_its_answer_goes_to_the_chat_it_was_made_in(
    harness: GatewayHarness, send: SendCommand, until: Until
) -> None:
    """J4: in a session of its own, once; the outcome is in its history."""
    reply = await send('/cron add "every day at 9" Summarise the news')
    assert reply.splitlines() == [
        "Job 1: every day at 9 (0 9 * * *, UTC).",
        "Next: Mon 18 Jan 2027 09:00, Tue 19 Jan 2027 09:00.",
        "Task: Summarise the news",
        "The answer is sent here.",
    ]
    advance(harness, 9 * HOUR - 1)
    assert (await harness.store.read(ListJobRuns(job_id=JobId(1), limit=5))) == []
    harness.model.say("nothing new")
    advance(harness, 1)
    assert (await harness.texts(2))[-1] == "nothing new"
    [run] = await finished_runs(harness, until, 1)
    assert (run.state, run.cause, run.text) == (RunState.ANSWERED, RunCause.DUE, "nothing new")
    [asked] = harness.model.requests
    assert "scheduled job" in asked.system
    assert [m.text for m in asked.messages if isinstance(m, UserMessage)] == ["Summarise the news"]
    job = await harness.store.read(GetJob(job_id=JobId(1)))
    assert job is not None and job.next_due == MONDAY + DAY + 9 * HOUR


async def test_a_job_that_runs_in_its_conversation_knows_the_history(
    harness: GatewayHarness, send: SendCommand, until: Until
) -> None:
    """J4: its run is a note in that transcript, and is queued behind messages."""
    harness.model.say("I remember blue")
    await send("my colour is blue")
    reply = await send('/cron add "in 1 minute" session=here What is my colour?')
    assert reply.endswith("The answer is sent here. It runs in this conversation.")
    harness.model.say("blue, still")
    advance(harness, MINUTE)
    assert (await harness.texts(3))[-1] == "blue, still"
    [run] = await finished_runs(harness, until, 1)
    assert run.session_id == await harness.only_session()
    notes = [m for m in await harness.transcript(run.session_id) if isinstance(m, NoteMessage)]
    assert "job 1" in notes[0].text and notes[0].text.endswith("\n\nWhat is my colour?")
    assert len(harness.model.requests[-1].messages) == 3


async def test_a_job_made_over_the_api_runs_in_its_conversation(
    harness: GatewayHarness, until: Until
) -> None:
    """J4: a page sends nothing, so no one would see the answer of a separate session."""
    made = await harness.end_of(await harness.accept('/cron add "in 1 minute" look'))
    assert made.text.endswith("The answer is sent here. It runs in this conversation.")
    refused = await harness.end_of(
        await harness.accept('/cron add "in 1 minute" session=fresh look')
    )
    assert "sends no messages by itself" in refused.text
    harness.model.say("looked")
    advance(harness, MINUTE)
    [run] = await finished_runs(harness, until, 1)
    assert run.text == "looked" and run.session_id == await harness.only_session()


async def test_a_silent_job_sends_nothing_when_there_is_nothing_to_report(
    harness: GatewayHarness, send: SendCommand, until: Until
) -> None:
    """J4: its reply is in its history nevertheless."""
    await send('/cron add "every 10 minutes" silent=yes Is the disk full?')
    harness.model.say("[SILENT]", "It is full!")
    advance(harness, 10 * MINUTE)
    [quiet] = await finished_runs(harness, until, 1)
    advance(harness, 10 * MINUTE)
    assert await harness.texts(2) == [(await harness.texts(1))[0], "It is full!"]
    assert quiet.text == "[SILENT]" and quiet.state is RunState.ANSWERED
    assert "reply with [SILENT]" in harness.model.requests[0].system


async def test_a_failed_run_names_its_job(harness: GatewayHarness, send: SendCommand) -> None:
    await send('/cron add "in 1 minute" name=disk silent=yes Is the disk full?')
    harness.model.say(ModelFailed("the model is ill", fault=ModelFault.BAD_REQUEST))
    advance(harness, MINUTE)
    assert (await harness.texts(2))[-1].startswith("Job 1 (disk): This could not be answered: ")


@pytest.mark.parametrize(
    ("missed", "states"),
    [
        ("skip", [RunState.SKIPPED]),
        ("once", [RunState.ANSWERED]),
        ("all", [RunState.ANSWERED] * 3),
    ],
)
async def test_due_times_that_were_missed_follow_the_policy(
    harness: GatewayHarness, send: SendCommand, until: Until, missed: str, states: list[RunState]
) -> None:
    """J4: three days without a gateway are no run, one, or three in a row."""
    await send(f'/cron add "every day at 9" missed={missed} look')
    await harness.stop()
    clock(harness).at += 3 * DAY
    harness.model.say("a", "b", "c")
    await harness.start()
    runs = await finished_runs(harness, until, len(states))
    assert [run.state for run in runs] == states
    assert {run.cause for run in runs} == {RunCause.MISSED}
    assert runs[-1].due_at == MONDAY + 2 * DAY + 9 * HOUR
    job = await harness.store.read(GetJob(job_id=JobId(1)))
    assert job is not None and job.next_due == MONDAY + 3 * DAY + 9 * HOUR
    reply = {"skip": ["3 due times missed"], "once": [""], "all": ["", "", ""]}[missed]
    assert [run.reason for run in runs] == reply


async def test_a_due_time_that_is_barely_past_was_not_missed(
    harness: GatewayHarness, send: SendCommand, until: Until
) -> None:
    """J4: a short restart does not make a job miss its time."""
    await send('/cron add "every day at 9" missed=skip look')
    await harness.stop()
    clock(harness).at += 9 * HOUR + 30
    harness.model.say("looked")
    await harness.start()
    [run] = await finished_runs(harness, until, 1)
    assert (run.state, run.cause) == (RunState.ANSWERED, RunCause.DUE)


async def test_a_clock_that_is_set_back_repeats_nothing(
    harness: GatewayHarness, send: SendCommand, until: Until
) -> None:
    """J4: a due time that has run is not due again."""
    await send('/cron add "every day at 9" look')
    harness.model.say("looked", "again")
    advance(harness, 9 * HOUR)
    await finished_runs(harness, until, 1)
    advance(harness, -2 * HOUR)
    advance(harness, 2 * HOUR)
    await harness.gateway.scheduler.run_once()
    assert len(await finished_runs(harness, until, 1)) == 1
    advance(harness, DAY)
    assert len(await finished_runs(harness, until, 2)) == 2


async def start_run(harness: GatewayHarness, send: SendCommand, overlap: str) -> None:
    """Make a job and start its first run."""
    await send(f'/cron add "every hour" overlap={overlap} look')
    advance(harness, HOUR)
    await harness.model.wait_for_request(1)


async def test_a_run_that_is_due_while_another_works_is_skipped(
    harness: GatewayHarness, send: SendCommand, until: Until
) -> None:
    """J4: overlap `skip`, the default."""
    await start_run(harness, send, "skip")
    advance(harness, HOUR)
    await until(lambda: has_skipped(harness, 1))
    harness.model.say("looked")
    first, second = await finished_runs(harness, until, 2)
    assert (first.state, second.state) == (RunState.ANSWERED, RunState.SKIPPED)
    assert second.reason == "an earlier run was still running"


async def has_skipped(harness: GatewayHarness, number: int) -> bool:
    runs = await harness.store.read(ListJobRuns(job_id=JobId(1), limit=9))
    return sum(run.state is RunState.SKIPPED for run in runs) == number


async def test_a_run_that_is_due_while_another_works_waits_for_it(
    harness: GatewayHarness, send: SendCommand, until: Until
) -> None:
    """J4: overlap `queue`; one at a time, in order."""
    await start_run(harness, send, "queue")
    advance(harness, HOUR)
    advance(harness, HOUR)

    scheduler, now = harness.gateway.scheduler, clock(harness).now()
    await until(lambda: scheduler.next_due is not None and scheduler.next_due > now)
    # It has planned what is due, and begun what may begin: one waits for the one that works.
    assert await harness.store.read(CountWaitingRuns(job_id=JobId(1))) == 1
    assert len(harness.model.requests) == 1
    harness.model.say("one", "two")
    assert [run.text for run in await finished_runs(harness, until, 2)] == ["one", "two"]


async def test_a_run_that_is_due_stops_the_one_before_it(
    harness: GatewayHarness, send: SendCommand, until: Until
) -> None:
    """J4: overlap `replace`."""
    await start_run(harness, send, "replace")
    advance(harness, HOUR)
    await harness.model.wait_for_request(2)
    harness.model.say("the second")
    first, second = await finished_runs(harness, until, 2)
    assert (first.state, second.state) == (RunState.STOPPED, RunState.ANSWERED)
    assert (await harness.texts(2))[1:] == ["the second"]


async def test_a_run_that_takes_too_long_is_stopped_and_reported(
    harness: GatewayHarness, send: SendCommand, until: Until
) -> None:
    """J4: by the job's own limit."""
    await send('/cron add "in 1 minute" limit=1s look')
    advance(harness, MINUTE)
    await harness.model.wait_for_request(1)
    [run] = await finished_runs(harness, until, 1)
    assert run.state is RunState.FAILED and "longer than 1 second" in run.reason
    assert (await harness.texts(2))[-1].startswith("Job 1 (look): ")


async def test_a_run_is_stopped_by_its_number(
    harness: GatewayHarness, send: SendCommand, until: Until
) -> None:
    """J4: as /stop does, from any chat of its owner."""
    await send('/cron add "in 1 minute" look')
    advance(harness, MINUTE)
    await harness.model.wait_for_request(1)
    assert await send("/cron list") == "1. look - in 1 minute, running"
    assert await send("/cron stop 1", chat="elsewhere") == "Stopped: job 1."
    [run] = await finished_runs(harness, until, 1)
    assert run.state is RunState.STOPPED
    assert await send("/cron stop 1") == "Job 1 is not running."


class StopHoldingStore(ControlledStore):
    """Holds the commit that drops the waiting runs of a job, until `go` is set."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.held, self.go = asyncio.Event(), asyncio.Event()

    def intercept(self, command: Command[Any], commit: Commit) -> Intercepted:
        if isinstance(command, SkipRuns) or (
            isinstance(command, CommandEffect) and command.skip_runs is not None
        ):
            return self._hold(commit)
        return None

    async def _hold(self, commit: Commit) -> Any:
        self.held.set()
        await self.go.wait()
        return await commit()


@pytest.mark.parametrize("way", ["chat", "api"])
async def test_a_run_that_starts_before_the_commit_that_stops_its_job_is_stopped(
    harness: GatewayHarness, send: SendCommand, until: Until, way: str
) -> None:
    """J4, Law 4: the run follows that commit, whatever has awaited it."""
    await harness.stop()
    harness.open_store = StopHoldingStore
    await harness.start()
    store = harness.store
    assert isinstance(store, StopHoldingStore)
    await send('/cron add "in 1 minute" look')
    if way == "chat":
        harness.say("/cron stop 1")
        stopping = None
    else:
        stopping = asyncio.create_task(harness.gateway.jobs.stop_run(1, an_operator()))
    await store.held.wait()
    advance(harness, MINUTE)
    await harness.model.wait_for_request(1)
    store.go.set()
    [run] = await finished_runs(harness, until, 1)
    assert run.state is RunState.STOPPED
    if stopping is not None:
        assert await stopping


def an_operator() -> JobRequester:
    source = Source(platform="simulated", chat_id="home", user_id="olga")
    principal = PrincipalId("simulated:olga")
    return JobRequester(source=source, principal=principal, is_operator=True)


async def test_an_operator_is_told_whether_there_was_a_run_to_stop(
    harness: GatewayHarness, send: SendCommand, until: Until
) -> None:
    """J4: the running run, or one that waits."""
    await start_run(harness, send, "queue")
    jobs = harness.gateway.jobs
    assert await jobs.stop_run(1, an_operator())
    [run] = await finished_runs(harness, until, 1)
    assert run.state is RunState.STOPPED
    await until(lambda: not len(jobs.running))
    assert not await jobs.stop_run(1, an_operator())


async def test_a_run_that_may_not_start_stops_no_other(
    harness: GatewayHarness, send: SendCommand, until: Until
) -> None:
    """J4: its owner lost access while an earlier run was running, which goes on."""
    await start_run(harness, send, "queue")
    await harness.store.write(
        SkipRuns(job_id=JobId(1), principal=PrincipalId("simulated:ann"), why="no", run_id="1.x")
    )
    harness.model.say("looked")
    [run] = await finished_runs(harness, until, 1)
    assert run.state is RunState.ANSWERED


async def test_a_run_that_waits_behind_a_turn_is_stopped_alone(
    harness: GatewayHarness, send: SendCommand, until: Until
) -> None:
    """J4: messages before and after it are answered."""
    await send('/cron add "in 1 minute" session=here look')
    harness.say("think")
    await harness.model.wait_for_request(1)
    advance(harness, MINUTE)
    await until(lambda: JobId(1) in harness.gateway.job_executor.running)
    harness.say("/queue and this")
    session = await harness.only_session()
    lane = harness.gateway.lanes.get(session)
    assert lane is not None
    await until(lambda: lane.queued == 2)
    assert await send("/cron stop 1", chat="elsewhere") == "Stopped: job 1."
    harness.model.say("thought", "and that")
    assert (await harness.texts(4))[-2:] == ["thought", "and that"]
    [run] = await finished_runs(harness, until, 1)
    assert run.state is RunState.STOPPED


async def test_jobs_are_paused_resumed_run_and_removed(
    harness: GatewayHarness, send: SendCommand, until: Until
) -> None:
    await send('/cron add "every day at 9" look')
    assert (await send("/cron pause 1")).startswith("Paused: job 1 (look).")
    advance(harness, 2 * DAY)
    assert await send("/cron list") == "1. look - every day at 9, paused"
    assert await send("/cron resume 1") == "Resumed: job 1 (look)."
    assert await send("/cron") == "1. look - every day at 9, next Wed 20 Jan 2027 09:00"
    harness.model.say("looked")
    number = len(harness.service.ledger().sent)
    await send("/cron run 1")
    assert set((await harness.texts(number + 2))[-2:]) == {
        "Job 1 runs now, as if it were due.",
        "looked",
    }
    [run] = await finished_runs(harness, until, 1)
    assert run.cause is RunCause.REQUESTED
    assert (await send("/cron history 1")).splitlines() == [
        "Job 1 (look), every day at 9 (0 9 * * *, UTC):",
        "Wed 20 Jan 2027 00:00, requested - answered: looked",
    ]
    assert await send("/cron rm 1") == "Removed: job 1 (look)."
    assert (await send("/cron")).startswith("There are no jobs.")
    advance(harness, 2 * DAY)
    assert await harness.gateway.scheduler.run_once() is None


async def test_an_invalid_command_is_answered_with_what_was_understood(
    harness: GatewayHarness, send: SendCommand
) -> None:
    for command, reply in (
        ('add "every weekday att 9" look', "I understood “every weekday”, but not “att 9”."),
        ("add every day at 9 look", "Put the time in quotes."),
        ('add "every day at 9"', "I understood the time “every day at 9”, but the task is missing"),
        ('add "every day at 9" overlap=wait x', "overlap=wait is not allowed: overlap is one of"),
        ('add "every day at 9 in Mars/Base" x', "This machine does not know the time zone"),
        (
            'add "every 10 seconds" x',
            "“every 10 seconds” is every 10 seconds; the shortest interval is",
        ),
        ('add "2020-01-01 09:00" x', "“2020-01-01 09:00” is in the past."),
        ("pause x", "Which job? Give its number"),
        ("pause 7", "There is no job 7."),
        ("remind me", "/cron does not know 'remind'."),
    ):
        assert (await send(f"/cron {command}")).startswith(reply), command
    assert await harness.store.read(ListJobs(limit=9)) == []


async def test_a_job_is_visible_to_its_owner_and_to_operators(
    harness: GatewayHarness, send: SendCommand
) -> None:
    """Default deny: to other users it does not exist."""
    await send('/cron add "every day at 9" look')
    assert (await send("/cron", user="bob", chat="bobs")).startswith("There are no jobs.")
    for verb in ("pause", "run", "rm", "stop", "history"):
        reply = await send(f"/cron {verb} 1", user="bob", chat="bobs")
        assert reply == "There is no job 1."
    assert (await send("/cron", user="olga", chat="ops")).startswith("1. look")
    assert (await send("/cron pause 1", user="olga", chat="ops")).startswith("Paused: job 1")


async def test_only_an_operator_can_send_a_jobs_answer_to_another_chat(
    harness: GatewayHarness, send: SendCommand, until: Until
) -> None:
    """To the home channel or a named chat."""
    for to in ("home", "simulated:lobby"):
        reply = await send(f'/cron add "in 1 minute" to={to} look')
        assert reply.startswith("Only operators can")
    reply = await send('/cron add "in 1 minute" to=home look', user="olga")
    assert reply.startswith("There is no home channel")
    await send("/sethome", user="olga", chat="the-home")
    await send('/cron add "in 1 minute" to=home look', user="olga")
    await send('/cron add "in 2 minutes" to=simulated:lobby look', user="olga")
    await send('/cron add "in 3 minutes" to=nowhere look', user="olga")
    assert "is not a destination" in await send('/cron add "in 1 minute" to=irc:x y', user="olga")
    sent = len(harness.service.ledger().sent)
    harness.model.say("home", "lobby", "nowhere")
    for number in (1, 2, 3):
        advance(harness, MINUTE)
        await finished_runs(harness, until, 1, job=number)
    deliveries = [(one.outgoing.chat_id, one.outgoing.text) for one in await harness.sent(sent + 2)]
    assert deliveries[sent:] == [("the-home", "home"), ("lobby", "lobby")]
    assert (await harness.store.read(ListJobRuns(job_id=JobId(3), limit=1)))[0].text == "nowhere"


async def test_the_number_of_jobs_per_person_is_limited(
    harness: GatewayHarness, send: SendCommand
) -> None:
    await harness.stop()
    configure(harness, max_per_person=2)
    await harness.start()
    for _ in range(2):
        await send('/cron add "every day at 9" look')
    assert (await send('/cron add "every day at 9" look')).startswith("You already have 2 jobs")
    assert (await send('/cron add "every day at 9" look', user="bob")).startswith("Job 3")


async def test_a_job_of_a_user_who_lost_access_does_not_run(
    harness: GatewayHarness, send: SendCommand, until: Until
) -> None:
    """Authorised again with every run."""
    await send('/cron add "every day at 9" look')
    await harness.stop()
    harness.settings = msgspec.structs.replace(
        harness.settings, platforms={"simulated": PlatformSettings(allow=("bob",))}
    )
    await harness.start()
    advance(harness, 9 * HOUR)
    [run] = await finished_runs(harness, until, 1)
    assert run.state is RunState.SKIPPED and "may not talk" in run.reason
    assert harness.model.requests == []


async def test_a_run_that_was_planned_and_not_begun_begins_once_at_the_next_start(
    harness: GatewayHarness, send: SendCommand, until: Until
) -> None:
    """J4: its row exists before anything else happens. Also while the gateway stops."""
    await send('/cron add "in 1 minute" look')
    harness.gateway.scheduler.close()
    clock(harness).at += MINUTE
    await harness.gateway.scheduler.run_once()
    [run] = await harness.store.read(ListJobRuns(job_id=JobId(1), limit=5))
    assert run.state is RunState.WAITING
    await harness.die()
    harness.model.say("looked")
    await harness.start()
    [run] = await finished_runs(harness, until, 1)
    assert (run.state, run.text) == (RunState.ANSWERED, "looked")
    assert len(harness.model.requests) == 1


async def test_an_interrupted_run_resumes_and_is_tracked_to_its_end(
    harness: GatewayHarness, send: SendCommand, until: Until
) -> None:
    """J4, H3: a crash during the run loses nothing, and the queued run starts after it."""
    await send('/cron add "every hour" overlap=queue look')
    advance(harness, HOUR)
    await harness.model.wait_for_request(1)
    await harness.die()
    clock(harness).at += HOUR
    await harness.start()
    await harness.model.wait_for_request(2)
    await harness.gateway.scheduler.run_once()
    assert await harness.store.read(CountWaitingRuns(job_id=JobId(1))) == 1
    assert len(harness.gateway.job_executor.running) == 1 and len(harness.model.requests) == 2
    harness.model.say("one", "one", "two")
    runs = await finished_runs(harness, until, 2)
    assert [run.state for run in runs] == [RunState.ANSWERED] * 2
    assert len(await harness.texts(3)) == 3


async def test_the_number_of_parallel_runs_is_limited(
    harness: GatewayHarness, send: SendCommand, until: Until
) -> None:
    """A thousand jobs due at nine do not ask the model a thousand times at once."""
    await harness.stop()
    configure(harness, parallel=2)
    await harness.start()
    for _ in range(4):
        await send('/cron add "every day at 9" look')
    advance(harness, 9 * HOUR)
    await harness.model.wait_for_request(2)
    await harness.gateway.scheduler.run_once()
    assert len(harness.model.requests) == 2
    harness.model.say("a", "b", "c", "d")
    for number in (1, 2, 3, 4):
        await finished_runs(harness, until, 1, job=number)
    assert len(harness.model.requests) == 4


async def test_the_schedule_tool_makes_jobs_for_the_person_it_works_for(
    harness: GatewayHarness, send: SendCommand, until: Until, call: Call
) -> None:
    """J4: that person can list and remove them."""
    harness.model.say(
        [call("schedule", '{"action": "add", "when": "in 1 hour", "task": "look"}')],
        [call("schedule", '{"action": "list"}')],
        [call("schedule", '{"action": "add", "when": "someday", "task": "x"}')],
        [call("schedule", '{"action": "remove"}')],
        "it is planned",
    )
    assert await send("remind me") == "it is planned"
    transcript = await harness.transcript(await harness.only_session())
    made, listed, bad, which = [m.text for m in transcript if isinstance(m, ToolMessage)]
    assert made.startswith("Job 1: in 1 hour.")
    assert listed.startswith("1. look - in 1 hour, next")
    assert "I do not understand “someday”" in bad and "needs the id" in which
    assert (await send("/cron", user="bob", chat="b")).startswith("There are no jobs.")
    harness.model.say(
        [call("schedule", '{"action": "add", "when": "in 1 hour", "task": "y"}')], "ok"
    )
    advance(harness, HOUR)
    assert (await harness.texts(3))[-1] == "ok"
    [run] = await finished_runs(harness, until, 1)
    assert run.session_id is not None
    [refused] = [
        m.text for m in await harness.transcript(run.session_id) if isinstance(m, ToolMessage)
    ]
    assert "cannot create jobs" in refused
    assert await send("/cron rm 1") == "Removed: job 1 (look)."


async def test_a_repeated_schedule_call_makes_one_job(
    harness: GatewayHarness, until: Until, call: Call
) -> None:
    """H2: repeated by the next process, it finds the job that it made."""
    schedule_call = call("schedule", '{"action": "add", "when": "every day at 9", "task": "look"}')
    pull = call(ReplayClass.SAFE)
    harness.held_tools[ReplayClass.SAFE].go.clear()
    harness.model.say([schedule_call, pull])
    harness.say("plan it")
    await harness.held_tools[ReplayClass.SAFE].wait_until_started(1)
    jobs = harness.gateway.jobs
    [made] = await harness.store.read(ListJobs(limit=9))
    row = await harness.store.read(GetInboxRow(inbox_id=InboxId(1)))
    assert row is not None and row.session_id is not None
    again = TurnJobs(jobs, row, row.session_id)
    call_id = (await harness.transcript(row.session_id))[1].calls[0].id  # type: ignore[union-attr]
    reply = await again.add(call_id, JobRequest(when="every day at 9", text="look"))
    assert reply.startswith(f"Job {made.id}:")
    assert len(await harness.store.read(ListJobs(limit=9))) == 1
    harness.held_tools[ReplayClass.SAFE].go.set()
    harness.model.say("done")


async def test_a_job_asks_for_approval_in_the_chat_it_was_made_in(
    harness: GatewayHarness, send: SendCommand, until: Until, call: Call
) -> None:
    """J3, J4: the question is asked and answered there."""
    await harness.stop()
    harness.extra_tools.append(InstantShell())
    harness.judge = AlwaysDangerousJudge()
    await harness.start()
    harness.model.say("hello")
    await send("hello")
    await send('/cron add "in 1 minute" tidy up')
    harness.model.say([call("shell", '{"command": "tidy"}')], "tidied")
    advance(harness, MINUTE)
    assert "tidy" in (await harness.texts(3))[-1]
    await send("/approve")
    assert (await harness.texts(5))[-1] == "tidied"
    await finished_runs(harness, until, 1)


async def test_old_runs_and_finished_jobs_are_pruned(
    harness: GatewayHarness, send: SendCommand, until: Until
) -> None:
    await send('/cron add "in 1 minute" once')
    await send('/cron add "every day at 9" look')
    harness.model.say("a", "b")
    advance(harness, MINUTE)
    await finished_runs(harness, until, 1)
    advance(harness, 9 * HOUR)
    await finished_runs(harness, until, 1, job=2)
    assert await harness.store.write(PruneRuns(before=MONDAY)) == 0
    assert await harness.store.write(PruneRuns(before=MONDAY + DAY)) == 2
    assert [job.id for job in await harness.store.read(ListJobs(limit=9))] == [2]
    assert await harness.store.read(ListJobRuns(job_id=JobId(2), limit=9)) == []


async def test_finding_the_next_due_job_uses_an_index(harness: GatewayHarness) -> None:
    """The next due time is found by its index, however many jobs there are."""
    source = Source(platform="api", chat_id="jobs", user_id="owner")
    spec = JobSpec(
        name="n", text="t", schedule=Schedule(text="w", cron="0 9 * * *", zone="UTC"), source=source
    )
    adding = [
        harness.store.write(
            AddJob(
                new=NewJob(
                    key=f"k{n}",
                    principal=PrincipalId(f"p{n}"),
                    spec=spec,
                    next_due=int(MONDAY) + 9 * HOUR + n,
                    at=MONDAY,
                ),
                limit=1,
            )
        )
        for n in range(2_000)
    ]
    await asyncio.gather(*adding)
    assert (await harness.store.read(GetWorkload())).jobs == 2_000
    assert await harness.gateway.scheduler.run_once() == MONDAY + 9 * HOUR
    db = apsw.Connection(str(harness.path), flags=apsw.SQLITE_OPEN_READONLY)
    for query in (
        "SELECT next_due FROM jobs INDEXED BY jobs_due WHERE next_due IS NOT NULL AND paused = 0"
        " ORDER BY next_due LIMIT 1",
        "SELECT id FROM job_runs INDEXED BY job_runs_waiting WHERE inbox_id IS NULL"
        " AND skipped IS NULL",
    ):
        plan = " ".join(str(row[-1]) for row in db.execute(f"EXPLAIN QUERY PLAN {query}"))
        assert "USING" in plan and "INDEX" in plan and "TEMP B-TREE" not in plan
    db.close()


async def test_a_stop_from_before_this_start_stops_nothing(
    harness: GatewayHarness, send: SendCommand, until: Until
) -> None:
    """G5: the run that it was meant for was interrupted, and resumes."""
    await send('/cron add "in 1 minute" look')
    advance(harness, MINUTE)
    await harness.model.wait_for_request(1)
    harness.gateway.intake.close()
    row = await harness.store.read(GetInboxRow(inbox_id=InboxId(1)))
    assert row is not None
    stop_command = msgspec.structs.replace(row.inbound, event_id="late", text="/cron stop 1")
    await harness.store.write(
        AcceptMessage(
            inbound=stop_command, route=row.route, principal=row.principal, at=harness.clock.now()
        )
    )
    await harness.die()
    clock(harness).at -= MINUTE  # set back: the check does not depend on the clock
    await harness.start()
    harness.model.say("looked", "looked")
    [run] = await finished_runs(harness, until, 1)
    assert run.state is RunState.ANSWERED
    assert any("restarted after you sent this" in text for text in await harness.texts(3))


async def test_a_waiting_run_of_a_paused_job_waits_until_the_job_is_resumed(
    harness: GatewayHarness, send: SendCommand, until: Until
) -> None:
    await start_run(harness, send, "queue")
    advance(harness, HOUR)

    async def one_waits() -> bool:
        return await harness.store.read(CountWaitingRuns(job_id=JobId(1))) == 1

    await until(one_waits)
    await send("/cron pause 1")
    harness.model.say("one")
    assert "one" in await harness.texts(3)
    await until(lambda: len(harness.gateway.job_executor.running) == 0)
    await harness.gateway.scheduler.run_once()
    assert await one_waits()
    harness.model.say("two")
    await send("/cron resume 1")
    assert [run.text for run in await finished_runs(harness, until, 2)] == ["one", "two"]


async def test_a_skipped_missed_run_does_not_replace_the_running_one(
    harness: GatewayHarness, send: SendCommand, until: Until
) -> None:
    """J4: a run is stopped only for one that starts."""
    await send('/cron add "every hour" overlap=replace missed=skip look')
    advance(harness, HOUR)
    await harness.model.wait_for_request(1)
    advance(harness, HOUR + 5 * MINUTE)
    await until(lambda: has_skipped(harness, 1))
    harness.model.say("looked")
    first, second = await finished_runs(harness, until, 2)
    assert (first.state, second.state) == (RunState.ANSWERED, RunState.SKIPPED)


async def test_a_run_that_ends_before_it_is_tracked_is_over(
    harness: GatewayHarness,
) -> None:
    """J4, C1: an end that comes before the tracking has begun is noticed."""
    accepted = await harness.accept("work")
    run = RunRequest(id="7.now", job_id=JobId(7), name="a job", due_at=int(MONDAY))
    row = msgspec.structs.replace(
        accepted.row, inbound=msgspec.structs.replace(accepted.row.inbound, run=run)
    )
    gateway = harness.gateway
    gateway.job_executor._follow(row)
    gateway.subscriptions.end(MessageEnded(row.id, InboxState.ANSWERED, "done", None, None))
    await asyncio.wait_for(wait_for_no_run(harness), 30)
    assert not harness.gateway.failed.is_set()


async def wait_for_no_run(harness: GatewayHarness) -> None:
    while len(harness.gateway.job_executor.running):
        await asyncio.sleep(0)

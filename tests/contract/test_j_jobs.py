"""J4: jobs. A run is a row before it starts, and enters through a lane like everything."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest
from tests.contract.conftest import Call, HeldClock, Until, World

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
from holdfast.core.jobs.schedule import Schedule as When
from holdfast.core.messages.events import MessageEnded
from holdfast.core.messages.inbox import InboxState
from holdfast.core.messages.source import Source
from holdfast.core.messages.transcript import NoteMessage, ToolMessage, UserMessage
from holdfast.core.people.approval import CommandRisk, CommandVerdict
from holdfast.core.turns.model import ModelFailed, ModelFault, ToolSchema
from holdfast.core.turns.tool import Arguments, Danger, ReplayClass, ToolContext, ToolOutput
from holdfast.gateway.jobs.turn_jobs import TurnJobs
from holdfast.tools.schedule import ScheduleTool

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


class Shell:
    """A tool that runs commands, as far as permission goes."""

    schema = ToolSchema(name="shell", description="x", parameters={"type": "object"})
    toolset = "test"
    replay = ReplayClass.NEVER
    danger = Danger.CONFINED

    def command(self, arguments: Arguments) -> str | None:
        return str(arguments["command"])

    async def run(self, context: ToolContext, arguments: Arguments) -> ToolOutput:
        return ToolOutput(text="done")

    async def attach(self, context: ToolContext, arguments: Arguments) -> ToolOutput | None:
        return None


class Wary:
    def judge(self, command: str) -> CommandVerdict:
        return CommandVerdict(level=CommandRisk.DANGEROUS, rule="test", why="It is dangerous.")


def configure(world: World, **jobs: Any) -> None:
    settings = JobSettings(time_zone="UTC", **jobs)
    allowed = PlatformSettings(allow=("ann", "bob"), operators=("olga",))
    world.settings = msgspec.structs.replace(
        world.settings, jobs=settings, platforms={"simulated": allowed}
    )
    world.more_tools = [ScheduleTool()]


def clock(world: World) -> HeldClock:
    assert isinstance(world.clock, HeldClock)
    return world.clock


def passes(world: World, seconds: float) -> None:
    """Time goes on, and the alarm rings."""
    clock(world).at += seconds
    world.gateway.scheduler.wake()


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
    assert (run.state, run.cause, run.text) == (RunState.ANSWERED, RunCause.DUE, "nothing new")
    [asked] = world.model.requests
    assert "scheduled job" in asked.system
    assert [m.text for m in asked.messages if isinstance(m, UserMessage)] == ["Summarise the news"]
    job = await world.store.job(JobId(1))
    assert job is not None and job.next_due == MONDAY + DAY + 9 * HOUR


async def test_a_job_of_its_conversation_knows_what_was_said_there(
    world: World, talk: Talk, until: Until
) -> None:
    """J4: its run is a note in that transcript, and waits behind what the people say."""
    world.model.say("I remember blue")
    await talk("my colour is blue")
    told = await talk('/cron add "in 1 minute" session=here What is my colour?')
    assert told.endswith("Told here, in this conversation.")
    world.model.say("blue, still")
    passes(world, MINUTE)
    assert (await world.texts(3))[-1] == "blue, still"
    [run] = await ended(world, until, 1)
    assert run.session_id == await world.only_session()
    notes = [m for m in await world.transcript(run.session_id) if isinstance(m, NoteMessage)]
    assert "job 1" in notes[0].text and notes[0].text.endswith("\n\nWhat is my colour?")
    assert len(world.model.requests[-1].messages) == 3


async def test_where_answers_are_fetched_a_job_runs_in_its_conversation(
    world: World, until: Until
) -> None:
    """J4: a page sends nothing, so a session of its own would tell nobody."""
    made = await world.end_of(await world.accept('/cron add "in 1 minute" look'))
    assert made.text.endswith("Told here, in this conversation.")
    alone = await world.end_of(await world.accept('/cron add "in 1 minute" session=fresh look'))
    assert "sends nothing" in alone.text
    world.model.say("looked")
    passes(world, MINUTE)
    [run] = await ended(world, until, 1)
    assert run.text == "looked" and run.session_id == await world.only_session()


async def test_a_silent_job_says_nothing_where_there_is_nothing_to_tell(
    world: World, talk: Talk, until: Until
) -> None:
    """J4: what it said is in its history all the same."""
    await talk('/cron add "every 10 minutes" silent=yes Is the disk full?')
    world.model.say("[SILENT]", "It is full!")
    passes(world, 10 * MINUTE)
    [quiet] = await ended(world, until, 1)
    passes(world, 10 * MINUTE)
    assert await world.texts(2) == [(await world.texts(1))[0], "It is full!"]
    assert quiet.text == "[SILENT]" and quiet.state is RunState.ANSWERED
    assert "reply with [SILENT]" in world.model.requests[0].system


async def test_a_run_that_fails_says_which_job_it_was(world: World, talk: Talk) -> None:
    await talk('/cron add "in 1 minute" name=disk silent=yes Is the disk full?')
    world.model.say(ModelFailed("the model is ill", fault=ModelFault.BAD_REQUEST))
    passes(world, MINUTE)
    assert (await world.texts(2))[-1].startswith("Job 1 (disk): This could not be answered: ")


@pytest.mark.parametrize(
    ("missed", "states"),
    [
        ("skip", [RunState.SKIPPED]),
        ("once", [RunState.ANSWERED]),
        ("all", [RunState.ANSWERED] * 3),
    ],
)
async def test_due_times_that_were_missed_follow_the_policy(
    world: World, talk: Talk, until: Until, missed: str, states: list[RunState]
) -> None:
    """J4: three days without a gateway are no run, one, or three in a row."""
    await talk(f'/cron add "every day at 9" missed={missed} look')
    await world.stop()
    clock(world).at += 3 * DAY
    world.model.say("a", "b", "c")
    await world.start()
    runs = await ended(world, until, len(states))
    assert [run.state for run in runs] == states
    assert {run.cause for run in runs} == {RunCause.MISSED}
    assert runs[-1].due_at == MONDAY + 2 * DAY + 9 * HOUR
    job = await world.store.job(JobId(1))
    assert job is not None and job.next_due == MONDAY + 3 * DAY + 9 * HOUR
    told = {"skip": ["3 due times missed"], "once": [""], "all": ["", "", ""]}[missed]
    assert [run.reason for run in runs] == told


async def test_a_due_time_that_is_barely_past_was_not_missed(
    world: World, talk: Talk, until: Until
) -> None:
    """J4: a restart at nine o'clock costs a job that skips nothing."""
    await talk('/cron add "every day at 9" missed=skip look')
    await world.stop()
    clock(world).at += 9 * HOUR + 30
    world.model.say("looked")
    await world.start()
    [run] = await ended(world, until, 1)
    assert (run.state, run.cause) == (RunState.ANSWERED, RunCause.DUE)


async def test_a_clock_that_is_set_back_repeats_nothing(
    world: World, talk: Talk, until: Until
) -> None:
    """J4: what was due has been run; the next is the next."""
    await talk('/cron add "every day at 9" look')
    world.model.say("looked", "again")
    passes(world, 9 * HOUR)
    await ended(world, until, 1)
    passes(world, -2 * HOUR)
    passes(world, 2 * HOUR)
    await world.gateway.scheduler.run_once()
    assert len(await ended(world, until, 1)) == 1
    passes(world, DAY)
    assert len(await ended(world, until, 2)) == 2


async def hold_one(world: World, talk: Talk, overlap: str) -> None:
    """A job whose run is at work, and due again."""
    await talk(f'/cron add "every hour" overlap={overlap} look')
    passes(world, HOUR)
    await world.model.wait_for_request(1)


async def test_a_run_that_is_due_while_another_works_is_skipped(
    world: World, talk: Talk, until: Until
) -> None:
    """J4: overlap `skip`, which is usual."""
    await hold_one(world, talk, "skip")
    passes(world, HOUR)
    await until(lambda: skipped(world, 1))
    world.model.say("looked")
    first, second = await ended(world, until, 2)
    assert (first.state, second.state) == (RunState.ANSWERED, RunState.SKIPPED)
    assert second.reason == "an earlier run was still at work"


async def skipped(world: World, number: int) -> bool:
    runs = await world.store.runs(JobId(1), limit=9)
    return sum(run.state is RunState.SKIPPED for run in runs) == number


async def test_a_run_that_is_due_while_another_works_waits_for_it(
    world: World, talk: Talk, until: Until
) -> None:
    """J4: overlap `queue`; one at a time, in order."""
    await hold_one(world, talk, "queue")
    passes(world, HOUR)
    passes(world, HOUR)

    async def both_wait() -> bool:
        return await world.store.count_waiting_runs(JobId(1)) == 1

    await until(both_wait)
    assert len(world.model.requests) == 1
    world.model.say("one", "two")
    assert [run.text for run in await ended(world, until, 2)] == ["one", "two"]


async def test_a_run_that_is_due_stops_the_one_before_it(
    world: World, talk: Talk, until: Until
) -> None:
    """J4: overlap `replace`."""
    await hold_one(world, talk, "replace")
    passes(world, HOUR)
    await world.model.wait_for_request(2)
    world.model.say("the second")
    first, second = await ended(world, until, 2)
    assert (first.state, second.state) == (RunState.STOPPED, RunState.ANSWERED)
    assert (await world.texts(2))[1:] == ["the second"]


async def test_a_run_that_takes_too_long_is_stopped_and_its_people_told(
    world: World, talk: Talk, until: Until
) -> None:
    """J4: by the job's own limit."""
    await talk('/cron add "in 1 minute" limit=1s look')
    passes(world, MINUTE)
    await world.model.wait_for_request(1)
    [run] = await ended(world, until, 1)
    assert run.state is RunState.FAILED and "longer than 1 seconds" in run.reason
    assert (await world.texts(2))[-1].startswith("Job 1 (look): ")


async def test_a_run_is_stopped_by_its_number(world: World, talk: Talk, until: Until) -> None:
    """J4: as /stop does it, from any chat of its person."""
    await talk('/cron add "in 1 minute" look')
    passes(world, MINUTE)
    await world.model.wait_for_request(1)
    assert await talk("/cron list") == "1. look - in 1 minute, running"
    assert await talk("/cron stop 1", chat="elsewhere") == "Stopped: job 1."
    [run] = await ended(world, until, 1)
    assert run.state is RunState.STOPPED
    assert await talk("/cron stop 1") == "Job 1 is not at work."


async def test_a_run_that_waits_behind_a_turn_is_stopped_alone(
    world: World, talk: Talk, until: Until
) -> None:
    """J4: what the people say before and after it is answered."""
    await talk('/cron add "in 1 minute" session=here look')
    world.say("think")
    await world.model.wait_for_request(1)
    passes(world, MINUTE)
    await until(lambda: 1 in world.gateway.job_executor)
    world.say("/queue and this")
    session = await world.only_session()
    lane = world.gateway.lanes.get(session)
    assert lane is not None
    await until(lambda: lane.queued == 2)
    assert await talk("/cron stop 1", chat="elsewhere") == "Stopped: job 1."
    world.model.say("thought", "and that")
    assert (await world.texts(4))[-2:] == ["thought", "and that"]
    [run] = await ended(world, until, 1)
    assert run.state is RunState.STOPPED


async def test_jobs_are_paused_resumed_run_and_removed(
    world: World, talk: Talk, until: Until
) -> None:
    await talk('/cron add "every day at 9" look')
    assert (await talk("/cron pause 1")).startswith("Paused: job 1 (look).")
    passes(world, 2 * DAY)
    assert await talk("/cron list") == "1. look - every day at 9, paused"
    assert await talk("/cron resume 1") == "Job 1 (look) goes on."
    assert await talk("/cron") == "1. look - every day at 9, next Wed 20 Jan 2027 09:00"
    world.model.say("looked")
    number = len(world.service.ledger().sent)
    await talk("/cron run 1")
    assert set((await world.texts(number + 2))[-2:]) == {
        "Job 1 runs now, as if it were due.",
        "looked",
    }
    [run] = await ended(world, until, 1)
    assert run.cause is RunCause.REQUESTED
    assert (await talk("/cron history 1")).splitlines() == [
        "Job 1 (look), every day at 9 (0 9 * * *, UTC):",
        "Wed 20 Jan 2027 00:00, asked for - answered: looked",
    ]
    assert await talk("/cron rm 1") == "Removed: job 1 (look)."
    assert (await talk("/cron")).startswith("There are no jobs.")
    passes(world, 2 * DAY)
    assert await world.gateway.scheduler.run_once() is None


async def test_what_is_typed_wrong_is_told_with_what_was_understood(
    world: World, talk: Talk
) -> None:
    for said, told in (
        ('add "every weekday att 9" look', "I understood “every weekday”, but not “att 9”."),
        ("add every day at 9 look", "Put the time into quotes."),
        ('add "every day at 9"', "I understood the time “every day at 9”, and then nothing to do."),
        ('add "every day at 9" overlap=wait x', "overlap=wait is not known: overlap is one of"),
        ('add "every day at 9 in Mars/Base" x', "'Mars/Base' is no time zone"),
        ('add "every 10 seconds" x', "“every 10 seconds” is every 10 seconds; a job may be due at"),
        ('add "2020-01-01 09:00" x', "“2020-01-01 09:00” is past."),
        ("pause x", "Say which job, by number, not 'x'"),
        ("pause 7", "There is no job 7."),
        ("remind me", "/cron knows no 'remind'."),
    ):
        assert (await talk(f"/cron {said}")).startswith(told), said
    assert await world.store.jobs(limit=9) == []


async def test_a_job_is_its_persons_and_an_operator_sees_all(world: World, talk: Talk) -> None:
    """Default deny: to others it is not there."""
    await talk('/cron add "every day at 9" look')
    assert (await talk("/cron", user="bob", chat="bobs")).startswith("There are no jobs.")
    for verb in ("pause", "run", "rm", "stop", "history"):
        told = await talk(f"/cron {verb} 1", user="bob", chat="bobs")
        assert told == "There is no job 1."
    assert (await talk("/cron", user="olga", chat="ops")).startswith("1. look")
    assert (await talk("/cron pause 1", user="olga", chat="ops")).startswith("Paused: job 1")


async def test_only_an_operator_has_a_job_speak_elsewhere(
    world: World, talk: Talk, until: Until
) -> None:
    """To the home channel, and to a chat that is named."""
    for to in ("home", "simulated:lobby"):
        told = await talk(f'/cron add "in 1 minute" to={to} look')
        assert told.startswith("Only operators may")
    told = await talk('/cron add "in 1 minute" to=home look', user="olga")
    assert told.startswith("There is no home channel")
    await talk("/sethome", user="olga", chat="the-home")
    await talk('/cron add "in 1 minute" to=home look', user="olga")
    await talk('/cron add "in 2 minutes" to=simulated:lobby look', user="olga")
    await talk('/cron add "in 3 minutes" to=nowhere look', user="olga")
    assert "no place to tell it" in await talk('/cron add "in 1 minute" to=irc:x y', user="olga")
    sent = len(world.service.ledger().sent)
    world.model.say("home", "lobby", "nowhere")
    for number in (1, 2, 3):
        passes(world, MINUTE)
        await ended(world, until, 1, job=number)
    told_to = [(one.outgoing.chat_id, one.outgoing.text) for one in await world.sent(sent + 2)]
    assert told_to[sent:] == [("the-home", "home"), ("lobby", "lobby")]
    assert (await world.store.runs(JobId(3), limit=1))[0].text == "nowhere"


async def test_a_person_has_so_many_jobs_and_no_more(world: World, talk: Talk) -> None:
    await world.stop()
    configure(world, max_per_person=2)
    await world.start()
    for _ in range(2):
        await talk('/cron add "every day at 9" look')
    assert (await talk('/cron add "every day at 9" look')).startswith("You have 2 jobs")
    assert (await talk('/cron add "every day at 9" look', user="bob")).startswith("Job 3")


async def test_a_job_of_somebody_who_may_not_talk_any_more_does_not_run(
    world: World, talk: Talk, until: Until
) -> None:
    """Authorised again with every run."""
    await talk('/cron add "every day at 9" look')
    await world.stop()
    world.settings = msgspec.structs.replace(
        world.settings, platforms={"simulated": PlatformSettings(allow=("bob",))}
    )
    await world.start()
    passes(world, 9 * HOUR)
    [run] = await ended(world, until, 1)
    assert run.state is RunState.SKIPPED and "may not talk" in run.reason
    assert world.model.requests == []


async def test_a_run_that_was_planned_and_not_begun_begins_once_at_the_next_start(
    world: World, talk: Talk, until: Until
) -> None:
    """J4: the row is there before anything of it happens. Also while the gateway stops."""
    await talk('/cron add "in 1 minute" look')
    world.gateway.services.jobs.stop_scheduling()
    clock(world).at += MINUTE
    await world.gateway.scheduler.run_once()
    [run] = await world.store.runs(JobId(1), limit=5)
    assert run.state is RunState.WAITING
    await world.die()
    world.model.say("looked")
    await world.start()
    [run] = await ended(world, until, 1)
    assert (run.state, run.text) == (RunState.ANSWERED, "looked")
    assert len(world.model.requests) == 1


async def test_a_run_that_is_cut_goes_on_and_is_followed_to_its_end(
    world: World, talk: Talk, until: Until
) -> None:
    """J4, H3: a crash in the middle of it costs nothing, and what waits behind it begins then."""
    await talk('/cron add "every hour" overlap=queue look')
    passes(world, HOUR)
    await world.model.wait_for_request(1)
    await world.die()
    clock(world).at += HOUR
    await world.start()
    await world.model.wait_for_request(2)
    await world.gateway.scheduler.run_once()
    assert await world.store.count_waiting_runs(JobId(1)) == 1
    assert len(world.gateway.job_executor) == 1 and len(world.model.requests) == 2
    world.model.say("one", "one", "two")
    runs = await ended(world, until, 2)
    assert [run.state for run in runs] == [RunState.ANSWERED] * 2
    assert len(await world.texts(3)) == 3


async def test_so_many_runs_are_at_work_and_the_others_wait(
    world: World, talk: Talk, until: Until
) -> None:
    """A thousand jobs of nine o'clock do not ask the model a thousand times at once."""
    await world.stop()
    configure(world, parallel=2)
    await world.start()
    for _ in range(4):
        await talk('/cron add "every day at 9" look')
    passes(world, 9 * HOUR)
    await world.model.wait_for_request(2)
    await world.gateway.scheduler.run_once()
    assert len(world.model.requests) == 2
    world.model.say("a", "b", "c", "d")
    for number in (1, 2, 3, 4):
        await ended(world, until, 1, job=number)
    assert len(world.model.requests) == 4


async def test_the_schedule_tool_has_jobs_for_the_person_it_works_for(
    world: World, talk: Talk, until: Until, call: Call
) -> None:
    """J4: they are the person's: listed, and removed by them."""
    world.model.say(
        [call("schedule", '{"action": "add", "when": "in 1 hour", "task": "look"}')],
        [call("schedule", '{"action": "list"}')],
        [call("schedule", '{"action": "add", "when": "someday", "task": "x"}')],
        [call("schedule", '{"action": "remove"}')],
        "it is planned",
    )
    assert await talk("remind me") == "it is planned"
    transcript = await world.transcript(await world.only_session())
    made, listed, bad, which = [m.text for m in transcript if isinstance(m, ToolMessage)]
    assert made.startswith("Job 1: in 1 hour.")
    assert listed.startswith("1. look - in 1 hour, next")
    assert "I do not understand “someday”" in bad and "needs the id" in which
    assert (await talk("/cron", user="bob", chat="b")).startswith("There are no jobs.")
    world.model.say([call("schedule", '{"action": "add", "when": "in 1 hour", "task": "y"}')], "ok")
    passes(world, HOUR)
    assert (await world.texts(3))[-1] == "ok"
    [run] = await ended(world, until, 1)
    assert run.session_id is not None
    [refused] = [
        m.text for m in await world.transcript(run.session_id) if isinstance(m, ToolMessage)
    ]
    assert "makes no jobs" in refused
    assert await talk("/cron rm 1") == "Removed: job 1 (look)."


async def test_a_call_whose_outcome_was_lost_has_one_job(
    world: World, until: Until, call: Call
) -> None:
    """H2: made again by the next process, it finds the job it has."""
    wanted = call("schedule", '{"action": "add", "when": "every day at 9", "task": "look"}')
    pull = call(ReplayClass.SAFE)
    world.levers[ReplayClass.SAFE].go.clear()
    world.model.say([wanted, pull])
    world.say("plan it")
    await world.levers[ReplayClass.SAFE].was_pulled(1)
    jobs = world.gateway.services.jobs
    [made] = await world.store.jobs(limit=9)
    row = await world.store.inbox_row(InboxId(1))
    assert row is not None and row.session_id is not None
    again = TurnJobs(jobs, row, row.session_id, store=world.store, clock=world.clock)
    call_id = (await world.transcript(row.session_id))[1].calls[0].id  # type: ignore[union-attr]
    told = await again.add(call_id, JobRequest(when="every day at 9", text="look"))
    assert told.startswith(f"Job {made.id}:")
    assert len(await world.store.jobs(limit=9)) == 1
    world.levers[ReplayClass.SAFE].go.set()
    world.model.say("done")


async def test_people_are_asked_where_the_job_was_made(
    world: World, talk: Talk, until: Until, call: Call
) -> None:
    """J3, J4: what a run must not do alone is asked in the chat, and answered there."""
    await world.stop()
    world.more_tools.append(Shell())
    world.judge = Wary()
    await world.start()
    world.model.say("hello")
    await talk("hello")
    await talk('/cron add "in 1 minute" tidy up')
    world.model.say([call("shell", '{"command": "tidy"}')], "tidied")
    passes(world, MINUTE)
    assert "tidy" in (await world.texts(3))[-1]
    await talk("/approve")
    assert (await world.texts(5))[-1] == "tidied"
    await ended(world, until, 1)


async def test_old_runs_are_forgotten_with_the_messages_and_so_are_jobs_that_are_over(
    world: World, talk: Talk, until: Until
) -> None:
    await talk('/cron add "in 1 minute" once')
    await talk('/cron add "every day at 9" look')
    world.model.say("a", "b")
    passes(world, MINUTE)
    await ended(world, until, 1)
    passes(world, 9 * HOUR)
    await ended(world, until, 1, job=2)
    assert await world.store.prune_runs(before=MONDAY) == 0
    assert await world.store.prune_runs(before=MONDAY + DAY) == 2
    assert [job.id for job in await world.store.jobs(limit=9)] == [2]
    assert await world.store.runs(JobId(2), limit=9) == []


async def test_thousands_of_jobs_cost_a_look_nothing(world: World) -> None:
    """The next due time is found by its index, however many jobs there are."""
    source = Source(platform="api", chat_id="jobs", user_id="owner")
    spec = JobSpec(
        name="n", text="t", schedule=When(text="w", cron="0 9 * * *", zone="UTC"), source=source
    )
    adding = [
        world.store.add_job(
            NewJob(
                key=f"k{n}",
                principal=PrincipalId(f"p{n}"),
                spec=spec,
                next_due=int(MONDAY) + 9 * HOUR + n,
                at=MONDAY,
            ),
            limit=1,
        )
        for n in range(2_000)
    ]
    await asyncio.gather(*adding)
    assert (await world.store.workload()).jobs == 2_000
    assert await world.gateway.scheduler.run_once() == MONDAY + 9 * HOUR
    db = apsw.Connection(str(world.path), flags=apsw.SQLITE_OPEN_READONLY)
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
    world: World, talk: Talk, until: Until
) -> None:
    """G5: the run that it was meant for was cut, and goes on."""
    await talk('/cron add "in 1 minute" look')
    passes(world, MINUTE)
    await world.model.wait_for_request(1)
    world.gateway.intake.close()
    row = await world.store.inbox_row(InboxId(1))
    assert row is not None
    typed = msgspec.structs.replace(row.inbound, event_id="late", text="/cron stop 1")
    await world.store.accept(typed, route=row.route, principal=row.principal, at=world.clock.now())
    await world.die()
    clock(world).at -= MINUTE  # set back meanwhile: it is not told by the time of day
    await world.start()
    world.model.say("looked", "looked")
    [run] = await ended(world, until, 1)
    assert run.state is RunState.ANSWERED
    assert any("before the gateway was started again" in text for text in await world.texts(3))


async def test_what_waits_of_a_paused_job_waits_until_it_goes_on(
    world: World, talk: Talk, until: Until
) -> None:
    await hold_one(world, talk, "queue")
    passes(world, HOUR)

    async def one_waits() -> bool:
        return await world.store.count_waiting_runs(JobId(1)) == 1

    await until(one_waits)
    await talk("/cron pause 1")
    world.model.say("one")
    assert "one" in await world.texts(3)
    await until(lambda: len(world.gateway.job_executor) == 0)
    await world.gateway.scheduler.run_once()
    assert await one_waits()
    world.model.say("two")
    await talk("/cron resume 1")
    assert [run.text for run in await ended(world, until, 2)] == ["one", "two"]


async def test_what_was_missed_and_is_skipped_replaces_nothing(
    world: World, talk: Talk, until: Until
) -> None:
    """J4: a run at work is stopped for one that begins, and for nothing else."""
    await talk('/cron add "every hour" overlap=replace missed=skip look')
    passes(world, HOUR)
    await world.model.wait_for_request(1)
    passes(world, HOUR + 5 * MINUTE)
    await until(lambda: skipped(world, 1))
    world.model.say("looked")
    first, second = await ended(world, until, 2)
    assert (first.state, second.state) == (RunState.ANSWERED, RunState.SKIPPED)


async def test_a_run_that_ends_in_the_instant_in_which_it_is_followed_is_over(world: World) -> None:
    """J4, C1: whoever follows it hears of an end that comes before the following has begun."""
    accepted = await world.accept("work")
    run = RunRequest(id="7.now", job_id=JobId(7), name="a job", due_at=int(MONDAY))
    row = msgspec.structs.replace(
        accepted.row, inbound=msgspec.structs.replace(accepted.row.inbound, run=run)
    )
    gateway = world.gateway
    gateway.job_executor._follow(row)
    gateway.services.subscriptions.end(
        MessageEnded(row.id, InboxState.ANSWERED, "done", None, None)
    )
    await asyncio.wait_for(_no_run(world), 30)
    assert not world.running.failed.is_set()


async def _no_run(world: World) -> None:
    while len(world.gateway.job_executor):
        await asyncio.sleep(0)

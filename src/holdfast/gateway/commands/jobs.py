"""/cron: what is to be done at certain times, listed, added, changed, run and looked back at."""

from collections.abc import Awaitable, Callable

from holdfast.core.errors import StoreError
from holdfast.core.jobs.job import ChangeKind, Job, JobRefused
from holdfast.core.jobs.schedule import BadSchedule
from holdfast.core.people.commands import BY_NAME
from holdfast.core.sessions.worded import WordedJob, WordedSkip
from holdfast.gateway.commands.command import Asked
from holdfast.gateway.commands.reply import answer, answer_with
from holdfast.gateway.jobs import job_lines
from holdfast.gateway.jobs.destinations import Person
from holdfast.gateway.jobs.jobs import STOPPED, Jobs
from holdfast.gateway.jobs.scheduling import person_of
from holdfast.gateway.services import House

_SHOWN = 10  # runs of a history
_CHANGES = {
    "pause": (ChangeKind.PAUSE, "Paused: job {id} ({name}). /cron resume {id} goes on with it."),
    "resume": (ChangeKind.RESUME, "Job {id} ({name}) goes on."),
    "rm": (ChangeKind.REMOVE, "Removed: job {id} ({name})."),
    "remove": (ChangeKind.REMOVE, "Removed: job {id} ({name})."),
}

Verb = Callable[[Person, int, Asked], Awaitable[None]]


class Cron:
    """What it does for a person commits with its answer."""

    name = "cron"

    def __init__(self, house: House) -> None:
        self._house = house
        self._verbs: dict[str, Verb] = {
            "run": self._run,
            "stop": self._stop,
            "history": self._history,
        }

    @property
    def _jobs(self) -> Jobs:
        return self._house.jobs

    async def begin(self, asked: Asked) -> None:
        verb, _, rest = asked.argument.partition(" ")
        verb, rest = verb.lower() or "list", rest.strip()
        person = person_of(asked.row, self._jobs)
        try:
            await self._carry_out(person, verb, rest, asked)
        except StoreError:
            raise
        except (JobRefused, BadSchedule) as error:
            await answer(self._house, asked.row, str(error))

    async def _carry_out(self, person: Person, verb: str, rest: str, asked: Asked) -> None:
        if verb == "list":
            await self._list(person, asked)
        elif verb == "add":
            await self._add(person, rest, asked)
        elif verb in _CHANGES:
            await self._change(person, verb, _number(rest), asked)
        elif verb in self._verbs:
            await self._verbs[verb](person, _number(rest), asked)
        else:
            wrong = BY_NAME[self.name].misused(f"/cron knows no {verb!r}.")
            await answer(self._house, asked.row, wrong)

    async def _list(self, person: Person, asked: Asked) -> None:
        jobs = await self._jobs.listed(person)
        lines = [*job_lines.listed(jobs, busy=self._jobs.busy)]
        none = 'There are no jobs. /cron add "every weekday at 9" TEXT has one.'
        await answer(self._house, asked.row, "\n".join(lines) or none)

    async def _add(self, person: Person, rest: str, asked: Asked) -> None:
        from holdfast.core.jobs.job_words import parse_job  # noqa: PLC0415 - most gateways have no job

        jobs, now = self._jobs, self._house.clock.now()
        new = jobs.to_add(parse_job(rest), person, key=f"command.{asked.row.id}")

        def told(job: Job | None) -> str:
            return jobs.full if job is None else job_lines.made(job, now=now)

        worded = WordedJob(new=new, most=jobs.most, told=told)
        await answer_with(self._house, asked.row, new_job=worded)
        jobs.stirred()

    async def _change(self, person: Person, verb: str, number: int, asked: Asked) -> None:
        kind, done = _CHANGES[verb]
        job, change = await self._jobs.change(number, kind, person)
        text = done.format(id=job.id, name=job.spec.name)
        await answer(self._house, asked.row, text, job=change)
        self._jobs.stirred()

    async def _run(self, person: Person, number: int, asked: Asked) -> None:
        plan, replaces = await self._jobs.to_run(number, person, key=f"asked{asked.row.id}")
        text = f"Job {number} runs now, as if it were due."
        await answer(self._house, asked.row, text, runs=plan)
        await self._jobs.planned(plan, replaces=replaces)

    async def _stop(self, person: Person, number: int, asked: Asked) -> None:
        if asked.late:
            # G5: what it was to stop died with the process it was typed to, and goes on since.
            text = f"This was said before the gateway was started again. /cron stop {number}?"
            await answer(self._house, asked.row, text)
            return
        job = await self._jobs.find(number, person)
        stopped = await self._jobs.stop_work(job.id)

        def told(dropped: int) -> str:
            at_work = stopped or dropped > 0
            return f"Stopped: job {number}." if at_work else f"Job {number} is not at work."

        skip = WordedSkip(job_id=job.id, why=STOPPED, told=told)
        await answer_with(self._house, asked.row, skip=skip)
        # One that waited may have begun in the place of what was stopped, before the commit.
        await self._jobs.stop_work(job.id)

    async def _history(self, person: Person, number: int, asked: Asked) -> None:
        job = await self._jobs.find(number, person)
        runs = await self._jobs.history(number, person, limit=_SHOWN)
        lines = [*job_lines.history(runs, job)] or ["It has not run yet."]
        head = f"Job {job.id} ({job.spec.name}), {job.spec.schedule.told}:"
        await answer(self._house, asked.row, "\n".join([head, *lines]))


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise JobRefused(f"Say which job, by number{f', not {text!r}' if text else ''}: /cron list")
    return int(text)

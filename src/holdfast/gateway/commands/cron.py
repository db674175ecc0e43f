"""/cron: what is to be done at certain times, listed, added, changed, run and looked back at."""

from collections.abc import Awaitable, Callable

from holdfast.core.commands import BY_NAME
from holdfast.core.errors import StoreError
from holdfast.core.job import ChangeKind, JobRefused
from holdfast.core.schedule import BadSchedule
from holdfast.gateway import job_lines
from holdfast.gateway.commands.answer import answer
from holdfast.gateway.commands.command import Asked
from holdfast.gateway.destinations import Person
from holdfast.gateway.house import House
from holdfast.gateway.jobs import Jobs
from holdfast.gateway.scheduling import person_of

_SHOWN = 10  # runs of a history
_CHANGES = {
    "pause": (ChangeKind.PAUSE, "Paused: job {id} ({name}). /cron resume {id} goes on with it."),
    "resume": (ChangeKind.RESUME, "Job {id} ({name}) goes on."),
    "rm": (ChangeKind.REMOVE, "Removed: job {id} ({name})."),
    "remove": (ChangeKind.REMOVE, "Removed: job {id} ({name})."),
}

Verb = Callable[[Person, int, Asked], Awaitable[str]]


class Cron:
    """What it does for a person commits with its answer, or counts once by the command's own
    row: carried out again after a crash, it finds what it has done."""

    name = "cron"

    def __init__(self, house: House) -> None:
        self._house = house
        self._began = house.clock.now()
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
            if verb in _CHANGES:
                await self._change(person, verb, _number(rest), asked)
            else:
                text = await self._text(person, verb, rest, asked)
                await answer(self._house, asked.row, text)
        except StoreError:
            raise
        except (JobRefused, BadSchedule) as error:
            await answer(self._house, asked.row, str(error))

    async def _text(self, person: Person, verb: str, rest: str, asked: Asked) -> str:
        if verb == "list":
            return await self._list(person)
        if verb == "add":
            return await self._add(person, rest, asked)
        if verb not in self._verbs:
            return BY_NAME[self.name].misused(f"/cron knows no {verb!r}.")
        return await self._verbs[verb](person, _number(rest), asked)

    async def _list(self, person: Person) -> str:
        jobs = await self._jobs.listed(person)
        lines = [*job_lines.listed(jobs, busy=self._jobs.busy)]
        return "\n".join(lines) or 'There are no jobs. /cron add "every weekday at 9" TEXT has one.'

    async def _add(self, person: Person, rest: str, asked: Asked) -> str:
        from holdfast.core.job_words import parse_job  # noqa: PLC0415 - most gateways have no job

        job = await self._jobs.add(parse_job(rest), person, key=f"command.{asked.row.id}")
        return job_lines.made(job, now=self._house.clock.now())

    async def _change(self, person: Person, verb: str, number: int, asked: Asked) -> None:
        kind, done = _CHANGES[verb]
        job, change = await self._jobs.change(number, kind, person)
        text = done.format(id=job.id, name=job.spec.name)
        await answer(self._house, asked.row, text, job=change)
        self._jobs.stirred()

    async def _run(self, person: Person, number: int, asked: Asked) -> str:
        await self._jobs.run_now(number, person, key=f"asked{asked.row.id}")
        return f"Job {number} runs now, as if it were due."

    async def _stop(self, person: Person, number: int, asked: Asked) -> str:
        if asked.row.accepted_at < self._began:
            # G5: what it was to stop died with the process it was typed to, and goes on since.
            return f"This was said before the gateway was started again. /cron stop {number}?"
        stopped = await self._jobs.stop_run(number, person)
        return f"Stopped: job {number}." if stopped else f"Job {number} is not at work."

    async def _history(self, person: Person, number: int, asked: Asked) -> str:
        job = await self._jobs.find(number, person)
        runs = await self._jobs.history(number, person, limit=_SHOWN)
        lines = [*job_lines.history(runs, job)] or ["It has not run yet."]
        return "\n".join([f"Job {job.id} ({job.spec.name}), {job.spec.schedule.told}:", *lines])


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise JobRefused(f"Say which job, by number{f', not {text!r}' if text else ''}: /cron list")
    return int(text)

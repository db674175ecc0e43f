"""/cron: jobs listed, added, changed, run and looked back at."""

from collections.abc import Awaitable, Callable

from holdfast.core.commands import COMMANDS_BY_NAME
from holdfast.core.errors import StoreError
from holdfast.core.jobs.job import Job, JobChangeKind, JobRefused
from holdfast.core.jobs.schedule import InvalidSchedule
from holdfast.core.sessions.session import NewJobWithReply, SkipRunsWithReply
from holdfast.gateway.commands.command import CommandRequest
from holdfast.gateway.commands.reply import send_effect_reply, send_reply
from holdfast.gateway.jobs import turn_jobs
from holdfast.gateway.jobs.service import STOPPED_BEFORE_START, JobRequester, JobService
from holdfast.gateway.jobs.turn_jobs import requester_of
from holdfast.gateway.services import Services

_MAX_RUNS = 10  # runs of a history
_CHANGES = {
    "pause": (JobChangeKind.PAUSE, "Paused: job {id} ({name}). /cron resume {id} goes on with it."),
    "resume": (JobChangeKind.RESUME, "Job {id} ({name}) goes on."),
    "rm": (JobChangeKind.REMOVE, "Removed: job {id} ({name})."),
    "remove": (JobChangeKind.REMOVE, "Removed: job {id} ({name})."),
}

Verb = Callable[[JobRequester, int, CommandRequest], Awaitable[None]]


class CronCommand:
    """What it does for a person commits with its answer."""

    name = "cron"

    def __init__(self, services: Services) -> None:
        self._services = services
        self._verbs: dict[str, Verb] = {
            "run": self._run,
            "stop": self._stop,
            "history": self._history,
        }

    @property
    def _jobs(self) -> JobService:
        return self._services.jobs

    async def begin(self, request: CommandRequest) -> None:
        verb, _, rest = request.argument.partition(" ")
        verb, rest = verb.lower() or "list", rest.strip()
        person = requester_of(request.row, self._jobs)
        try:
            await self._run_verb(person, verb, rest, request)
        except StoreError:
            raise
        except (JobRefused, InvalidSchedule) as error:
            await send_reply(self._services, request.row, str(error))

    async def _run_verb(
        self, requester: JobRequester, verb: str, rest: str, request: CommandRequest
    ) -> None:
        if verb == "list":
            await self._list(requester, request)
        elif verb == "add":
            await self._add(requester, rest, request)
        elif verb in _CHANGES:
            await self._change(requester, verb, _job_number(rest), request)
        elif verb in self._verbs:
            await self._verbs[verb](requester, _job_number(rest), request)
        else:
            wrong = COMMANDS_BY_NAME[self.name].usage_error(f"/cron knows no {verb!r}.")
            await send_reply(self._services, request.row, wrong)

    async def _list(self, requester: JobRequester, request: CommandRequest) -> None:
        jobs = await self._jobs.list_jobs(requester)
        lines = [*turn_jobs.job_lines(jobs, busy=self._jobs.running.ids)]
        none = 'There are no jobs. /cron add "every weekday at 9" TEXT has one.'
        await send_reply(self._services, request.row, "\n".join(lines) or none)

    async def _add(self, requester: JobRequester, rest: str, request: CommandRequest) -> None:
        from holdfast.core.jobs.parser import parse_job  # noqa: PLC0415 - most gateways have no job

        jobs, now = self._jobs, self._services.clock.now()
        new = jobs.prepare_add(parse_job(rest), requester, key=f"command.{request.row.id}")

        def reply_text(job: Job | None) -> str:
            return jobs.limit_text if job is None else turn_jobs.job_created_text(job, now=now)

        new_job = NewJobWithReply(new=new, limit=jobs.max_per_person, reply=reply_text)
        await send_effect_reply(self._services, request.row, new_job=new_job)

    async def _change(
        self, requester: JobRequester, verb: str, number: int, request: CommandRequest
    ) -> None:
        kind, done = _CHANGES[verb]
        job, change = await self._jobs.prepare_change(number, kind, requester)
        text = done.format(id=job.id, name=job.spec.name)
        await send_reply(self._services, request.row, text, job=change)

    async def _run(self, requester: JobRequester, number: int, request: CommandRequest) -> None:
        plan, replaces = await self._jobs.prepare_run(
            number, requester, key=f"asked{request.row.id}"
        )
        text = f"Job {number} runs now, as if it were due."
        await send_reply(self._services, request.row, text, runs=plan)
        await self._jobs.on_planned(plan, replaces=replaces)

    async def _stop(self, requester: JobRequester, number: int, request: CommandRequest) -> None:
        if request.late:
            # G5: what it was to stop died with the process it was typed to, and goes on since.
            text = f"This was said before the gateway was started again. /cron stop {number}?"
            await send_reply(self._services, request.row, text)
            return
        job = await self._jobs.find(number, requester)
        stopped = await self._jobs.running.stop(job.id)

        def reply_text(dropped: int) -> str:
            at_work = stopped or dropped > 0
            return f"Stopped: job {number}." if at_work else f"Job {number} is not at work."

        skip = SkipRunsWithReply(job_id=job.id, why=STOPPED_BEFORE_START, reply=reply_text)
        await send_effect_reply(self._services, request.row, skip_runs=skip)
        # One that waited may have begun in the place of what was stopped, before the commit.
        await self._jobs.running.stop(job.id)

    async def _history(self, requester: JobRequester, number: int, request: CommandRequest) -> None:
        job = await self._jobs.find(number, requester)
        runs = await self._jobs.history(number, requester, limit=_MAX_RUNS)
        lines = [*turn_jobs.run_lines(runs, job)] or ["It has not run yet."]
        head = f"Job {job.id} ({job.spec.name}), {job.spec.schedule.description}:"
        await send_reply(self._services, request.row, "\n".join([head, *lines]))


def _job_number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise JobRefused(f"Say which job, by number{f', not {text!r}' if text else ''}: /cron list")
    return int(text)

"""/cron: list, add, change, run and stop jobs, and show their history."""

from collections.abc import Awaitable, Callable, Mapping

from holdfast.core.commands import COMMANDS_BY_NAME, CommandRequest
from holdfast.core.errors import StoreError
from holdfast.core.jobs.job import Job, JobChangeKind, JobRefused
from holdfast.core.jobs.schedule import InvalidSchedule
from holdfast.core.sessions.session import NewJobWithReply, SkipRunsWithReply
from holdfast.core.text.translation import N_, _
from holdfast.gateway.commands.context import JobContext
from holdfast.gateway.commands.reply import in_this_language, send_effect_reply, send_reply
from holdfast.gateway.jobs import turn_jobs
from holdfast.gateway.jobs.service import STOPPED_BEFORE_START, JobRequester

_MAX_RUNS = 10  # runs of a history
_CHANGES = {
    "pause": (
        JobChangeKind.PAUSE,
        N_("Paused: job {id} ({name}). /cron resume {id} continues it."),
    ),
    "resume": (JobChangeKind.RESUME, N_("Resumed: job {id} ({name}).")),
    "rm": (JobChangeKind.REMOVE, N_("Removed: job {id} ({name}).")),
    "remove": (JobChangeKind.REMOVE, N_("Removed: job {id} ({name}).")),
}

Verb = Callable[[JobContext, CommandRequest, JobRequester, int], Awaitable[None]]


async def cmd_cron(context: JobContext, request: CommandRequest) -> None:
    """List, add, change, run or stop jobs. The change commits with the reply."""
    verb, _space, rest = request.argument.partition(" ")
    verb, rest = verb.lower() or "list", rest.strip()
    requester = turn_jobs.requester_of(request.row, context.jobs)
    try:
        if verb == "list":
            await _list_jobs(context, request, requester)
        elif verb == "add":
            await _add_job(context, request, requester, rest)
        elif verb in _CHANGES:
            await _change_job(context, request, requester, verb, _job_number(rest))
        elif verb in _VERBS:
            await _VERBS[verb](context, request, requester, _job_number(rest))
        else:
            wrong = COMMANDS_BY_NAME["cron"].unknown_argument(verb)
            await send_reply(context.replies, request.row, wrong)
    except StoreError:
        raise
    except (JobRefused, InvalidSchedule) as error:
        await send_reply(context.replies, request.row, error.for_person())


async def _list_jobs(context: JobContext, request: CommandRequest, requester: JobRequester) -> None:
    jobs, last_runs = await context.jobs.list_jobs(requester)
    lines = [*turn_jobs.job_lines(jobs, last_runs, busy=context.jobs.running.ids)]
    none = _("There are no jobs. Add one with: {command}").format(
        command='/cron add "every weekday at 9" TEXT'
    )
    await send_reply(context.replies, request.row, "\n".join(lines) or none)


async def _add_job(
    context: JobContext, request: CommandRequest, requester: JobRequester, rest: str
) -> None:
    from holdfast.core.jobs.parser import parse_job  # noqa: PLC0415 - most gateways have no job

    jobs, now = context.jobs, context.clock.now()
    new = jobs.prepare_add(parse_job(rest), requester, key=f"command.{request.row.id}")

    def reply_text(job: Job | None) -> str:
        if job is None:
            return jobs.limit_reached().for_person()
        return turn_jobs.job_created_text(job, now=now)

    new_job = NewJobWithReply(
        new=new, limit=jobs.max_per_person, reply=in_this_language(reply_text)
    )
    await send_effect_reply(context.replies, request.row, new_job=new_job)


async def _change_job(
    context: JobContext, request: CommandRequest, requester: JobRequester, verb: str, number: int
) -> None:
    kind, done = _CHANGES[verb]
    job, change = await context.jobs.prepare_change(number, kind, requester)
    text = _(done).format(id=job.id, name=job.spec.name)
    await send_reply(context.replies, request.row, text, job=change)


async def _run_job(
    context: JobContext, request: CommandRequest, requester: JobRequester, number: int
) -> None:
    plan = await context.jobs.prepare_run(number, requester, key=f"asked{request.row.id}")
    text = _("Job {number} runs now, as if it were due.").format(number=number)
    await send_reply(context.replies, request.row, text, runs=plan)


async def _stop_job(
    context: JobContext, request: CommandRequest, requester: JobRequester, number: int
) -> None:
    if request.late:
        # G5: the run that it was to stop has been resumed since, or is another one.
        text = _(
            "Not stopped: the gateway restarted after you sent this. Send {command} again if you "
            "still want it."
        ).format(command=f"/cron stop {number}")
        await send_reply(context.replies, request.row, text)
        return
    job = await context.jobs.find(number, requester)
    # Before the commit of the reply, so that no crash leaves a reply about a run that goes on.
    stopped = await context.executor.stop(job.id)

    def reply_text(dropped: int) -> str:
        if stopped or dropped > 0:
            return _("Stopped: job {number}.").format(number=number)
        return _("Job {number} is not running.").format(number=number)

    skip = SkipRunsWithReply(
        job_id=job.id,
        principal=job.principal,
        why=STOPPED_BEFORE_START,
        reply=in_this_language(reply_text),
    )
    await send_effect_reply(context.replies, request.row, skip_runs=skip)


async def _show_history(
    context: JobContext, request: CommandRequest, requester: JobRequester, number: int
) -> None:
    job = await context.jobs.find(number, requester)
    runs = await context.jobs.history(number, requester, limit=_MAX_RUNS)
    lines = [*turn_jobs.run_lines(runs, job)] or [_("It has not run yet.")]
    head = _("Job {id} ({name}), {schedule}:").format(
        id=job.id, name=job.spec.name, schedule=job.spec.schedule.description
    )
    await send_reply(context.replies, request.row, "\n".join([head, *lines]))


_VERBS: Mapping[str, Verb] = {"run": _run_job, "stop": _stop_job, "history": _show_history}


def _job_number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise JobRefused("Which job? Give its number, as /cron list shows it.")
    return int(text)

"""`holdfast jobs`: creates, shows, changes and runs scheduled jobs."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import click
import msgspec

from holdfast.cli.common.connection import api_client_for, query_api
from holdfast.cli.common.language import state_text
from holdfast.cli.common.options import chosen_home, complete_job, home_option
from holdfast.cli.common.output import (
    json_option,
    one_line,
    print_fields,
    print_json,
    print_table,
    sanitize,
)
from holdfast.core.errors import HoldfastError
from holdfast.core.text.locale_format import format_duration, format_time
from holdfast.core.text.translation import _
from holdfast.server.api.client import ApiClient
from holdfast.server.api.views.jobs import JobList, JobPausePatch, JobRunView, JobView
from holdfast.server.api.views.sessions import StopResult
from holdfast.server.local.control_client import GatewayRefused

_job_argument = click.argument(
    "number", metavar="N", type=click.IntRange(1, 999_999_999), shell_complete=complete_job
)
_MISSED = click.Choice(["skip", "once", "all"])
_OVERLAP = click.Choice(["skip", "queue", "replace"])


@click.group("jobs")
@home_option
def command() -> None:
    """Schedule tasks for agents, once or regularly, and see the results.

    \b
    Examples:
      holdfast jobs add "every weekday at 9" "Summarise the news"
      holdfast jobs add "in 2 hours" "Check whether the backup is done" --to telegram:12345
      holdfast jobs edit 1 --when "every weekday at 8"
      holdfast jobs history 1

    Without a running gateway, jobs can be listed but not changed.
    """


@command.command("add", short_help="Schedule TEXT as a task for WHEN.")
@home_option
@json_option
@click.argument("when")
@click.argument("text")
@click.option("--name", default="", help="Name of the job; default: the beginning of TEXT.")
@click.option("--zone", default="", help="Time zone of WHEN, for example Europe/Berlin.")
@click.option(
    "--to",
    default="",
    metavar="TARGET",
    help="Where the answer goes: home, nowhere or PLATFORM:CHAT.  [default: home, if there is one]",
)
@click.option("--silent", is_flag=True, help="Send nothing if there is nothing to report.")
@click.option(
    "--missed",
    type=_MISSED,
    default="once",
    show_default=True,
    help="What to do about runs that were due while no gateway ran.",
)
@click.option(
    "--overlap",
    type=_OVERLAP,
    default="skip",
    show_default=True,
    help="What to do about a run that is due while another one runs.",
)
@click.option("--limit", type=click.FloatRange(0), help="Seconds that a run may take; 0: no limit.")
def add(as_json: bool, **given: object) -> None:
    """Schedule TEXT as a task for an agent.

    WHEN is, for example, "every weekday at 9", "in 2 hours" or "2026-12-01 09:00", or a cron
    expression.
    """
    create_job(api_client_for(chosen_home()), given, as_json=as_json)


@command.command("edit", short_help="Change a job.")
@home_option
@json_option
@_job_argument
@click.option("--when", help="New schedule, as for `add`; in the time zone of the job.")
@click.option("--text", help="What the agent does.")
@click.option("--name", help='Name of the job; "": the beginning of its text.')
@click.option("--zone", help="Time zone of --when, for example Europe/Berlin.")
@click.option(
    "--to", metavar="TARGET", help="Where the answer goes: home, nowhere or PLATFORM:CHAT."
)
@click.option(
    "--silent/--not-silent", default=None, help="Send nothing if there is nothing to report."
)
@click.option(
    "--missed", type=_MISSED, help="What to do about runs that were due while no gateway ran."
)
@click.option(
    "--overlap", type=_OVERLAP, help="What to do about a run that is due while another one runs."
)
@click.option("--limit", type=click.FloatRange(0), help="Seconds that a run may take; 0: no limit.")
def edit(number: int, as_json: bool, **given: object) -> None:
    """Change a job. It keeps its number and its history.

    \b
      holdfast jobs edit 1 --when "every weekday at 8"
      holdfast jobs edit 1 --text "Summarise the news in five lines" --not-silent

    Options that are not given stay as they are. A run that has started is not affected.
    """
    edit_job(api_client_for(chosen_home()), number, given, as_json=as_json)


@command.command("list")
@home_option
@json_option
def list_jobs(as_json: bool) -> None:
    """List the jobs of all users."""
    print_jobs(chosen_home(), as_json=as_json)


@command.command("show")
@home_option
@json_option
@_job_argument
def show(number: int, as_json: bool) -> None:
    """Show one job with all its settings."""
    print_job(chosen_home(), number, as_json=as_json)


@command.command("history")
@home_option
@json_option
@_job_argument
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True)
def history(number: int, limit: int, as_json: bool) -> None:
    """Show the runs of a job, the newest first."""
    print_runs(chosen_home(), number, limit=limit, as_json=as_json)


@command.command("run")
@home_option
@json_option
@_job_argument
def run(number: int, as_json: bool) -> None:
    """Run a job now, as if it were due."""
    run_job(api_client_for(chosen_home()), number, as_json=as_json)


@command.command("stop")
@home_option
@_job_argument
def stop(number: int) -> None:
    """Stop the current run of a job, and drop the runs that wait."""
    stop_job(api_client_for(chosen_home()), number)


@command.command("pause")
@home_option
@_job_argument
def pause(number: int) -> None:
    """Pause a job until it is resumed."""
    set_paused(api_client_for(chosen_home()), number, paused=True)


@command.command("resume")
@home_option
@_job_argument
def resume(number: int) -> None:
    """Resume a job; runs that were due meanwhile are skipped."""
    set_paused(api_client_for(chosen_home()), number, paused=False)


@command.command("rm")
@home_option
@_job_argument
def remove(number: int) -> None:
    """Remove a job with its history; a run that has started continues to its end."""
    delete_job(api_client_for(chosen_home()), number)


_PURPOSE = "holdfast jobs"
_PAGE_SIZE = 1000
_MAX_TEXT_WIDTH = 60
_NOT_FOUND = 404


def create_job(api: ApiClient, options: Mapping[str, object], *, as_json: bool) -> None:
    _require_nonempty(options, when="WHEN", text="TEXT")
    changes = {name: value for name, value in options.items() if value is not None}
    job = api.post("/jobs", changes, JobView)  # it checks the job and says what is wrong
    if as_json:
        print_json(msgspec.to_builtins(job))
        return
    click.echo(
        _("Job {number}: {schedule}. Next: {time}.").format(
            number=job.id, schedule=_schedule_text(job), time=format_time(job.next_due)
        )
    )
    if job.to == "nowhere":
        click.echo(
            _("The result is not sent anywhere: `holdfast jobs history {number}` shows it.").format(
                number=job.id
            )
        )


def print_jobs(home: Path, *, as_json: bool) -> None:
    jobs = _fetch_jobs(home)
    if as_json:
        print_json(msgspec.to_builtins(jobs))
    elif not jobs:
        click.echo(_('There are no jobs. `holdfast jobs add "every weekday at 9" TEXT` adds one.'))
    else:
        print_table(
            [_("N"), _("NAME"), _("WHEN"), _("NEXT"), _("LAST RUN"), _("TO"), _("OWNER")],
            [
                [
                    str(job.id),
                    sanitize(job.name),
                    sanitize(job.when),
                    _next_run_text(job),
                    _last_run_text(job),
                    job.to,
                    sanitize(job.owner),
                ]
                for job in jobs
            ],
        )


def print_job(home: Path, number: int, *, as_json: bool) -> None:
    job = _fetch_job(home, number)
    if as_json:
        print_json(msgspec.to_builtins(job))
        return
    click.echo(
        click.style(
            _("Job {number}: {name}").format(number=job.id, name=sanitize(job.name)), bold=True
        )
    )
    print_fields(
        [
            (_("when"), _schedule_text(job)),
            (_("next"), _next_run_text(job)),
            (_("last run"), _last_run_details(job)),
            (_("task"), sanitize(job.text)),
            (_("sent to"), _target_text(job)),
            (_("session"), job.session),
            (_("missed"), job.missed),
            (_("overlap"), job.overlap),
            (_("limit"), format_duration(job.limit) if job.limit else _("none")),
            (_("owner"), sanitize(job.owner)),
            (_("created"), format_time(job.made_at)),
        ]
    )


def print_runs(home: Path, number: int, *, limit: int, as_json: bool) -> None:
    runs = _fetch_runs(home, number, limit)
    if as_json:
        print_json(msgspec.to_builtins(runs))
    elif not runs:
        click.echo(_("Job {number} has not run yet.").format(number=number))
    else:
        print_table(
            [_("DUE"), _("STATE"), _("ENDED"), _("SESSION"), _("RESULT")],
            [
                [
                    format_time(run.due_at),
                    state_text(run.state),
                    format_time(run.ended_at),
                    run.session_id or "",
                    one_line(run.text or run.reason, width=_MAX_TEXT_WIDTH),
                ]
                for run in runs
            ],
        )


def run_job(api: ApiClient, number: int, *, as_json: bool) -> None:
    with _explain_missing_job(number):
        run = api.post(f"/jobs/{number}/run", {}, JobRunView)
    if as_json:
        print_json(msgspec.to_builtins(run))
    else:
        click.echo(
            _("Job {number} runs now: `holdfast jobs history {number}` shows the result.").format(
                number=number
            )
        )


def stop_job(api: ApiClient, number: int) -> None:
    with _explain_missing_job(number):
        stopped = api.post(f"/jobs/{number}/stop", {}, StopResult).stopped
    click.echo(
        _("Job {number} is stopped.").format(number=number)
        if stopped
        else _("Job {number} is not running.").format(number=number)
    )


def set_paused(api: ApiClient, number: int, *, paused: bool) -> None:
    body = msgspec.json.encode(JobPausePatch(paused=paused))
    with _explain_missing_job(number):
        job = msgspec.json.decode(api.request("PATCH", f"/jobs/{number}", body), type=JobView)
    if paused:
        click.echo(_("Job {number} is paused.").format(number=number))
    else:
        due = format_time(job.next_due)
        click.echo(_("Job {number} is resumed. Next: {time}.").format(number=number, time=due))


def edit_job(api: ApiClient, number: int, options: Mapping[str, object], *, as_json: bool) -> None:
    changes = {name: value for name, value in options.items() if value is not None}
    if not changes:
        raise click.UsageError(_("No change given. Give at least one, such as --when or --text."))
    if "zone" in changes and "when" not in changes:
        raise click.UsageError(_("--zone applies to --when: give both."))
    _require_nonempty(changes, when="--when", text="--text", to="--to")
    with _explain_missing_job(number):
        if "when" in changes:  # or a job in another zone would change to the zone of the gateway
            changes = {"zone": api.get(f"/jobs/{number}", JobView).zone, **changes}
        body = msgspec.json.encode(changes)
        job = msgspec.json.decode(api.request("PATCH", f"/jobs/{number}", body), type=JobView)
    if as_json:
        print_json(msgspec.to_builtins(job))
        return
    click.echo(
        _("Job {number} is changed: {schedule}. Next: {time}.").format(
            number=job.id, schedule=_schedule_text(job), time=_next_run_text(job)
        )
    )


def delete_job(api: ApiClient, number: int) -> None:
    with _explain_missing_job(number):
        api.request("DELETE", f"/jobs/{number}")
    click.echo(_("Job {number} is removed.").format(number=number))


def _require_nonempty(options: Mapping[str, object], **labels: str) -> None:
    for name, label in labels.items():
        if name in options and not str(options[name]).strip():
            raise click.UsageError(_("{option} is empty.").format(option=label))


@contextmanager
def _explain_missing_job(number: int) -> Iterator[None]:
    """Raises the error of the command line for a job that does not exist."""
    try:
        yield
    except GatewayRefused as refused:
        if refused.status != _NOT_FOUND:
            raise
        raise HoldfastError(
            "There is no job {number}. `holdfast jobs list` lists all jobs.", number=number
        ) from None


def _fetch_jobs(home: Path) -> list[JobView]:
    return query_api(home, _fetch_all_pages, purpose=_PURPOSE)


def _fetch_job(home: Path, number: int) -> JobView:
    with _explain_missing_job(number):
        return query_api(home, lambda api: api.get(f"/jobs/{number}", JobView), purpose=_PURPOSE)


def _fetch_runs(home: Path, number: int, limit: int) -> list[JobRunView]:
    def fetch(api: ApiClient) -> list[JobRunView]:
        return api.get(f"/jobs/{number}/runs", list[JobRunView], {"limit": limit})

    with _explain_missing_job(number):
        return query_api(home, fetch, purpose=_PURPOSE)


def _fetch_all_pages(api: ApiClient) -> list[JobView]:
    found: list[JobView] = []
    more = True
    while more:
        page = api.get("/jobs", JobList, {"limit": _PAGE_SIZE, "offset": len(found)})
        found, more = [*found, *page.jobs], page.more
    return found


def _schedule_text(job: JobView) -> str:
    if not job.cron:
        return sanitize(job.when)
    return f"{sanitize(job.when)} ({job.cron}, {job.zone or _('local time')})"


def _next_run_text(job: JobView) -> str:
    if job.running:
        return _("running")
    if job.paused:
        return _("paused")
    return format_time(job.next_due) if job.next_due is not None else _("finished")


def _last_run_text(job: JobView) -> str:
    if job.last_run is None:
        return _("none")
    return state_text(job.last_run.state)


def _last_run_details(job: JobView) -> str:
    run = job.last_run
    if run is None:
        return _("none")
    text = f"{_last_run_text(job)}, {format_time(run.ended_at)}"
    detail = one_line(run.reason or run.text, width=_MAX_TEXT_WIDTH)
    return f"{text}: {detail}" if detail else text


def _target_text(job: JobView) -> str:
    if job.silent:
        return _("{target}, unless there is nothing to report").format(target=job.to)
    return job.to

"""`holdfast jobs`: creates, shows, changes and runs scheduled jobs."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import click
import msgspec

from holdfast.cli.common.options import chosen_home, complete_job, home_option
from holdfast.cli.common.output import (
    format_duration,
    format_time,
    json_option,
    print_fields,
    print_json,
    print_table,
    sanitize,
)
from holdfast.core.errors import HoldfastError
from holdfast.server.api.client import ApiClient
from holdfast.server.api.views.jobs import JobList, JobPausePatch, JobRunView, JobView
from holdfast.server.api.views.sessions import StopResult
from holdfast.server.local.control_client import (
    GatewayDown,
    GatewayRefused,
    GatewayStoreUnavailable,
)

_job_argument = click.argument(
    "number", metavar="N", type=click.IntRange(1, 999_999_999), shell_complete=complete_job
)
_MISSED = click.Choice(["skip", "once", "all"])
_OVERLAP = click.Choice(["skip", "queue", "replace"])


@click.group("jobs")
@home_option
def command() -> None:
    """Have agents do something later, or regularly; see what became of it.

    \b
      holdfast jobs add "every weekday at 9" "Summarise the news"
      holdfast jobs add "in 2 hours" "Look whether the backup is through" --to telegram:12345
      holdfast jobs edit 1 --when "every weekday at 8"
      holdfast jobs history 1

    The running gateway is asked; without one, jobs can be listed but not changed.
    """


@command.command("add", short_help="Have TEXT done at WHEN.")
@home_option
@json_option
@click.argument("when")
@click.argument("text")
@click.option("--name", default="", help="What it is called; else the beginning of TEXT.")
@click.option("--zone", default="", help="The time zone that WHEN is read in: Europe/Berlin.")
@click.option(
    "--to",
    default="",
    metavar="PLACE",
    help="Where the answer goes: home, nowhere or PLATFORM:CHAT.  [default: home, if there is one]",
)
@click.option("--silent", is_flag=True, help="Say nothing where there is nothing to tell.")
@click.option(
    "--missed",
    type=_MISSED,
    default="once",
    show_default=True,
    help="What becomes of times at which no gateway ran.",
)
@click.option(
    "--overlap",
    type=_OVERLAP,
    default="skip",
    show_default=True,
    help="What becomes of a run that is due while the last one works.",
)
@click.option("--limit", type=click.FloatRange(0), help="Seconds that a run may take; 0: no limit.")
def add(as_json: bool, **given: object) -> None:
    """Have TEXT done at WHEN: "every weekday at 9", "in 2 hours", "2026-12-01 09:00", cron."""
    from holdfast.cli.common.connection import api_client_for  # noqa: PLC0415 - not for --help

    create_job(api_client_for(chosen_home()), given, as_json=as_json)


@command.command("edit", short_help="Have it be another from now on.")
@home_option
@json_option
@_job_argument
@click.option("--when", help="Other times, as `add` takes them; read in its own zone.")
@click.option("--text", help="What the agent is to do.")
@click.option("--name", help='What it is called; "": the beginning of its text.')
@click.option("--zone", help="The time zone that --when is read in: Europe/Berlin.")
@click.option(
    "--to", metavar="PLACE", help="Where the answer goes: home, nowhere or PLATFORM:CHAT."
)
@click.option("--silent/--not-silent", default=None, help="Say nothing where there is no news.")
@click.option("--missed", type=_MISSED, help="What becomes of times at which no gateway ran.")
@click.option("--overlap", type=_OVERLAP, help="Of a run that is due while the last one works.")
@click.option("--limit", type=click.FloatRange(0), help="Seconds that a run may take; 0: no limit.")
def edit(number: int, as_json: bool, **given: object) -> None:
    """Have it be another from now on, with its number and its history.

    \b
      holdfast jobs edit 1 --when "every weekday at 8"
      holdfast jobs edit 1 --text "Summarise the news in five lines" --not-silent

    What is not said stays as it is. What runs of it goes on as it began.
    """
    from holdfast.cli.common.connection import api_client_for  # noqa: PLC0415 - not for --help

    edit_job(api_client_for(chosen_home()), number, given, as_json=as_json)


@command.command("list")
@home_option
@json_option
def list_jobs(as_json: bool) -> None:
    """All there are, everybody's."""

    print_jobs(chosen_home(), as_json=as_json)


@command.command("show")
@home_option
@json_option
@_job_argument
def show(number: int, as_json: bool) -> None:
    """One job, with all that is known of it."""

    print_job(chosen_home(), number, as_json=as_json)


@command.command("history")
@home_option
@json_option
@_job_argument
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True)
def history(number: int, limit: int, as_json: bool) -> None:
    """What became of its runs, the newest first."""

    print_runs(chosen_home(), number, limit=limit, as_json=as_json)


@command.command("run")
@home_option
@json_option
@_job_argument
def run(number: int, as_json: bool) -> None:
    """Run it now, as if it were due."""
    from holdfast.cli.common.connection import api_client_for  # noqa: PLC0415 - not for --help

    run_job(api_client_for(chosen_home()), number, as_json=as_json)


@command.command("stop")
@home_option
@_job_argument
def stop(number: int) -> None:
    """Stop what runs of it, and drop what waits behind that."""
    from holdfast.cli.common.connection import api_client_for  # noqa: PLC0415 - not for --help

    stop_job(api_client_for(chosen_home()), number)


@command.command("pause")
@home_option
@_job_argument
def pause(number: int) -> None:
    """Have it wait until it is resumed."""
    from holdfast.cli.common.connection import api_client_for  # noqa: PLC0415 - not for --help

    set_paused(api_client_for(chosen_home()), number, paused=True)


@command.command("resume")
@home_option
@_job_argument
def resume(number: int) -> None:
    """Let it go on; what was due meanwhile is passed over."""
    from holdfast.cli.common.connection import api_client_for  # noqa: PLC0415 - not for --help

    set_paused(api_client_for(chosen_home()), number, paused=False)


@command.command("rm")
@home_option
@_job_argument
def remove(number: int) -> None:
    """Remove it with its history; what runs of it goes on to its end."""
    from holdfast.cli.common.connection import api_client_for  # noqa: PLC0415 - not for --help

    delete_job(api_client_for(chosen_home()), number)


_PAGE_SIZE = 1000
_MAX_TEXT_WIDTH = 60
_NOT_FOUND = 404


def create_job(api: ApiClient, options: Mapping[str, object], *, as_json: bool) -> None:
    _require_nonempty(options, when="WHEN", text="TEXT")
    wanted = {name: value for name, value in options.items() if value is not None}
    job = api.post("/jobs", wanted, JobView)  # which checks it, and says what is wrong
    if as_json:
        print_json(msgspec.to_builtins(job))
        return
    click.echo(f"Job {job.id}: {_schedule_text(job)}. Next: {format_time(job.next_due)}.")
    if job.to == "nowhere":
        click.echo(f"Nobody is sent what it says: `holdfast jobs history {job.id}` has it.")


def print_jobs(home: Path, *, as_json: bool) -> None:
    jobs = _fetch_jobs(home)
    if as_json:
        print_json(msgspec.to_builtins(jobs))
    elif not jobs:
        click.echo('There are no jobs. `holdfast jobs add "every weekday at 9" TEXT` makes one.')
    else:
        print_table(
            ["N", "NAME", "WHEN", "NEXT", "TO", "OWNER"],
            [
                [
                    str(job.id),
                    sanitize(job.name),
                    sanitize(job.when),
                    _next_run_text(job),
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
    click.echo(click.style(f"Job {job.id}: {sanitize(job.name)}", bold=True))
    print_fields(
        [
            ("when", _schedule_text(job)),
            ("next", _next_run_text(job)),
            ("does", sanitize(job.text)),
            ("told to", f"{job.to}{', unless there is nothing to tell' if job.silent else ''}"),
            ("session", job.session),
            ("missed", job.missed),
            ("overlap", job.overlap),
            ("limit", format_duration(job.limit) if job.limit else "none"),
            ("owner", sanitize(job.owner)),
            ("made", format_time(job.made_at)),
        ]
    )


def print_runs(home: Path, number: int, *, limit: int, as_json: bool) -> None:
    runs = _fetch_runs(home, number, limit)
    if as_json:
        print_json(msgspec.to_builtins(runs))
    elif not runs:
        click.echo(f"Job {number} has not run yet.")
    else:
        print_table(
            ["DUE", "STATE", "ENDED", "SESSION", "WHAT"],
            [
                [
                    format_time(run.due_at),
                    run.state,
                    format_time(run.ended_at),
                    run.session_id or "",
                    _one_line(run.text or run.reason),
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
        click.echo(f"Job {number} runs now: `holdfast jobs history {number}` has what comes of it.")


def stop_job(api: ApiClient, number: int) -> None:
    with _explain_missing_job(number):
        stopped = api.post(f"/jobs/{number}/stop", {}, StopResult).stopped
    click.echo(f"Stopped: job {number}." if stopped else f"Job {number} is not at work.")


def set_paused(api: ApiClient, number: int, *, paused: bool) -> None:
    body = msgspec.json.encode(JobPausePatch(paused=paused))
    with _explain_missing_job(number):
        job = msgspec.json.decode(api.request("PATCH", f"/jobs/{number}", body), type=JobView)
    click.echo(f"Job {number} is {'paused' if paused else f'due {format_time(job.next_due)}'}.")


def edit_job(api: ApiClient, number: int, options: Mapping[str, object], *, as_json: bool) -> None:
    wanted = {name: value for name, value in options.items() if value is not None}
    if not wanted:
        raise click.UsageError("Nothing to change: say what is to be another, as --when or --text.")
    if "zone" in wanted and "when" not in wanted:
        raise click.UsageError("--zone is that of --when: say both.")
    _require_nonempty(wanted, when="--when", text="--text", to="--to")
    with _explain_missing_job(number):
        if "when" in wanted:  # or a job of Berlin's would go by the gateway's clock from now on
            standing = api.get(f"/jobs/{number}", JobView)
            wanted = {"zone": standing.zone, **wanted}
        body = msgspec.json.encode(wanted)
        job = msgspec.json.decode(api.request("PATCH", f"/jobs/{number}", body), type=JobView)
    if as_json:
        print_json(msgspec.to_builtins(job))
        return
    click.echo(f"Job {job.id} is changed: {_schedule_text(job)}. Next: {_next_run_text(job)}.")


def delete_job(api: ApiClient, number: int) -> None:
    with _explain_missing_job(number):
        api.request("DELETE", f"/jobs/{number}")
    click.echo(f"Job {number} is removed.")


def _require_nonempty(options: Mapping[str, object], **labels: str) -> None:
    for name, shown in labels.items():
        if name in options and not str(options[name]).strip():
            raise click.UsageError(f"{shown} is empty.")


@contextmanager
def _explain_missing_job(number: int) -> Iterator[None]:
    """A job that is not there is told in the words of the command line."""
    try:
        yield
    except GatewayRefused as refused:
        if refused.status != _NOT_FOUND:
            raise
        raise HoldfastError(f"There is no job {number}; `holdfast jobs list` has all.") from None


def _fetch_jobs(home: Path) -> list[JobView]:
    from holdfast.cli.common.connection import api_client_for  # noqa: PLC0415 - a module beside this one

    try:
        return _fetch_all_pages(api_client_for(home))
    except GatewayStoreUnavailable:
        raise
    except GatewayDown:
        from holdfast.cli.common.offline import read_stored_jobs  # noqa: PLC0415 - imports the store

        return read_stored_jobs(home)


def _fetch_job(home: Path, number: int) -> JobView:
    from holdfast.cli.common.connection import api_client_for  # noqa: PLC0415 - a module beside this one

    try:
        with _explain_missing_job(number):
            return api_client_for(home).get(f"/jobs/{number}", JobView)
    except GatewayStoreUnavailable:
        raise
    except GatewayDown:
        from holdfast.cli.common.offline import read_stored_job  # noqa: PLC0415 - imports the store

        return read_stored_job(home, number)


def _fetch_runs(home: Path, number: int, limit: int) -> list[JobRunView]:
    from holdfast.cli.common.connection import api_client_for  # noqa: PLC0415 - a module beside this one

    try:
        with _explain_missing_job(number):
            return api_client_for(home).get(
                f"/jobs/{number}/runs", list[JobRunView], {"limit": limit}
            )
    except GatewayStoreUnavailable:
        raise
    except GatewayDown:
        from holdfast.cli.common.offline import read_stored_job_runs  # noqa: PLC0415 - imports the store

        return read_stored_job_runs(home, number, limit)


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
    return f"{sanitize(job.when)} ({job.cron}, {job.zone or 'local time'})"


def _next_run_text(job: JobView) -> str:
    if job.running:
        return "running"
    if job.paused:
        return "paused"
    return format_time(job.next_due) if job.next_due is not None else "over"


def _one_line(text: str) -> str:
    line = sanitize(" ".join(text.split()))
    return line if len(line) <= _MAX_TEXT_WIDTH else f"{line[: _MAX_TEXT_WIDTH - 1]}…"

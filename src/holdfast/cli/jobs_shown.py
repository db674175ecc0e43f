"""Jobs as the command line makes, shows and changes them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import click
import msgspec

from holdfast.cli.common.harmless import sanitize
from holdfast.cli.common.output import (
    format_duration,
    format_time,
    print_fields,
    print_json,
    print_table,
)
from holdfast.core.errors import HoldfastError
from holdfast.server.api.api_client import ApiClient
from holdfast.server.api.views.jobs import JobList, JobPausePatch, JobRunView, JobView
from holdfast.server.api.views.message_views import StopResult
from holdfast.server.local.client import GatewayDown, GatewayRefused, GatewayStoreUnavailable

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
    from holdfast.cli.common.gateway import api_client_for  # noqa: PLC0415 - a module beside this one

    try:
        return _fetch_all_pages(api_client_for(home))
    except GatewayStoreUnavailable:
        raise
    except GatewayDown:
        from holdfast.cli.common.stored_jobs import read_stored_jobs  # noqa: PLC0415 - imports the store

        return read_stored_jobs(home)


def _fetch_job(home: Path, number: int) -> JobView:
    from holdfast.cli.common.gateway import api_client_for  # noqa: PLC0415 - a module beside this one

    try:
        with _explain_missing_job(number):
            return api_client_for(home).get(f"/jobs/{number}", JobView)
    except GatewayStoreUnavailable:
        raise
    except GatewayDown:
        from holdfast.cli.common.stored_jobs import read_stored_job  # noqa: PLC0415 - imports the store

        return read_stored_job(home, number)


def _fetch_runs(home: Path, number: int, limit: int) -> list[JobRunView]:
    from holdfast.cli.common.gateway import api_client_for  # noqa: PLC0415 - a module beside this one

    try:
        with _explain_missing_job(number):
            return api_client_for(home).get(
                f"/jobs/{number}/runs", list[JobRunView], {"limit": limit}
            )
    except GatewayStoreUnavailable:
        raise
    except GatewayDown:
        from holdfast.cli.common.stored_jobs import read_stored_job_runs  # noqa: PLC0415 - imports the store

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

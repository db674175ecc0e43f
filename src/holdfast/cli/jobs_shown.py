"""Jobs as the command line makes, shows and changes them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import click
import msgspec

from holdfast.cli.common.harmless import safe
from holdfast.cli.common.output import duration, moment, print_facts, print_json, print_table
from holdfast.core.errors import HoldfastError
from holdfast.server.api.api_client import ApiClient
from holdfast.server.api.views.jobs import JobList, JobPaused, JobView, RunView
from holdfast.server.api.views.message_views import Stopped
from holdfast.server.local.client import ControlRefused, GatewayDown, GatewayUnable

_PAGE = 1000
_WIDEST = 60
_NOT_FOUND = 404


def make(api: ApiClient, given: Mapping[str, object], *, as_json: bool) -> None:
    _refuse_empty(given, when="WHEN", text="TEXT")
    wanted = {name: value for name, value in given.items() if value is not None}
    job = api.post("/jobs", wanted, JobView)  # which checks it, and says what is wrong
    if as_json:
        print_json(msgspec.to_builtins(job))
        return
    click.echo(f"Job {job.id}: {_when(job)}. Next: {moment(job.next_due)}.")
    if job.to == "nowhere":
        click.echo(f"Nobody is sent what it says: `holdfast jobs history {job.id}` has it.")


def print_jobs(home: Path, *, as_json: bool) -> None:
    jobs = _all(home)
    if as_json:
        print_json(msgspec.to_builtins(jobs))
    elif not jobs:
        click.echo('There are no jobs. `holdfast jobs add "every weekday at 9" TEXT` makes one.')
    else:
        print_table(
            ["N", "NAME", "WHEN", "NEXT", "TO", "OWNER"],
            [
                [str(job.id), safe(job.name), safe(job.when), _next(job), job.to, safe(job.owner)]
                for job in jobs
            ],
        )


def print_job(home: Path, number: int, *, as_json: bool) -> None:
    job = _one(home, number)
    if as_json:
        print_json(msgspec.to_builtins(job))
        return
    click.echo(click.style(f"Job {job.id}: {safe(job.name)}", bold=True))
    print_facts(
        [
            ("when", _when(job)),
            ("next", _next(job)),
            ("does", safe(job.text)),
            ("told to", f"{job.to}{', unless there is nothing to tell' if job.silent else ''}"),
            ("session", job.session),
            ("missed", job.missed),
            ("overlap", job.overlap),
            ("limit", duration(job.limit) if job.limit else "none"),
            ("owner", safe(job.owner)),
            ("made", moment(job.made_at)),
        ]
    )


def print_runs(home: Path, number: int, *, limit: int, as_json: bool) -> None:
    runs = _runs(home, number, limit)
    if as_json:
        print_json(msgspec.to_builtins(runs))
    elif not runs:
        click.echo(f"Job {number} has not run yet.")
    else:
        print_table(
            ["DUE", "STATE", "ENDED", "SESSION", "WHAT"],
            [
                [
                    moment(run.due_at),
                    run.state,
                    moment(run.ended_at),
                    run.session_id or "",
                    _short(run.text or run.reason),
                ]
                for run in runs
            ],
        )


def begin(api: ApiClient, number: int, *, as_json: bool) -> None:
    with _known(number):
        run = api.post(f"/jobs/{number}/run", {}, RunView)
    if as_json:
        print_json(msgspec.to_builtins(run))
    else:
        click.echo(f"Job {number} runs now: `holdfast jobs history {number}` has what comes of it.")


def halt(api: ApiClient, number: int) -> None:
    with _known(number):
        stopped = api.post(f"/jobs/{number}/stop", {}, Stopped).stopped
    click.echo(f"Stopped: job {number}." if stopped else f"Job {number} is not at work.")


def change(api: ApiClient, number: int, *, paused: bool) -> None:
    body = msgspec.json.encode(JobPaused(paused=paused))
    with _known(number):
        job = msgspec.json.decode(api.send("PATCH", f"/jobs/{number}", body), type=JobView)
    click.echo(f"Job {number} is {'paused' if paused else f'due {moment(job.next_due)}'}.")


def rewrite(api: ApiClient, number: int, given: Mapping[str, object], *, as_json: bool) -> None:
    wanted = {name: value for name, value in given.items() if value is not None}
    if not wanted:
        raise click.UsageError("Nothing to change: say what is to be another, as --when or --text.")
    if "zone" in wanted and "when" not in wanted:
        raise click.UsageError("--zone is that of --when: say both.")
    _refuse_empty(wanted, when="--when", text="--text", to="--to")
    with _known(number):
        if "when" in wanted:  # or a job of Berlin's would go by the gateway's clock from now on
            standing = api.get(f"/jobs/{number}", JobView)
            wanted = {"zone": standing.zone, **wanted}
        body = msgspec.json.encode(wanted)
        job = msgspec.json.decode(api.send("PATCH", f"/jobs/{number}", body), type=JobView)
    if as_json:
        print_json(msgspec.to_builtins(job))
        return
    click.echo(f"Job {job.id} is changed: {_when(job)}. Next: {_next(job)}.")


def drop(api: ApiClient, number: int) -> None:
    with _known(number):
        api.send("DELETE", f"/jobs/{number}")
    click.echo(f"Job {number} is removed.")


def _refuse_empty(given: Mapping[str, object], **shown_as: str) -> None:
    for name, shown in shown_as.items():
        if name in given and not str(given[name]).strip():
            raise click.UsageError(f"{shown} is empty.")


@contextmanager
def _known(number: int) -> Iterator[None]:
    """A job that is not there is told in the words of the command line."""
    try:
        yield
    except ControlRefused as refused:
        if refused.status != _NOT_FOUND:
            raise
        raise HoldfastError(f"There is no job {number}; `holdfast jobs list` has all.") from None


def _all(home: Path) -> list[JobView]:
    from holdfast.cli.common.gateway import api_of  # noqa: PLC0415 - a module beside this one

    try:
        return _listed(api_of(home))
    except GatewayUnable:
        raise
    except GatewayDown:
        from holdfast.cli.common.stored_jobs import stored_jobs  # noqa: PLC0415 - imports the store

        return stored_jobs(home)


def _one(home: Path, number: int) -> JobView:
    from holdfast.cli.common.gateway import api_of  # noqa: PLC0415 - a module beside this one

    try:
        with _known(number):
            return api_of(home).get(f"/jobs/{number}", JobView)
    except GatewayUnable:
        raise
    except GatewayDown:
        from holdfast.cli.common.stored_jobs import stored_job  # noqa: PLC0415 - imports the store

        return stored_job(home, number)


def _runs(home: Path, number: int, limit: int) -> list[RunView]:
    from holdfast.cli.common.gateway import api_of  # noqa: PLC0415 - a module beside this one

    try:
        with _known(number):
            return api_of(home).get(f"/jobs/{number}/runs", list[RunView], {"limit": limit})
    except GatewayUnable:
        raise
    except GatewayDown:
        from holdfast.cli.common.stored_jobs import stored_runs  # noqa: PLC0415 - imports the store

        return stored_runs(home, number, limit)


def _listed(api: ApiClient) -> list[JobView]:
    found: list[JobView] = []
    more = True
    while more:
        page = api.get("/jobs", JobList, {"limit": _PAGE, "offset": len(found)})
        found, more = [*found, *page.jobs], page.more
    return found


def _when(job: JobView) -> str:
    if not job.cron:
        return safe(job.when)
    return f"{safe(job.when)} ({job.cron}, {job.zone or 'local time'})"


def _next(job: JobView) -> str:
    if job.running:
        return "running"
    if job.paused:
        return "paused"
    return moment(job.next_due) if job.next_due is not None else "over"


def _short(text: str) -> str:
    line = safe(" ".join(text.split()))
    return line if len(line) <= _WIDEST else f"{line[: _WIDEST - 1]}…"

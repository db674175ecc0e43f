"""`holdfast jobs`: what agents do at certain times, made, looked at and changed from the shell."""

import click

from holdfast.cli.common.home import chosen_home, home_option
from holdfast.cli.common.options import complete_job
from holdfast.cli.common.output import json_option

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
    from holdfast.cli.common.gateway import api_client_for  # noqa: PLC0415 - not for --help
    from holdfast.cli.jobs_shown import create_job  # noqa: PLC0415 - as above

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
    from holdfast.cli.common.gateway import api_client_for  # noqa: PLC0415 - not for --help
    from holdfast.cli.jobs_shown import edit_job  # noqa: PLC0415 - as above

    edit_job(api_client_for(chosen_home()), number, given, as_json=as_json)


@command.command("list")
@home_option
@json_option
def list_jobs(as_json: bool) -> None:
    """All there are, everybody's."""
    from holdfast.cli.jobs_shown import print_jobs  # noqa: PLC0415 - not for --help

    print_jobs(chosen_home(), as_json=as_json)


@command.command("show")
@home_option
@json_option
@_job_argument
def show(number: int, as_json: bool) -> None:
    """One job, with all that is known of it."""
    from holdfast.cli.jobs_shown import print_job  # noqa: PLC0415 - not for --help

    print_job(chosen_home(), number, as_json=as_json)


@command.command("history")
@home_option
@json_option
@_job_argument
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True)
def history(number: int, limit: int, as_json: bool) -> None:
    """What became of its runs, the newest first."""
    from holdfast.cli.jobs_shown import print_runs  # noqa: PLC0415 - not for --help

    print_runs(chosen_home(), number, limit=limit, as_json=as_json)


@command.command("run")
@home_option
@json_option
@_job_argument
def run(number: int, as_json: bool) -> None:
    """Run it now, as if it were due."""
    from holdfast.cli.common.gateway import api_client_for  # noqa: PLC0415 - not for --help
    from holdfast.cli.jobs_shown import run_job  # noqa: PLC0415 - as above

    run_job(api_client_for(chosen_home()), number, as_json=as_json)


@command.command("stop")
@home_option
@_job_argument
def stop(number: int) -> None:
    """Stop what runs of it, and drop what waits behind that."""
    from holdfast.cli.common.gateway import api_client_for  # noqa: PLC0415 - not for --help
    from holdfast.cli.jobs_shown import stop_job  # noqa: PLC0415 - as above

    stop_job(api_client_for(chosen_home()), number)


@command.command("pause")
@home_option
@_job_argument
def pause(number: int) -> None:
    """Have it wait until it is resumed."""
    from holdfast.cli.common.gateway import api_client_for  # noqa: PLC0415 - not for --help
    from holdfast.cli.jobs_shown import set_paused  # noqa: PLC0415 - as above

    set_paused(api_client_for(chosen_home()), number, paused=True)


@command.command("resume")
@home_option
@_job_argument
def resume(number: int) -> None:
    """Let it go on; what was due meanwhile is passed over."""
    from holdfast.cli.common.gateway import api_client_for  # noqa: PLC0415 - not for --help
    from holdfast.cli.jobs_shown import set_paused  # noqa: PLC0415 - as above

    set_paused(api_client_for(chosen_home()), number, paused=False)


@command.command("rm")
@home_option
@_job_argument
def remove(number: int) -> None:
    """Remove it with its history; what runs of it goes on to its end."""
    from holdfast.cli.common.gateway import api_client_for  # noqa: PLC0415 - not for --help
    from holdfast.cli.jobs_shown import delete_job  # noqa: PLC0415 - as above

    delete_job(api_client_for(chosen_home()), number)

"""`holdfast top`: the live view of a gateway."""

import sys
import time

import click

from holdfast.cli.common.options import chosen_home, home_option
from holdfast.cli.common.output import is_dumb
from holdfast.cli.status.command import render_status
from holdfast.system.paths import Paths


@click.command("top")
@home_option
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print the status as one line of JSON at each refresh, until Ctrl-C.",
)
@click.option(
    "--once", is_flag=True, help="Print the status once and exit, with the exit code of `status`."
)
@click.option(
    "--every",
    type=click.FloatRange(min=0.2, max=3600),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Seconds between two refreshes.",
)
def command(as_json: bool, once: bool, every: float) -> None:
    """Watch the gateway at work, live.

    Shows problems, the activity of the last hour and the open turns with their session, step and
    tools. Waits for a gateway that is down, also during a restart. Without a terminal, prints the
    status once.

    \b
    Keys:
      q                 quit
      arrows, j and k   select a turn
      enter             show the details of the selected turn
      p                 pause and continue
      ?                 help

    \b
    Examples:
      holdfast top
      holdfast top --every 0.5
      holdfast top --once
      holdfast top --json --every 60
    """
    paths = Paths(chosen_home())
    if as_json:
        _print_json_lines(paths, once=once, every=every)
    elif once or is_dumb(sys.stdout) or not sys.stdin.isatty():
        _print_once(paths)
    else:
        import asyncio  # noqa: PLC0415 - only for the live screen

        from holdfast.cli.top.live import LiveScreen  # noqa: PLC0415 - as above

        asyncio.run(LiveScreen(paths, every=every).run())


def _print_once(paths: Paths) -> None:
    from holdfast.cli.common.rendering import render  # noqa: PLC0415 - not for --json
    from holdfast.cli.top.frame import read_sample, render_plain  # noqa: PLC0415 - as above

    sample = read_sample(paths, now=time.time())
    out = sys.stderr if sample.document is None else sys.stdout
    click.echo(render(render_plain(sample), out), file=out)
    sys.exit(sample.exit_code)


def _print_json_lines(paths: Paths, *, once: bool, every: float) -> None:
    """What `status --json` prints, one document per line."""
    try:
        while True:
            text, code = render_status(paths, as_json=True)
            click.echo(text)
            if once:
                sys.exit(code)
            time.sleep(every)
    except KeyboardInterrupt:
        return

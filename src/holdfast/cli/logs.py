"""`holdfast logs`: what the gateway wrote down, for people or as it is."""

from contextlib import suppress
from itertools import chain
from pathlib import Path

import click

from holdfast.cli.common.home import chosen_home, home_option

LEVELS = ("debug", "info", "warning", "error")


@click.command("logs")
@home_option
@click.option("-f", "--follow", is_flag=True, help="Go on with what is written from now on.")
@click.option(
    "-n", "--lines", type=click.IntRange(0), default=50, show_default=True, help="How many."
)
@click.option("--level", type=click.Choice(LEVELS), default="debug", help="This and what is worse.")
@click.option("--session", metavar="ID", help="Only what concerns this session.")
@click.option("--json", "as_json", is_flag=True, help="The lines as they are written.")
def command(follow: bool, lines: int, level: str, session: str | None, as_json: bool) -> None:
    """Read the gateway's log; no gateway has to run for that.

    \b
    Examples:
      holdfast logs -n 100 --level warning
      holdfast logs -f --session s_0199a
    """
    from holdfast.cli.log_file import LogFileFilter, LogFileReader  # noqa: PLC0415 - not for --help
    from holdfast.cli.log_shown import format_log_line  # noqa: PLC0415 - as above
    from holdfast.system.paths import Paths  # noqa: PLC0415 - as above

    path = Paths(chosen_home()).log_file
    wanted = LogFileFilter(levels=LEVELS[LEVELS.index(level) :], session=session)
    log = LogFileReader(path)
    shown = log.last_lines(lines, wanted)
    if not shown and not follow:
        click.echo(_explain_empty(path), err=True)
    with suppress(KeyboardInterrupt):  # the way to end it
        for line in chain(shown, log.follow(wanted) if follow else ()):
            click.echo(line.text if as_json else format_log_line(line))


def _explain_empty(path: Path) -> str:
    if not path.exists():
        return f"There is no log in {path.parent} yet: no gateway has run in this home."
    return "Nothing in the log is like that."

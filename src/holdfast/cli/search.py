"""`holdfast search`: where something was said, in any conversation."""

from typing import TYPE_CHECKING

import click

from holdfast.cli.common.home import chosen_home, home_option
from holdfast.cli.common.options import complete_session
from holdfast.cli.common.output import json_option

if TYPE_CHECKING:
    from holdfast.cli.searching import SearchRequest


@click.command("search")
@home_option
@json_option
@click.argument("words", nargs=-1)
@click.option("--limit", type=click.IntRange(1, 200), default=20, show_default=True)
@click.option("--session", help="Only in this one.", shell_complete=complete_session)
@click.option("--platform", default="", help="Only on this platform.")
@click.option("--days", type=click.FloatRange(0), default=0, help="Only in the last so many days.")
@click.option("--rebuild", is_flag=True, help="Make the index anew first.")
def command(
    words: tuple[str, ...],
    limit: int,
    session: str | None,
    platform: str,
    days: float,
    rebuild: bool,
    as_json: bool,
) -> None:
    """Find WORDS in all that was ever said.

    All of them must be there; the beginning of one is enough. "Quoted words" stand together, and
    a leading minus (after `--`) excludes. The running gateway is asked; with none running, the
    store is read under its lock.

    \b
    Examples:
      holdfast search disk full
      holdfast search --days 7 '"disk full"'
      holdfast search -- disk -backup
    """
    from holdfast.cli import searching  # noqa: PLC0415 - not needed for --help

    if not words and not rebuild:
        raise click.UsageError("Say what to look for, or --rebuild.")
    home = chosen_home()
    if rebuild:
        searching.rebuild_index(home, as_json=as_json and not words)
    if words:
        asked: SearchRequest = searching.SearchRequest(
            words=" ".join(words), limit=limit, session=session, platform=platform, days=days
        )
        searching.print_results(home, asked, as_json=as_json)

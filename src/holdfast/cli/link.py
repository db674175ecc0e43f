"""`holdfast link`: a way into the page, for once."""

import click

from holdfast.cli.common.home import chosen_home, home_option
from holdfast.cli.common.options import complete_viewer
from holdfast.cli.common.output import json_option, print_json


@click.command("link")
@home_option
@json_option
@click.option(
    "--viewer",
    default="",
    metavar="NAME",
    shell_complete=complete_viewer,
    help="As who has the token NAME, to look.",
)
@click.option("--open", "open_it", is_flag=True, help="Open it in a browser, if there is one.")
def link_command(as_json: bool, viewer: str, open_it: bool) -> None:
    """Print a link that opens the page, logged in. It works once.

    \b
    Examples:
      holdfast link --open
      holdfast link --viewer ann
    """
    from holdfast.server.local.client import ControlClient  # noqa: PLC0415 - not needed for --help
    from holdfast.system.paths import Paths  # noqa: PLC0415 - as above

    link = str(ControlClient(Paths(chosen_home())).post("/login", {"viewer": viewer})["link"])
    if as_json:
        print_json({"link": link})
    else:
        click.echo(link)
    # Its own word for a failure, and not click.launch: that one says nothing.
    if open_it and not _open_browser(link):
        click.echo("No browser was found; open the link yourself.", err=True)


def _open_browser(link: str) -> bool:
    import webbrowser  # noqa: PLC0415 - starts by looking for every browser there is

    return webbrowser.open(link)

"""`holdfast token` and `holdfast link`: API tokens of owner and viewers, and login links."""

from datetime import datetime

import click

from holdfast.cli.common.options import chosen_home, complete_viewer, home_option
from holdfast.cli.common.output import json_option, print_json, print_table
from holdfast.config import load, prepare_home
from holdfast.server.local.control_client import ControlClient
from holdfast.system.paths import Paths
from holdfast.system.tokens import api_token


@click.group("token", invoke_without_command=True)
@home_option
@json_option
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """Print the bearer token of the API; it is made if there is none yet.

    \b
    Example:
      export OPENAI_BASE_URL=http://127.0.0.1:8787/v1 OPENAI_API_KEY=$(holdfast token)

    That one is the owner's. A viewer's token, for the page, /api/v1 and /metrics, sees everything
    and changes nothing; it is kept as a digest, and shown once:

    \b
      holdfast token add --role viewer ann
      holdfast token list
      holdfast token revoke ann
    """
    if context.invoked_subcommand is not None:
        return
    home = chosen_home()
    prepare_home(home)
    configured = load(home).secret("platforms.api.token")
    token = api_token(Paths(home), configured=configured).reveal()
    if as_json:
        print_json({"token": token})
    else:
        click.echo(token)


@command.command("add")
@home_option
@json_option
@click.option("--role", type=click.Choice(["viewer"]), required=True, help="What it is good for.")
@click.argument("name")
def add(as_json: bool, role: str, name: str) -> None:
    """Make a token for somebody, and print it: it cannot be shown again.

    NAME is what you call it by, to revoke it. The running gateway is asked.
    """
    made = _post("/tokens", {"name": name})
    if as_json:
        print_json(made)
    else:
        click.echo(made["token"])


@command.command("list")
@home_option
@json_option
def list_tokens(as_json: bool) -> None:
    """Show the tokens that were made: names and roles, never the tokens."""
    listed = ControlClient(Paths(chosen_home())).get("/tokens")
    if as_json:
        print_json(listed)
        return
    if not listed["tokens"]:
        click.echo("There is none but the owner's, which `holdfast token` prints.")
        return
    rows = [
        (token["name"], token["role"], _created_text(token["made_at"]))
        for token in listed["tokens"]
    ]
    print_table(("NAME", "ROLE", "SINCE"), rows)


@command.command("revoke")
@home_option
@json_option
@click.argument("name", shell_complete=complete_viewer)
def revoke(as_json: bool, name: str) -> None:
    """End a token, with every login that came of it, at once."""
    revoked = _post("/tokens/revoke", {"name": name})
    if as_json:
        print_json(revoked)
    else:
        click.echo(f"The token {name} is worth nothing any more.")


def _created_text(made_at: float) -> str:
    return f"{datetime.fromtimestamp(made_at).astimezone():%Y-%m-%d %H:%M}"


def _post(path: str, body: dict[str, str]) -> dict[str, str]:
    answer: dict[str, str] = ControlClient(Paths(chosen_home())).post(path, body)
    return answer


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

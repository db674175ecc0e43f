"""`holdfast token` and `holdfast link`: API tokens of owner and viewers, and login links."""

import click

from holdfast.cli.common.options import chosen_home, complete_viewer, home_option
from holdfast.cli.common.output import json_option, print_json, print_table
from holdfast.config import load, prepare_home
from holdfast.core.text.locale_format import format_time
from holdfast.core.text.translation import _
from holdfast.server.local.control_client import ControlClient
from holdfast.system.paths import Paths
from holdfast.system.tokens import api_token


@click.group("token", invoke_without_command=True)
@home_option
@json_option
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """Print the bearer token of the API; it is created if there is none yet.

    \b
    Example:
      export OPENAI_BASE_URL=http://127.0.0.1:8787/v1 OPENAI_API_KEY=$(holdfast token)

    This is the owner's token. A viewer's token, for the page, /api/v1 and /metrics, can read
    everything and change nothing. It is stored as a digest and shown only once:

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
@click.option("--role", type=click.Choice(["viewer"]), required=True, help="What the token allows.")
@click.argument("name")
def add(as_json: bool, role: str, name: str) -> None:
    """Create a viewer's token and print it; it cannot be shown again.

    NAME identifies the token when you revoke it. Needs a running gateway.
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
    """List the created tokens: names and roles, never the tokens themselves."""
    listed = ControlClient(Paths(chosen_home())).get("/tokens")
    if as_json:
        print_json(listed)
        return
    if not listed["tokens"]:
        click.echo(_("The only token is the owner's, which `holdfast token` prints."))
        return
    rows = [
        (token["name"], token["role"], format_time(token["made_at"])) for token in listed["tokens"]
    ]
    print_table((_("NAME"), _("ROLE"), _("SINCE")), rows)


@command.command("revoke")
@home_option
@json_option
@click.argument("name", shell_complete=complete_viewer)
def revoke(as_json: bool, name: str) -> None:
    """Revoke a token at once, with every login that was made with it."""
    revoked = _post("/tokens/revoke", {"name": name})
    if as_json:
        print_json(revoked)
    else:
        click.echo(_("The token {name} is revoked.").format(name=name))


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
    help="Log in as the viewer with the token NAME.",
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
    # Not click.launch, which does not report a failure.
    if open_it and not _open_browser(link):
        click.echo(_("No browser was found. Open the link yourself."), err=True)


def _open_browser(link: str) -> bool:
    import webbrowser  # noqa: PLC0415 - it searches for every browser when it is imported

    return webbrowser.open(link)

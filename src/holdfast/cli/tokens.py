"""`holdfast token` and `holdfast link`: tokens of the API, and login links."""

from collections.abc import Mapping

import click

from holdfast.cli.common.options import chosen_home, complete_token, home_option
from holdfast.cli.common.output import json_option, print_json, print_table
from holdfast.config import load, prepare_home
from holdfast.core.people.api_tokens import TokenScope
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
      curl -H "Authorization: Bearer $(holdfast token)" http://127.0.0.1:8787/api/v1/status

    This is the owner's token, which may do everything. Give programs a token of their own. It is
    stored as a digest and shown only once:

    \b
      holdfast token create --name laptop --expires 90d
      holdfast token create --name grafana --scope read
      holdfast token list
      holdfast token revoke laptop
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


@command.command("create")
@home_option
@json_option
@click.option("--name", required=True, help="Identifies the token when you revoke it.")
@click.option(
    "--scope",
    type=click.Choice([scope.value for scope in TokenScope]),
    default=TokenScope.TALK.value,
    show_default=True,
    help="What the token allows.",
)
@click.option(
    "--session",
    "sessions",
    multiple=True,
    metavar="NAME",
    help="A session that a token of the scope `sessions` may be used in; more than once for more.",
)
@click.option("--expires", default="", metavar="TIME", help="After which it is invalid, as 90d.")
def create(as_json: bool, name: str, scope: str, sessions: tuple[str, ...], expires: str) -> None:
    """Create a token and print it; it cannot be shown again. Needs a running gateway.

    \b
    Scopes:
      talk      the OpenAI API, in sessions of its own, which it can also read
      sessions  the same in the sessions that --session names, and in no other
      read      reads everything and changes nothing
      admin     everything

    \b
    Example:
      export OPENAI_BASE_URL=http://127.0.0.1:8787/v1
      export OPENAI_API_KEY=$(holdfast token create --name laptop --expires 90d)
    """
    from holdfast.core.jobs.parser import parse_duration  # noqa: PLC0415 - seldom needed

    _create(
        as_json,
        {
            "name": name,
            "scope": scope,
            "sessions": list(sessions),
            "expires_in": parse_duration(expires) if expires else None,
        },
    )


@command.command("add", hidden=True)
@home_option
@json_option
@click.option("--role", type=click.Choice(["viewer"]), required=True, help="What the token allows.")
@click.argument("name")
def add(as_json: bool, role: str, name: str) -> None:
    """Create a token of the scope `read`, as version 0.1 named it."""
    _create(as_json, {"name": name, "scope": TokenScope.READ.value})


def _create(as_json: bool, asked: dict[str, object]) -> None:
    made = _post("/tokens", asked)
    if as_json:
        print_json(made)
    else:
        click.echo(made["token"])


@command.command("list")
@home_option
@json_option
def list_tokens(as_json: bool) -> None:
    """List the created tokens: what they allow and when they were used, never their values."""
    listed = ControlClient(Paths(chosen_home())).get("/tokens")
    if as_json:
        print_json(listed)
        return
    if not listed["tokens"]:
        click.echo(_("The only token is the owner's, which `holdfast token` prints."))
        return
    rows = [
        (
            token["name"],
            token["scope"],
            ", ".join(token["sessions"]),
            format_time(token["made_at"]),
            _moment(token["expires_at"], _("never")),
            _moment(token["last_used_at"], _("never")),
        )
        for token in listed["tokens"]
    ]
    titles = (_("NAME"), _("SCOPE"), _("SESSIONS"), _("SINCE"), _("EXPIRES"), _("LAST USED"))
    print_table(titles, rows)


def _moment(at: float | None, otherwise: str) -> str:
    return otherwise if at is None else format_time(at)


@command.command("revoke")
@home_option
@json_option
@click.argument("name", shell_complete=complete_token)
def revoke(as_json: bool, name: str) -> None:
    """Revoke a token at once, with every login that was made with it."""
    revoked = _post("/tokens/revoke", {"name": name})
    if as_json:
        print_json(revoked)
    else:
        click.echo(_("The token {name} is revoked.").format(name=name))


def _post(path: str, body: Mapping[str, object]) -> dict[str, str]:
    answer: dict[str, str] = ControlClient(Paths(chosen_home())).post(path, body)
    return answer


@click.command("link")
@home_option
@json_option
@click.option(
    "--token",
    "--viewer",
    "token",
    default="",
    metavar="NAME",
    shell_complete=complete_token,
    help="Log in with the token NAME, of the scope `read` or `admin`.",
)
@click.option("--open", "open_it", is_flag=True, help="Open it in a browser, if there is one.")
def link_command(as_json: bool, token: str, open_it: bool) -> None:
    """Print a link that opens the page, logged in. It works once.

    \b
    Examples:
      holdfast link --open
      holdfast link --token ann
    """
    link = str(ControlClient(Paths(chosen_home())).post("/login", {"token": token})["link"])
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

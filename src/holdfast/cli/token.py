"""`holdfast token`: the bearer token of the API."""

import click

from holdfast.cli.home import chosen_home, home_option
from holdfast.cli.output import json_option, print_json


@click.command("token")
@home_option
@json_option
def command(as_json: bool) -> None:
    """Print the bearer token of the API; it is made if there is none yet.

    \b
    Example:
      export OPENAI_BASE_URL=http://127.0.0.1:8787/v1 OPENAI_API_KEY=$(holdfast token)
    """
    from holdfast.config import load, prepare_home  # noqa: PLC0415 - not needed for --help
    from holdfast.service.paths import Paths  # noqa: PLC0415 - as above
    from holdfast.service.tokens import api_token  # noqa: PLC0415 - as above

    home = chosen_home()
    prepare_home(home)
    configured = load(home).secret("platforms.api.token")
    token = api_token(Paths(home), configured=configured).reveal()
    if as_json:
        print_json({"token": token})
    else:
        click.echo(token)

"""`holdfast gateway status`: what the supervisor says of the service, then the gateway itself."""

from typing import Any

import click

from holdfast.cli import status
from holdfast.cli.home import chosen_home
from holdfast.cli.services import service_of, tell_kept
from holdfast.service.calling import CallFailed

_FOR_PROGRAMS = ("as_json", "quiet", "watch")


def _told(**options: Any) -> None:
    keeper = None if any(map(options.get, _FOR_PROGRAMS)) else service_of(chosen_home())
    if keeper is not None:
        try:
            tell_kept(keeper, keeper.kept())
        except CallFailed as error:
            click.echo(str(error), err=True)
    click.get_current_context().invoke(status.command, **options)


# The options are those of `holdfast status`, whatever they are.
command = click.Command(
    "status", params=status.command.params, callback=_told, help=status.command.help
)

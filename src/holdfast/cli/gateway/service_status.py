"""`holdfast gateway status`: what the supervisor says of the service, then the gateway itself."""

from pathlib import Path
from typing import Any

import click

from holdfast.cli.common.home import chosen_home
from holdfast.cli.gateway.services import service_of, tell_kept
from holdfast.cli.status import status
from holdfast.core.errors import HoldfastError
from holdfast.service.supervisors.boot_socket import ask_boot
from holdfast.system.paths import Paths

_FOR_PROGRAMS = ("as_json", "quiet", "watch")


def _told(**options: Any) -> None:
    if not any(map(options.get, _FOR_PROGRAMS)):
        _tell_supervisor(chosen_home())
    click.get_current_context().invoke(status.command, **options)


def _tell_supervisor(home: Path) -> None:
    keeper = service_of(home)
    try:
        if keeper is not None:
            tell_kept(keeper, keeper.kept())
        elif (boot := ask_boot(Paths(home), "state")) is not None:
            click.echo(f"the container's boot is {boot}")
    except HoldfastError as error:
        click.echo(str(error), err=True)  # the gateway may answer all the same


# The options are those of `holdfast status`, whatever they are.
command = click.Command(
    "status", params=status.command.params, callback=_told, help=status.command.help
)

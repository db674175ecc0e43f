"""`holdfast gateway status`: what the supervisor says of the service, then the gateway itself."""

from pathlib import Path
from typing import Any

import click

from holdfast.cli.common.home import chosen_home
from holdfast.cli.gateway.services import find_service, print_service_state
from holdfast.cli.status import status
from holdfast.core.errors import HoldfastError
from holdfast.service.supervisors.boot_socket import ask_container_supervisor
from holdfast.system.paths import Paths

_MACHINE_OPTIONS = ("as_json", "quiet", "watch")


def _show_status(**options: Any) -> None:
    if not any(map(options.get, _MACHINE_OPTIONS)):
        _print_supervisor_state(chosen_home())
    click.get_current_context().invoke(status.command, **options)


def _print_supervisor_state(home: Path) -> None:
    keeper = find_service(home)
    try:
        if keeper is not None:
            print_service_state(keeper, keeper.status())
        elif (boot := ask_container_supervisor(Paths(home), "state")) is not None:
            click.echo(f"the container's boot is {boot}")
    except HoldfastError as error:
        click.echo(str(error), err=True)  # the gateway may answer all the same


# The options are those of `holdfast status`, whatever they are.
status_command = click.Command(
    "status", params=status.command.params, callback=_show_status, help=status.command.help
)

"""`holdfast gateway logs`: the gateway's log, and where the supervisor has what came before it."""

import sys
from typing import Any

import click

from holdfast.cli import logs
from holdfast.cli.common.home import chosen_home
from holdfast.cli.gateway.services import find_service


def _show_logs(**options: Any) -> None:
    keeper = find_service(chosen_home()) if sys.stderr.isatty() else None
    if keeper is not None:
        click.echo(f"What it says before it has a log:  {keeper.log_command()}", err=True)
    click.get_current_context().invoke(logs.command, **options)


# The options are those of `holdfast logs`, whatever they are.
logs_command = click.Command(
    "logs", params=logs.command.params, callback=_show_logs, help=logs.command.help
)

"""`holdfast gateway logs`: the gateway's log, and where the supervisor has what came before it."""

import sys
from typing import Any

import click

from holdfast.cli import logs
from holdfast.cli.common.home import chosen_home
from holdfast.cli.gateway.services import service_of


def _read(**options: Any) -> None:
    keeper = service_of(chosen_home()) if sys.stderr.isatty() else None
    if keeper is not None:
        click.echo(f"What it says before it has a log:  {keeper.journal()}", err=True)
    click.get_current_context().invoke(logs.command, **options)


# The options are those of `holdfast logs`, whatever they are.
command = click.Command("logs", params=logs.command.params, callback=_read, help=logs.command.help)

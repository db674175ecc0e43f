"""`holdfast version`: what is installed here."""

import platform

import click

from holdfast import __version__
from holdfast.cli.common.output import json_option, print_json


@click.command("version")
@json_option
def version_command(as_json: bool) -> None:
    """Print the version."""
    if as_json:
        print_json({"holdfast": __version__, "python": platform.python_version()})
    else:
        click.echo(f"holdfast {__version__}")

"""`holdfast gateway start`: the supervisor that keeps this home's gateway is told to start it."""

import click

from holdfast.cli.common.home import chosen_home, home_option


@click.command("start")
@home_option
def start_command() -> None:
    """Start the installed service; returns when the gateway is ready, where that can be told."""
    from holdfast.cli.gateway.service_driving import start  # noqa: PLC0415 - not for --help

    start(chosen_home())

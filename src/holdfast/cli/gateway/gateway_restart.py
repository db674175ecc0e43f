"""`holdfast gateway restart`: the running gateway gives way to a successor; both are watched."""

import click

from holdfast.cli.common.home import chosen_home, home_option
from holdfast.cli.common.output import json_option


@click.command("restart")
@home_option
@json_option
@click.option("--now", is_flag=True, help="Wait for no turn, not even to the end of its step.")
@click.option("--when-idle", is_flag=True, help="Wait until no turn runs; go on meanwhile.")
@click.option("--timeout", type=float, default=120.0, show_default=True, help="Seconds to wait.")
def restart_command(as_json: bool, now: bool, when_idle: bool, timeout: float) -> None:
    """Restart the gateway; what runs goes on in its successor.

    The successor is checked first: where it could not start, the reason is told and the running
    gateway goes on. Exits with 0 when the successor takes messages, 1 when it was refused or is
    not there after the timeout, 3 when no gateway was running.
    """
    from holdfast.cli.gateway.service_driving import restart  # noqa: PLC0415 - not needed for --help

    if now and when_idle:
        raise click.UsageError("--now and --when-idle contradict each other")
    mode = "now" if now else "when_idle" if when_idle else None
    restart(chosen_home(), mode=mode, timeout=timeout, as_json=as_json)

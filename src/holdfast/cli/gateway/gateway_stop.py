"""`holdfast gateway stop`: the running gateway is told to end, and is watched until it has."""

import click

from holdfast.cli.common.home import chosen_home, home_option
from holdfast.cli.common.output import json_option


@click.command("stop")
@home_option
@json_option
@click.option("--now", is_flag=True, help="Wait for no turn, not even for the drain.")
@click.option("--timeout", type=float, default=120.0, show_default=True, help="Seconds to wait.")
def stop_command(as_json: bool, now: bool, timeout: float) -> None:
    """Stop the gateway; it stays down until it is started again.

    Turns that run are cut and go on when it is started. Exits with 0 when it has gone, 3 when
    none was running, 1 when it was still there after the timeout.
    """
    from holdfast.cli.gateway.service_driving import stop  # noqa: PLC0415 - not needed for --help

    stop(chosen_home(), now=now, timeout=timeout, as_json=as_json)

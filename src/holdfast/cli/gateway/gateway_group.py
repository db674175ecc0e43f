"""`holdfast gateway`: the process itself, and the service that keeps it running."""

import click

from holdfast.cli.common.home import home_option
from holdfast.cli.lazy import LazyCommand, LazyGroup

COMMANDS = {
    "run": LazyCommand("holdfast.cli.gateway.run", "Start the gateway and stay in front of it."),
    "install": LazyCommand(
        "holdfast.cli.gateway.service_install", "Have systemd or launchd keep it running."
    ),
    "uninstall": LazyCommand(
        "holdfast.cli.gateway.service_uninstall", "Take that back; its data stay."
    ),
    "start": LazyCommand(
        "holdfast.cli.gateway.service_start", "Start the service that was installed."
    ),
    "stop": LazyCommand(
        "holdfast.cli.gateway.gateway_stop", "Stop it; it stays down until it is started."
    ),
    "restart": LazyCommand(
        "holdfast.cli.gateway.gateway_restart", "Restart it; what runs goes on afterwards."
    ),
    "boot": LazyCommand(
        "holdfast.cli.gateway.gateway_boot", "Keep one running, as a container's first process."
    ),
    "check": LazyCommand(
        "holdfast.cli.gateway.gateway_check", "Say whether a gateway could start here."
    ),
    "status": LazyCommand(
        "holdfast.cli.gateway.service_status", "Ask the running gateway how it is."
    ),
    "logs": LazyCommand("holdfast.cli.gateway.service_logs", "Read the gateway's log."),
}


@click.group("gateway", cls=LazyGroup, lazy=COMMANDS)
@home_option
def command() -> None:
    """Start, stop and restart the gateway of a home.

    \b
    Examples:
      holdfast gateway restart
      holdfast gateway restart --when-idle
      holdfast gateway stop --home /srv/bot
    """

"""`holdfast gateway`: the command group that starts, stops, checks and installs the gateway.

`gateway check` must report code that does not import: keep the imports at the top of this file few and light.
"""

import sys

import click

from holdfast.cli.common.options import chosen_home, home_option
from holdfast.cli.common.output import json_option, print_json
from holdfast.cli.root import LazyCommand, LazyGroup
from holdfast.core.errors import HoldfastError

COMMANDS = {
    "run": LazyCommand("holdfast.cli.gateway.run", "Start the gateway and stay in front of it."),
    "install": LazyCommand(
        "holdfast.cli.gateway.command:install_command", "Have systemd or launchd keep it running."
    ),
    "uninstall": LazyCommand(
        "holdfast.cli.gateway.command:uninstall_command", "Take that back; its data stay."
    ),
    "start": LazyCommand(
        "holdfast.cli.gateway.command:start_command", "Start the service that was installed."
    ),
    "stop": LazyCommand(
        "holdfast.cli.gateway.command:stop_command", "Stop it; it stays down until it is started."
    ),
    "restart": LazyCommand(
        "holdfast.cli.gateway.command:restart_command", "Restart it; what runs goes on afterwards."
    ),
    "boot": LazyCommand(
        "holdfast.cli.gateway.command:boot_command",
        "Keep one running, as a container's first process.",
    ),
    "check": LazyCommand(
        "holdfast.cli.gateway.command:check_command", "Say whether a gateway could start here."
    ),
    "status": LazyCommand(
        "holdfast.cli.gateway.lifecycle:status_command", "Ask the running gateway how it is."
    ),
    "logs": LazyCommand("holdfast.cli.gateway.lifecycle:logs_command", "Read the gateway's log."),
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


@click.command("boot")
@home_option
def boot_command() -> None:
    """Keep a gateway running, as the first process of a container.

    It starts one unless somebody stopped it, starts it again when it ends (after growing waits,
    where it fails), and passes signals on to it. Once it is stopped, or its configuration is
    wrong, this waits for `holdfast gateway start`. It ends with the container.
    """
    from holdfast.cli.gateway.lifecycle import boot  # noqa: PLC0415 - not needed for --help

    sys.exit(boot(chosen_home()))


@click.command("check")
@home_option
@json_option
@click.option("--port", type=click.IntRange(0, 65535), help="As it would be given to `run`.")
@click.option("--schema", type=int, default=0, hidden=True)
def check_command(as_json: bool, port: int | None, schema: int) -> None:
    """Say whether a gateway could start here; nothing is started or changed.

    What is on disk is tried: the configuration, the code and all that it imports, the store's
    version, the model, memory providers, and the sandbox where one is required. Exits with 0 if
    it would start, 78 if the configuration is wrong, and 1 if anything else is.
    """
    try:
        _check_can_start(port, schema)
    except HoldfastError as error:
        if not as_json:
            raise
        from holdfast.cli.root import exit_code  # noqa: PLC0415 - as it is when it is raised

        print_json({"ok": False, "error": str(error)})
        sys.exit(exit_code(error))
    if as_json:
        print_json({"ok": True})
    else:
        click.echo(f"A gateway would start in {chosen_home()}.")


def _check_can_start(port: int | None, schema: int) -> None:
    overrides = {} if port is None else {"gateway.port": port}
    try:
        from holdfast.cli.gateway.takeover import check_can_start  # noqa: PLC0415 - what does not import is told
        from holdfast.config import load  # noqa: PLC0415 - as above

        check_can_start(load(chosen_home(), overrides=overrides), schema=schema)
    except HoldfastError:
        raise
    except Exception as error:  # the edge of the process: code on disk that does not even import
        raise HoldfastError(
            f"{type(error).__name__}: {error}. The installation is broken: install it again."
        ) from error


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
    from holdfast.cli.gateway.lifecycle import restart  # noqa: PLC0415 - not needed for --help

    if now and when_idle:
        raise click.UsageError("--now and --when-idle contradict each other")
    mode = "now" if now else "when_idle" if when_idle else None
    restart(chosen_home(), mode=mode, timeout=timeout, as_json=as_json)


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
    from holdfast.cli.gateway.lifecycle import stop  # noqa: PLC0415 - not needed for --help

    stop(chosen_home(), now=now, timeout=timeout, as_json=as_json)


@click.command("install")
@home_option
@click.option("--user", "scope", flag_value="user", help="For you alone.  [default, but for root]")
@click.option("--system", "scope", flag_value="system", help="For the machine; needs root.")
@click.option("--run-as", metavar="USER", help="Whose rights a system unit's gateway has.")
@click.option("--name", default="", help="The unit's, beside another one: holdfast-NAME.")
@click.option("--force", is_flag=True, help="Write over a unit that is different.")
@click.option("--dry-run", is_flag=True, help="Show what would be written and called.")
def install_command(
    scope: str | None, run_as: str | None, name: str, force: bool, dry_run: bool
) -> None:
    """Write a unit for systemd or launchd, from the configuration, and have it started at boot.

    Nothing is started. A unit that is there and right is left alone; one that is different is
    shown, and written over with --force.

    \b
    Examples:
      holdfast gateway install
      sudo holdfast gateway install --system --run-as holdfast --home /var/lib/holdfast
      holdfast gateway install --home /srv/bot --name bot --dry-run
    """
    from holdfast.cli.gateway.install import (
        InstallOptions,  # noqa: PLC0415 - as above
        install_service,  # noqa: PLC0415 - not for --help
    )

    install_service(
        InstallOptions(scope=scope, run_as=run_as, name=name, force=force, dry_run=dry_run)
    )


@click.command("uninstall")
@home_option
@click.option("--dry-run", is_flag=True, help="Show what would be called and removed.")
def uninstall_command(dry_run: bool) -> None:
    """Stop the gateway and remove its unit; the home and all that is in it stay.

    Only a unit that `holdfast gateway install` wrote is removed.
    """
    from holdfast.cli.gateway.install import uninstall_service  # noqa: PLC0415 - not for --help

    uninstall_service(chosen_home(), dry_run=dry_run)


@click.command("start")
@home_option
def start_command() -> None:
    """Start the installed service; returns when the gateway is ready, where that can be told."""
    from holdfast.cli.gateway.lifecycle import start  # noqa: PLC0415 - not for --help

    start(chosen_home())

"""`holdfast gateway`: the command group that starts, stops, checks and installs the gateway.

`gateway check` must report code that does not import: keep the imports at the top of this file few
and light.
"""

import sys

import click

from holdfast.cli.common.options import chosen_home, home_option
from holdfast.cli.common.output import json_option, print_json
from holdfast.cli.root import LazyCommand, LazyGroup, exit_code
from holdfast.core.errors import HoldfastError
from holdfast.core.text.translation import N_, _

COMMANDS = {
    "run": LazyCommand("holdfast.cli.gateway.run", N_("Start the gateway in the foreground.")),
    "install": LazyCommand(
        "holdfast.cli.gateway.command:install_command",
        N_("Install a unit of systemd or launchd that keeps it running."),
    ),
    "uninstall": LazyCommand(
        "holdfast.cli.gateway.command:uninstall_command",
        N_("Remove the installed unit; the data are kept."),
    ),
    "start": LazyCommand(
        "holdfast.cli.gateway.command:start_command", N_("Start the installed service.")
    ),
    "stop": LazyCommand(
        "holdfast.cli.gateway.command:stop_command",
        N_("Stop the gateway; it stays down until it is started."),
    ),
    "restart": LazyCommand(
        "holdfast.cli.gateway.command:restart_command",
        N_("Restart the gateway; running turns continue afterwards."),
    ),
    "boot": LazyCommand(
        "holdfast.cli.gateway.command:boot_command",
        N_("Keep a gateway running, as the first process of a container."),
    ),
    "check": LazyCommand(
        "holdfast.cli.gateway.command:check_command",
        N_("Check whether a gateway could start here."),
    ),
    "status": LazyCommand(
        "holdfast.cli.gateway.lifecycle:status_command",
        N_("Show the status of the running gateway."),
    ),
    "logs": LazyCommand(
        "holdfast.cli.gateway.lifecycle:logs_command", N_("Read the gateway's log.")
    ),
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

    Starts the gateway unless it was stopped, restarts it when it ends (with growing delays, if it
    fails), and forwards signals to it. Once the gateway is stopped, or its configuration is wrong,
    this process waits for `holdfast gateway start`. It ends with the container.
    """
    from holdfast.cli.gateway.lifecycle import boot  # noqa: PLC0415 - not needed for --help

    sys.exit(boot(chosen_home()))


@click.command("check")
@home_option
@json_option
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="Check this port; 0: any free port.  [default: gateway.port]",
)
@click.option("--schema", type=int, default=0, hidden=True)
def check_command(as_json: bool, port: int | None, schema: int) -> None:
    """Check whether a gateway could start here; nothing is started or changed.

    Checks what is on disk: the configuration, the code and all its imports, the version of
    the store, the model and the memory providers. Exits with 0 if
    a gateway would start, 78 if the configuration is wrong, and 1 if anything else is wrong.
    """
    try:
        _check_can_start(port, schema)
    except HoldfastError as error:
        if not as_json:
            raise
        print_json({"ok": False, "error": error.for_person()})
        sys.exit(exit_code(error))
    if as_json:
        print_json({"ok": True})
    else:
        click.echo(_("A gateway would start in {home}.").format(home=chosen_home()))


def _check_can_start(port: int | None, schema: int) -> None:
    overrides = {} if port is None else {"gateway.port": port}
    try:
        # Imported here: an import that fails is what this command reports.
        from holdfast.cli.gateway.takeover import check_can_start  # noqa: PLC0415
        from holdfast.config import load  # noqa: PLC0415

        check_can_start(load(chosen_home(), overrides=overrides), schema=schema)
    except HoldfastError:
        raise
    except Exception as error:  # the edge of the process: code on disk may not even import
        raise HoldfastError(
            "The installation is broken: {type}: {error}. Install Holdfast again.",
            type=type(error).__name__,
            error=error,
        ) from error


@click.command("restart")
@home_option
@json_option
@click.option("--now", is_flag=True, help="Do not wait for running turns.")
@click.option("--when-idle", is_flag=True, help="Restart as soon as no turn is running.")
@click.option(
    "--timeout",
    type=float,
    default=120.0,
    show_default=True,
    help="Wait at most this many seconds.",
)
def restart_command(as_json: bool, now: bool, when_idle: bool, timeout: float) -> None:
    """Restart the gateway; running turns continue in the new process.

    The new process is checked first: if it could not start, the reason is printed and the running
    gateway stays. Exits with 0 when the new process accepts messages, 1 when it could not start or
    is not ready after the timeout, 3 when no gateway was running.
    """
    from holdfast.cli.gateway.lifecycle import restart  # noqa: PLC0415 - not needed for --help

    if now and when_idle:
        raise click.UsageError(_("--now and --when-idle exclude each other. Give one of them."))
    mode = "now" if now else "when_idle" if when_idle else None
    restart(chosen_home(), mode=mode, timeout=timeout, as_json=as_json)


@click.command("stop")
@home_option
@json_option
@click.option("--now", is_flag=True, help="Do not wait for running turns.")
@click.option(
    "--timeout",
    type=float,
    default=120.0,
    show_default=True,
    help="Wait at most this many seconds.",
)
def stop_command(as_json: bool, now: bool, timeout: float) -> None:
    """Stop the gateway; it stays down until it is started again.

    Running turns are interrupted and continue when it is started. Exits with 0 when it has
    stopped, 3 when none was running, 1 when it still runs after the timeout.
    """
    from holdfast.cli.gateway.lifecycle import stop  # noqa: PLC0415 - not needed for --help

    stop(chosen_home(), now=now, timeout=timeout, as_json=as_json)


@click.command("install")
@home_option
@click.option(
    "--user",
    "scope",
    flag_value="user",
    help="Install the unit for you only.  [default, except for root]",
)
@click.option(
    "--system", "scope", flag_value="system", help="Install the unit for the machine; needs root."
)
@click.option("--run-as", metavar="USER", help="The user that a system unit runs as.")
@click.option("--name", default="", help="Install a second unit: holdfast-NAME.")
@click.option("--force", is_flag=True, help="Overwrite a unit that differs.")
@click.option("--dry-run", is_flag=True, help="Show what would be written and run.")
def install_command(
    scope: str | None, run_as: str | None, name: str, force: bool, dry_run: bool
) -> None:
    """Write a unit for systemd or launchd, from the configuration, and enable it at boot.

    On macOS, the tools of agents do not work: runners need Linux.

    Starts nothing. A unit that is up to date is not changed; one that differs is shown, and
    overwritten with --force.

    \b
    Examples:
      holdfast gateway install
      sudo holdfast gateway install --system --run-as holdfast --home /var/lib/holdfast
      holdfast gateway install --home /srv/bot --name bot --dry-run
    """
    from holdfast.cli.gateway.install import InstallOptions, install_service  # noqa: PLC0415

    install_service(
        InstallOptions(scope=scope, run_as=run_as, name=name, force=force, dry_run=dry_run)
    )


@click.command("uninstall")
@home_option
@click.option("--dry-run", is_flag=True, help="Show what would be run and removed.")
def uninstall_command(dry_run: bool) -> None:
    """Stop the gateway and remove its unit; the home stays.

    Only a unit that `holdfast gateway install` wrote is removed.
    """
    from holdfast.cli.gateway.install import uninstall_service  # noqa: PLC0415 - not for --help

    uninstall_service(chosen_home(), dry_run=dry_run)


@click.command("start")
@home_option
def start_command() -> None:
    """Start the installed service; returns when the gateway is ready, if that is known."""
    from holdfast.cli.gateway.lifecycle import start  # noqa: PLC0415 - not for --help

    start(chosen_home())

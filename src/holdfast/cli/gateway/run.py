"""`holdfast run`: starts the gateway in the foreground, or in place of the one that runs.

The order of the imports inside `command` matters: see docs/decisions/0047.
"""

import os
import sys
from typing import TYPE_CHECKING

import click

from holdfast.cli.common.options import chosen_home, home_option
from holdfast.core.text.translation import use_catalogue
from holdfast.system.languages import catalogue_for

if TYPE_CHECKING:
    import socket

    from holdfast.config import Config
    from holdfast.system.lock import HomeLock


@click.command("run")
@home_option
@click.option(
    "--port", type=click.IntRange(0, 65535), help="Listen on this port; 0: any free port."
)
@click.option("--replace", is_flag=True, help="Replace the running gateway without a gap.")
@click.option("--unattended", is_flag=True, hidden=True)
# The version before this one starts its successor with --understudy.
@click.option("--standby-fd", "--understudy", "standby_fd", type=int, hidden=True)
def command(port: int | None, replace: bool, unattended: bool, standby_fd: int | None) -> None:
    """Start the gateway in the foreground; Ctrl-C stops it.

    Without any configuration it listens on 127.0.0.1:8787 and answers with a demo model that
    needs no key. With --replace, the running gateway of this home hands over to this one: new
    connections wait, running turns continue, and nothing is lost.

    \b
    Examples:
      holdfast run
      holdfast run --replace
      holdfast run --home /srv/bot --port 9000
      HOLDFAST_MODEL_PROVIDER=openai HOLDFAST_MODEL_NAME=gpt-5 \\
        HOLDFAST_MODEL_API_KEY=env:OPENAI_API_KEY holdfast run
    """
    from holdfast.system.runtime import disable_gc  # noqa: PLC0415 - as below

    disable_gc()
    from holdfast.config import load, prepare_home  # noqa: PLC0415 - not needed for --help
    from holdfast.config.home import pop_variables  # noqa: PLC0415 - as above
    from holdfast.system.sockets import LISTEN_VARIABLES, adopt_inherited  # noqa: PLC0415 - as above

    sockets = adopt_inherited(pop_variables(LISTEN_VARIABLES), pid=os.getpid())
    home = chosen_home()
    prepare_home(home)
    config = load(home, overrides={} if port is None else {"gateway.port": port})
    from holdfast.system.runtime import import_aiohttp  # noqa: PLC0415 - as below

    import_aiohttp()
    from holdfast.service.main import run  # noqa: PLC0415 - after the check of the configuration
    from holdfast.service.start import LaunchOptions  # noqa: PLC0415 - as above
    from holdfast.system import exit_codes  # noqa: PLC0415 - as above
    from holdfast.system.exit_codes import launchd_exit_code  # noqa: PLC0415 - as above
    from holdfast.system.lock import HomeLock  # noqa: PLC0415 - as above

    lock = HomeLock(home)
    if standby_fd is not None:
        _wait_for_go_signal(config, lock, standby_fd)
    if replace:
        sockets = [*sockets, *_take_over(config, lock)]
    # The gateway does not answer in the language of the shell that started it.
    with use_catalogue(catalogue_for(config.settings.gateway.language)):
        code = run(config, LaunchOptions(lock=lock, sockets=sockets, unattended=unattended))
    exit_codes.exit_now(launchd_exit_code(code, config.environ))


def _wait_for_go_signal(config: "Config", lock: "HomeLock", fd: int) -> None:
    """Returns with the lock held; exits if this process is not released."""
    from holdfast.cli.gateway.takeover import check_can_start  # noqa: PLC0415 - only a restart asks for it
    from holdfast.cli.root import exit_code  # noqa: PLC0415 - as above
    from holdfast.core.errors import HoldfastError  # noqa: PLC0415 - as above
    from holdfast.service.successor import StandbyChannel  # noqa: PLC0415 - as above
    from holdfast.store.implementations import closed_store  # noqa: PLC0415 - as above
    from holdfast.system.paths import Paths  # noqa: PLC0415 - as above

    channel = StandbyChannel(fd)
    try:
        check_can_start(config)
    except HoldfastError as error:
        channel.report(error=str(error))
        sys.exit(exit_code(error))
    channel.report(schema=closed_store(Paths(config.home).db, config.store).newest_schema)
    if not channel.wait_for_release():
        sys.exit(0)
    lock.wait()


def _take_over(config: "Config", lock: "HomeLock") -> "list[socket.socket]":
    from holdfast.cli.gateway.takeover import RestartDelegated, Takeover  # noqa: PLC0415 - few replace

    try:
        return Takeover(config, lock=lock, report=_print_progress).take_over()
    except RestartDelegated as delegated:
        click.echo(delegated.for_person())
        sys.exit(0)


def _print_progress(text: str) -> None:
    click.echo(f"  {text}", err=True)

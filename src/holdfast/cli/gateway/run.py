"""`holdfast run`: start the gateway in the foreground, or in place of the one that runs."""

import os
import sys
from typing import TYPE_CHECKING

import click

from holdfast.cli.common.home import chosen_home, home_option

if TYPE_CHECKING:
    import socket

    from holdfast.config import Config
    from holdfast.system.lock import HomeLock


@click.command("run")
@home_option
@click.option(
    "--port", type=click.IntRange(0, 65535), help="Listen here instead; 0: any free port."
)
@click.option(
    "--replace", is_flag=True, help="Take the place of the gateway that runs, without a gap."
)
@click.option("--unattended", is_flag=True, hidden=True)
@click.option("--understudy", type=int, hidden=True)
def command(port: int | None, replace: bool, unattended: bool, understudy: int | None) -> None:
    """Start the gateway and stay in front of it; Ctrl-C ends it.

    Without any configuration it listens on 127.0.0.1:8787 and answers with a demo model that
    needs no key. With --replace, a gateway that runs in this home hands over to this one: who
    connects meanwhile waits, what runs goes on, and nothing is lost.

    \b
    Examples:
      holdfast run
      holdfast run --replace
      holdfast run --home /srv/bot --port 9000
      HOLDFAST_MODEL_PROVIDER=openai HOLDFAST_MODEL_NAME=gpt-5 \\
        HOLDFAST_MODEL_API_KEY=env:OPENAI_API_KEY holdfast run
    """
    from holdfast.service.garbage import uncollected_from_here  # noqa: PLC0415 - as below

    uncollected_from_here()
    from holdfast.config import load, prepare_home  # noqa: PLC0415 - not needed for --help
    from holdfast.config.surroundings import handed_down  # noqa: PLC0415 - as above
    from holdfast.system.sockets import VARIABLES, adopt  # noqa: PLC0415 - as above

    sockets = adopt(handed_down(VARIABLES), pid=os.getpid())
    home = chosen_home()
    prepare_home(home)
    config = load(home, overrides={} if port is None else {"gateway.port": port})
    from holdfast.service.lookup import import_aiohttp  # noqa: PLC0415 - as below

    import_aiohttp()
    from holdfast.service.ground import Ground  # noqa: PLC0415 - as above
    from holdfast.service.main import run  # noqa: PLC0415 - a wrong configuration is told before the wait
    from holdfast.system import exits  # noqa: PLC0415 - as above
    from holdfast.system.launchd_exit import exit_for  # noqa: PLC0415 - as above
    from holdfast.system.lock import HomeLock  # noqa: PLC0415 - as above

    lock = HomeLock(home)
    if understudy is not None:
        _await_cue(config, lock, understudy)
    if replace:
        sockets = [*sockets, *_taken_over(config, lock)]
    code = run(config, Ground(lock=lock, sockets=sockets, unattended=unattended))
    exits.leave(exit_for(code, config.environ))


def _await_cue(config: "Config", lock: "HomeLock", line: int) -> None:
    """Returns with the lock held; without a cue this process ends here."""
    from holdfast.cli.gateway.fitness import check  # noqa: PLC0415 - only a restart asks for it
    from holdfast.cli.root import exit_code  # noqa: PLC0415 - as above
    from holdfast.core.errors import HoldfastError  # noqa: PLC0415 - as above
    from holdfast.service.understudy import Cue  # noqa: PLC0415 - as above
    from holdfast.store.sqlite.schema import migrations  # noqa: PLC0415 - as above

    cue = Cue(line)
    try:
        check(config)
    except HoldfastError as error:
        cue.tell(error=str(error))
        sys.exit(exit_code(error))
    cue.tell(schema=len(migrations()))
    if not cue.comes():
        sys.exit(0)
    lock.wait()


def _taken_over(config: "Config", lock: "HomeLock") -> "list[socket.socket]":
    from holdfast.cli.gateway.replacing import Delegated, Replacement  # noqa: PLC0415 - few replace

    try:
        return Replacement(config, lock=lock, tell=_tell).take_over()
    except Delegated as delegated:
        click.echo(str(delegated))
        sys.exit(0)


def _tell(text: str) -> None:
    click.echo(f"  {text}", err=True)

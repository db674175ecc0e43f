"""Driving a service: started, stopped and restarted so that supervisor and gateway agree."""

from contextlib import suppress
from pathlib import Path

import click

from holdfast.cli.gateway.departing import restart as restart_gateway
from holdfast.cli.gateway.departing import stop as stop_gateway
from holdfast.cli.gateway.services import NoService, service_of, tell_kept
from holdfast.server.local.client import GatewayDown
from holdfast.service.supervisors.boot_socket import ask_boot
from holdfast.service.supervisors.keeping import Keeper
from holdfast.system.paths import Paths

_LONGEST = 900.0  # seconds that a removal waits for a stop


def start(home: Path) -> None:
    keeper = service_of(home)
    if keeper is not None:
        keeper.start()
        tell_kept(keeper, keeper.kept())
    elif not _booted(home):
        raise NoService(home)


def _booted(home: Path) -> bool:
    """The container's first process was asked; False: this is no container with one."""
    answer = ask_boot(Paths(home), "start")
    if answer is not None:
        click.echo(f"The container's boot is {answer}; `holdfast status` says when it is ready.")
    return answer is not None


def stop(home: Path, *, now: bool, timeout: float, as_json: bool) -> None:
    """The gateway is told first, so that it is an operator's stop and stays one; then its
    supervisor, which may be about to start it again."""
    keeper = service_of(home)
    try:
        stop_gateway(home, now=now, timeout=timeout, as_json=as_json)
    except GatewayDown:
        if keeper is None or not keeper.kept().in_hand:
            raise
        click.echo(f"No gateway was running; {keeper.name} is told not to start one.", err=True)
    if keeper is not None and keeper.kept().in_hand:
        keeper.stop()


def restart(home: Path, *, mode: str | None, timeout: float, as_json: bool) -> None:
    """The gateway knows its supervisor and asks it. Where none runs, its supervisor is asked."""
    keeper = service_of(home)
    try:
        restart_gateway(home, mode=mode, timeout=timeout, as_json=as_json)
    except GatewayDown:
        if keeper is None and not _booted(home):
            raise
        if keeper is not None:
            click.echo(f"No gateway was running; {keeper.name} is started.", err=True)
            keeper.restart()


def halt(home: Path, keeper: Keeper) -> None:
    """Whatever runs of this service ends, and is not started again."""
    with suppress(GatewayDown):  # its supervisor is told all the same
        stop_gateway(home, now=False, timeout=_LONGEST, as_json=False)
    if keeper.kept().in_hand:
        keeper.stop()

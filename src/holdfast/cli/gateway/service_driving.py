"""Driving a service: started, stopped and restarted so that supervisor and gateway agree."""

from contextlib import suppress
from pathlib import Path

import click

from holdfast.cli.gateway.departing import restart_gateway, stop_gateway
from holdfast.cli.gateway.services import ServiceNotInstalled, find_service, print_service_state
from holdfast.server.local.client import GatewayDown
from holdfast.service.supervisors.boot_socket import ask_container_supervisor
from holdfast.service.supervisors.keeping import SupervisorBackend
from holdfast.system.paths import Paths

_REMOVAL_STOP_TIMEOUT = 900.0  # seconds that a removal waits for a stop


def start(home: Path) -> None:
    keeper = find_service(home)
    if keeper is not None:
        keeper.start()
        print_service_state(keeper, keeper.status())
    elif not _ask_boot_process(home):
        raise ServiceNotInstalled(home)


def _ask_boot_process(home: Path) -> bool:
    """The container's first process was asked; False: this is no container with one."""
    answer = ask_container_supervisor(Paths(home), "start")
    if answer is not None:
        click.echo(f"The container's boot is {answer}; `holdfast status` says when it is ready.")
    return answer is not None


def stop(home: Path, *, now: bool, timeout: float, as_json: bool) -> None:
    """The gateway is told first, so that it is an operator's stop and stays one; then its
    supervisor, which may be about to start it again."""
    keeper = find_service(home)
    try:
        stop_gateway(home, now=now, timeout=timeout, as_json=as_json)
    except GatewayDown:
        if keeper is None or not keeper.status().active:
            raise
        click.echo(f"No gateway was running; {keeper.name} is told not to start one.", err=True)
    if keeper is not None and keeper.status().active:
        keeper.stop()


def restart(home: Path, *, mode: str | None, timeout: float, as_json: bool) -> None:
    """The gateway knows its supervisor and asks it. Where none runs, its supervisor is asked."""
    keeper = find_service(home)
    try:
        restart_gateway(home, mode=mode, timeout=timeout, as_json=as_json)
    except GatewayDown:
        if keeper is None and not _ask_boot_process(home):
            raise
        if keeper is not None:
            click.echo(f"No gateway was running; {keeper.name} is started.", err=True)
            keeper.restart()


def stop_for_removal(home: Path, service: SupervisorBackend) -> None:
    """Whatever runs of this service ends, and is not started again."""
    with suppress(GatewayDown):  # its supervisor is told all the same
        stop_gateway(home, now=False, timeout=_REMOVAL_STOP_TIMEOUT, as_json=False)
    if service.status().active:
        service.stop()

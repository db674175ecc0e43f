"""Booting: what the first process of a container is made of."""

from collections.abc import Sequence
from pathlib import Path

import click

from holdfast.config import prepare_home
from holdfast.config.surroundings import process_environment
from holdfast.service.backoff import RestartBackoff
from holdfast.service.heard import SignalQueue
from holdfast.service.intent import IntentFile
from holdfast.service.offspring import GatewayLauncher
from holdfast.service.successor import module_command, successor_environ
from holdfast.service.supervisors.boot import HANDLED_SIGNALS, ContainerSupervisor
from holdfast.service.supervisors.boot_socket import ContainerSocket
from holdfast.service.supervisors.supervisor import BOOT_VARIABLE
from holdfast.system.clock import SystemClock
from holdfast.system.paths import Paths, private_dir


def boot(home: Path, *, command: Sequence[str] = (), backoff: RestartBackoff | None = None) -> int:
    """Returns when the container is told to end. `command`: what is started, if not this very
    program."""
    prepare_home(home)
    paths, clock = Paths(home), SystemClock()
    intent = IntentFile(paths.intent, now=clock.now)
    folder = str(private_dir(paths.run))
    # The signals first: one that comes before anybody listens would end the container at once,
    # or, as it is the first process of its world, be lost.
    with (
        SignalQueue(HANDLED_SIGNALS) as signals,
        GatewayLauncher(folder) as nest,
        ContainerSocket(paths) as door,
    ):
        return ContainerSupervisor(
            [*(command or module_command()), "run", "--home", str(home)],
            environ=successor_environ(process_environment()) | {BOOT_VARIABLE: "1"},
            launcher=nest,
            control=door,
            signals=signals,
            intent=intent.read,
            clock=clock,
            report=_print_boot_message,
            backoff=backoff,
        ).run()


def _print_boot_message(text: str) -> None:
    click.echo(f"boot: {text}", err=True)

"""Booting: what the first process of a container is made of."""

from collections.abc import Sequence
from pathlib import Path

import click

from holdfast.config import prepare_home
from holdfast.config.surroundings import surroundings
from holdfast.service.backoff import Backoff
from holdfast.service.heard import HeardSignals
from holdfast.service.intent import IntentFile
from holdfast.service.offspring import Nest
from holdfast.service.successor import inherited, program
from holdfast.service.supervisors.boot import HEARD, Boot
from holdfast.service.supervisors.boot_socket import BootSocket
from holdfast.service.supervisors.supervisor import BOOT
from holdfast.system.clock import SystemClock
from holdfast.system.paths import Paths, private_dir


def boot(home: Path, *, command: Sequence[str] = (), backoff: Backoff | None = None) -> int:
    """Returns when the container is told to end. `command`: what is started, if not this very
    program."""
    prepare_home(home)
    paths, clock = Paths(home), SystemClock()
    intent = IntentFile(paths.intent, now=clock.now)
    folder = str(private_dir(paths.run))
    # The signals first: one that comes before anybody listens would end the container at once,
    # or, as it is the first process of its world, be lost.
    with HeardSignals(HEARD) as signals, Nest(folder) as nest, BootSocket(paths) as door:
        return Boot(
            [*(command or program()), "run", "--home", str(home)],
            environ=inherited(surroundings()) | {BOOT: "1"},
            nest=nest,
            door=door,
            signals=signals,
            intent=intent.read,
            clock=clock,
            tell=_tell,
            backoff=backoff,
        ).run()


def _tell(text: str) -> None:
    click.echo(f"boot: {text}", err=True)

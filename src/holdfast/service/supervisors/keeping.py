"""Keeping: what every supervisor can be asked about the one gateway that it keeps."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from holdfast.service.supervisors.drift import UnitProblem
from holdfast.service.supervisors.unit import Unit, UnitScope


class UnitStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What a supervisor says of its unit; its own words, for people."""

    state: str  # "active (running)"
    active: bool  # it runs, or its supervisor may start it by itself
    failed: bool = False
    pid: int = 0
    restarts: int = 0  # by the supervisor itself, since it was last started by hand
    enabled: bool = False


class SupervisorBackend(Protocol):
    """One installed unit, or one about to be, and the supervisor that it belongs to."""

    @property
    def name(self) -> str:
        """As its supervisor calls it: `holdfast.service`."""
        ...

    @property
    def scope(self) -> UnitScope: ...
    @property
    def file(self) -> Path: ...
    def start(self) -> None:
        """Returns when the gateway is ready, where the supervisor can tell."""
        ...

    def stop(self) -> None:
        """Returns when it has gone and will not be started again by itself."""
        ...

    def restart(self) -> None: ...
    def status(self) -> UnitStatus: ...
    def check_available(self) -> None:
        """Raises where there are only the supervisor's programs, and no supervisor."""
        ...

    def render(self, unit: Unit) -> bytes:
        """The file as it is to be."""
        ...

    def home(self) -> Path | None:
        """The home of the unit that is installed; None: none is, or not for any home."""
        ...

    def is_ours(self) -> bool:
        """What is installed was written by us, and nobody else has a say in it."""
        ...

    def problems(self, unit: Unit) -> list[UnitProblem]:
        """Where the installed file disagrees with what is needed."""
        ...

    def commands_after_install(self) -> Sequence[Sequence[str]]:
        """The calls that make a written file count, from now on and at each boot."""
        ...

    def commands_before_removal(self) -> Sequence[Sequence[str]]: ...
    def commands_after_removal(self) -> Sequence[Sequence[str]]: ...
    def log_command(self) -> str:
        """The command that shows what the gateway printed before it had a log."""
        ...

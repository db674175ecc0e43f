"""The drift of a home's unit, read again only when one of its files has changed."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from holdfast.core.config.settings import GatewaySettings
from holdfast.service.supervisors.fitting import default_home, unit_drift
from holdfast.service.supervisors.installed import SupervisorBackends
from holdfast.service.supervisors.unit import UnitScope


class UnitDriftCache:
    """Owns what was found last. To look through the folders of units takes hundreds of small
    reads, and each may wait for a busy event loop; to see that nothing changed takes four."""

    def __init__(
        self, home: Path, settings: GatewaySettings, *, backends: SupervisorBackends
    ) -> None:
        self._home = home
        self._settings = settings
        self._backends = backends
        self._files: list[Path] = [backends.unit_dir(scope) for scope in UnitScope]
        self._mtimes: list[int] = []
        self._problems: Sequence[str] = ()

    def drift(self) -> Sequence[str]:
        """A sentence for each thing in which the unit disagrees with the configuration."""
        if [_mtime(file) for file in self._files] != self._mtimes:
            self._refresh()
        return self._problems

    def _refresh(self) -> None:
        keeper = self._backends.find_unit(
            self._home, default_home=default_home(self._backends.environ)
        )
        own = () if keeper is None else _unit_files(keeper.file)
        self._files = [*(self._backends.unit_dir(scope) for scope in UnitScope), *own]
        self._mtimes = [_mtime(file) for file in self._files]
        try:
            self._problems = unit_drift(self._home, self._settings, backends=self._backends)
        except OSError as error:
            self._problems = [f"The unit of this gateway cannot be read: {error}."]


def _unit_files(unit: Path) -> Iterator[Path]:
    """The file, and what `systemctl edit` put over it."""
    over = unit.with_name(f"{unit.name}.d")
    yield from (unit, over, *sorted(over.glob("*.conf")))


def _mtime(file: Path) -> int:
    """When it last did; 0: it is not there."""
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0

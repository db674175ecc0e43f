"""The drift of a home's unit, read again only when one of its files has changed."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from holdfast.core.config.settings import GatewaySettings
from holdfast.service.supervisors.fitting import default_home, unit_drift
from holdfast.service.supervisors.installed import Supervision
from holdfast.service.supervisors.unit import Scope


class UnitWatch:
    """Owns what was found last. To look through the folders of units takes hundreds of small
    reads, and each may wait for a busy event loop; to see that nothing changed takes four."""

    def __init__(self, home: Path, settings: GatewaySettings, *, where: Supervision) -> None:
        self._home = home
        self._settings = settings
        self._where = where
        self._files: list[Path] = [where.folder(scope) for scope in Scope]
        self._traces: list[int] = []
        self._found: Sequence[str] = ()

    def drift(self) -> Sequence[str]:
        """A sentence for each thing in which the unit disagrees with the configuration."""
        if [_changed(file) for file in self._files] != self._traces:
            self._read()
        return self._found

    def _read(self) -> None:
        keeper = self._where.of(self._home, default_home=default_home(self._where.environ))
        own = () if keeper is None else _parts(keeper.file)
        self._files = [*(self._where.folder(scope) for scope in Scope), *own]
        self._traces = [_changed(file) for file in self._files]
        try:
            self._found = unit_drift(self._home, self._settings, where=self._where)
        except OSError as error:
            self._found = [f"The unit of this gateway cannot be read: {error}."]


def _parts(unit: Path) -> Iterator[Path]:
    """The file, and what `systemctl edit` put over it."""
    over = unit.with_name(f"{unit.name}.d")
    yield from (unit, over, *sorted(over.glob("*.conf")))


def _changed(file: Path) -> int:
    """When it last did; 0: it is not there."""
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0

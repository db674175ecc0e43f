"""The backups: whether there are any, how old the newest is, and whether it is on another disk."""

import time
from collections.abc import Iterable

from holdfast.cli.backup_place import configured_backup_dir, load_backup_settings
from holdfast.cli.common.output import format_duration
from holdfast.cli.doctor.finding import ExaminedHome, FindingLevel, HealthFinding, ok_finding
from holdfast.core.config.settings import BackupSettings
from holdfast.store.backup import directory

_HOUR = 3600.0
_LATE_PERIODS = 2  # periods after which the newest should have a successor


class BackupsCheck:
    name = "backups"

    def run(self, examined: ExaminedHome) -> Iterable[HealthFinding]:
        settings = load_backup_settings(examined.home)
        place = configured_backup_dir(examined.home, settings)
        whole = [one for one in directory.list_backups(place) if one.manifest is not None]
        if not whole:
            yield self._missing_backup(examined, settings)
            return
        age = max(0.0, time.time() - whole[0].made_at)
        newest = f"newest of {len(whole)} backups" if len(whole) > 1 else "only backup"
        told = f"The {newest} in {place} is {format_duration(age)} old."
        if settings.every_hours and age > _LATE_PERIODS * settings.every_hours * _HOUR:
            yield self._late_backup(told)
        else:
            yield ok_finding(told)

    def _missing_backup(self, examined: ExaminedHome, settings: BackupSettings) -> HealthFinding:
        if settings.every_hours or not examined.paths.db.exists():
            return ok_finding("There is no backup yet; the gateway makes one by itself.")
        return HealthFinding(
            level=FindingLevel.WARNING,
            what="There is no backup, and `backup.every_hours` is 0.",
            why="A disk that fails takes every conversation with it.",
            remedy="holdfast backup create, or set `backup.every_hours`.",
        )

    def _late_backup(self, what: str) -> HealthFinding:
        return HealthFinding(
            level=FindingLevel.WARNING,
            what=what,
            why="What was said since is nowhere else.",
            remedy="holdfast backup create; `holdfast logs` may say why the gateway makes none.",
        )

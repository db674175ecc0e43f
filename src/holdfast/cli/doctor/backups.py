"""The backups: whether there are any, how old the newest is, and whether it is on another disk."""

import time
from collections.abc import Iterable

from holdfast.cli.backup_place import backup_settings, folder
from holdfast.cli.common.output import duration
from holdfast.cli.doctor.finding import Finding, Level, Patient, fine
from holdfast.core.config.settings import BackupSettings
from holdfast.store.backup import directory

_HOUR = 3600.0
_LATE = 2  # periods after which the newest should have a successor


class Backups:
    name = "backups"

    def look(self, patient: Patient) -> Iterable[Finding]:
        settings = backup_settings(patient.home)
        place = folder(patient.home, settings)
        whole = [one for one in directory.kept(place) if one.manifest is not None]
        if not whole:
            yield self._none(patient, settings)
            return
        age = max(0.0, time.time() - whole[0].made_at)
        newest = f"newest of {len(whole)} backups" if len(whole) > 1 else "only backup"
        told = f"The {newest} in {place} is {duration(age)} old."
        if settings.every_hours and age > _LATE * settings.every_hours * _HOUR:
            yield self._late(told)
        else:
            yield fine(told)

    def _none(self, patient: Patient, settings: BackupSettings) -> Finding:
        if settings.every_hours or not patient.paths.db.exists():
            return fine("There is no backup yet; the gateway makes one by itself.")
        return Finding(
            level=Level.WARNING,
            what="There is no backup, and `backup.every_hours` is 0.",
            why="A disk that fails takes every conversation with it.",
            remedy="holdfast backup create, or set `backup.every_hours`.",
        )

    def _late(self, told: str) -> Finding:
        return Finding(
            level=Level.WARNING,
            what=told,
            why="What was said since is nowhere else.",
            remedy="holdfast backup create; `holdfast logs` may say why the gateway makes none.",
        )

"""Units: what a supervisor was told about this gateway, held against its configuration."""

import os
from collections.abc import Iterable
from pathlib import Path

from holdfast.cli.checks.finding import Finding, Level, Patient, fine
from holdfast.core.settings import GatewaySettings
from holdfast.service import unit_file


class Units:
    name = "units"

    def look(self, patient: Patient) -> Iterable[Finding]:
        installed = [file for file in unit_file.places(Path.home()) if file.is_file()]
        if not installed:
            yield fine("No systemd unit is installed; the gateway runs while you run it.")
        settings = patient.config.settings.gateway if patient.config else GatewaySettings()
        for file in installed:
            yield from self._judge(file, settings)

    def _judge(self, file: Path, settings: GatewaySettings) -> Iterable[Finding]:
        text = file.read_text(encoding="utf-8", errors="replace")
        wrong = [found for found in (_stop(file, text, settings), _program(file, text)) if found]
        yield from wrong or [fine(f"{file} fits the configuration.")]


def _stop(file: Path, text: str, settings: GatewaySettings) -> Finding | None:
    given = unit_file.stop_seconds(text)
    needed = unit_file.stop_seconds_needed(
        drain=settings.restart_drain_timeout, park=settings.park_timeout
    )
    if given is not None and given >= needed:
        return None
    told = "no time that can be read" if given is None else f"{given:g} s"
    return Finding(
        level=Level.WARNING,
        what=f"{file} gives a stop {told}; this configuration may need {needed:g} s.",
        why="systemd would kill it half-way: nothing is lost, but turns are cut.",
        remedy=f"Write TimeoutStopSec={needed:g} there, then run systemctl daemon-reload.",
    )


def _program(file: Path, text: str) -> Finding | None:
    program = unit_file.program(text)
    if program is not None and os.access(program, os.X_OK):
        return None
    return Finding(
        level=Level.PROBLEM,
        what=f"{file} starts {program or 'nothing'}, which is no program here.",
        why="The gateway does not come back after a boot or a crash.",
        remedy="Write the path of holdfast into its ExecStart, then run systemctl daemon-reload.",
    )

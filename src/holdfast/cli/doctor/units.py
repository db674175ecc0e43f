"""Units: what a supervisor was told about this gateway, held against its configuration."""

import os
from collections.abc import Iterable

from holdfast.cli.doctor.finding import ExaminedHome, FindingLevel, HealthFinding, ok_finding
from holdfast.config.surroundings import process_environment
from holdfast.core.config.settings import GatewaySettings
from holdfast.service.supervisors.drift import repair_command
from holdfast.service.supervisors.fitting import default_home, needed_unit
from holdfast.service.supervisors.installed import supervisor_backends
from holdfast.service.supervisors.keeping import SupervisorBackend


class UnitCheck:
    name = "units"

    def run(self, examined: ExaminedHome) -> Iterable[HealthFinding]:
        environ = process_environment()
        where = supervisor_backends(environ, user_id=os.getuid())
        keeper = where.find_unit(examined.home, default_home=default_home(environ))
        if keeper is None:
            yield ok_finding("No unit is installed; the gateway runs while you run it.")
            return
        yield from self._compare_unit(keeper, examined)

    def _compare_unit(
        self, service: SupervisorBackend, examined: ExaminedHome
    ) -> Iterable[HealthFinding]:
        settings = examined.config.settings.gateway if examined.config else GatewaySettings()
        unit = needed_unit(
            examined.home,
            settings,
            environ=process_environment(),
            scope=service.scope,
            name=service.file.stem,
        )
        found = [
            HealthFinding(
                level=FindingLevel.PROBLEM if each.broken else FindingLevel.WARNING,
                what=f"{service.file} {each.what}.",
                why=each.why,
                remedy=repair_command(unit),
            )
            for each in service.problems(unit)
        ]
        yield from found or [ok_finding(f"{service.file} fits the configuration.")]

"""Units: what a supervisor was told about this gateway, held against its configuration."""

import os
from collections.abc import Iterable

from holdfast.cli.doctor.finding import Finding, Level, Patient, fine
from holdfast.config.surroundings import surroundings
from holdfast.core.config.settings import GatewaySettings
from holdfast.service.supervisors.drift import mend
from holdfast.service.supervisors.fitting import default_home, needed
from holdfast.service.supervisors.installed import supervision
from holdfast.service.supervisors.keeping import Keeper


class Units:
    name = "units"

    def look(self, patient: Patient) -> Iterable[Finding]:
        environ = surroundings()
        where = supervision(environ, user_id=os.getuid())
        keeper = where.of(patient.home, default_home=default_home(environ))
        if keeper is None:
            yield fine("No unit is installed; the gateway runs while you run it.")
            return
        yield from self._judge(keeper, patient)

    def _judge(self, keeper: Keeper, patient: Patient) -> Iterable[Finding]:
        settings = patient.config.settings.gateway if patient.config else GatewaySettings()
        unit = needed(
            patient.home,
            settings,
            environ=surroundings(),
            scope=keeper.scope,
            name=keeper.file.stem,
        )
        found = [
            Finding(
                level=Level.PROBLEM if each.broken else Level.WARNING,
                what=f"{keeper.file} {each.what}.",
                why=each.why,
                remedy=mend(unit),
            )
            for each in keeper.wrong(unit)
        ]
        yield from found or [fine(f"{keeper.file} fits the configuration.")]

"""The contents: the configuration, the database with its search index, and the model."""

import asyncio
from collections.abc import Iterable

from holdfast.cli.doctor.damage import damaged
from holdfast.cli.doctor.finding import Finding, Level, Patient, fine
from holdfast.cli.doctor.stored import Stored, look_into, rebuild
from holdfast.config import ConfigError, load
from holdfast.core.errors import HoldfastError, StoreDamaged
from holdfast.store.sqlite.inspection import has_log

_TOLD = 3  # faults of a damaged file: the first say as much as the hundredth


class Configuration:
    name = "config"

    def look(self, patient: Patient) -> Iterable[Finding]:
        try:
            config = load(patient.home)
        except ConfigError as error:
            yield Finding(
                level=Level.PROBLEM,
                what=str(error),
                why="The gateway does not start with it; one that runs goes on with the old one.",
                remedy="Mend it, then `holdfast config check`.",
            )
            return
        for warning in config.warnings:
            yield Finding(
                level=Level.WARNING,
                what=str(warning),
                why="It is probably not what you meant.",
                remedy="`holdfast config show` has what counts, and where it comes from.",
            )
        if not config.warnings:
            yield fine("The configuration is sound.")


class Database:
    name = "database"

    def look(self, patient: Patient) -> Iterable[Finding]:
        if not (patient.paths.db.exists() or has_log(patient.paths.db)):
            yield fine("Nothing was stored yet.")
            return
        try:
            found = look_into(patient)
        except StoreDamaged as error:
            yield damaged(patient, str(error))
            return
        except HoldfastError as error:
            yield Finding(
                level=Level.PROBLEM,
                what=str(error),
                why="The gateway does not start, or accepts nothing, until it can be used.",
                remedy="The message says what to do; nothing was changed.",
            )
            return
        yield self._file(patient, found)
        if not (found.problems or found.behind):
            yield self._search(patient, found)

    def _file(self, patient: Patient, found: Stored) -> Finding:
        if not found.problems:
            older = " It is of an older version, and brought up by the next start."
            sound = "The database is sound: every page of it was read."
            return fine(sound + (older if found.behind else ""))
        first, more = found.problems[:_TOLD], len(found.problems[_TOLD:])
        told = "; ".join(first) + (f"; and {more} more" if more else "")
        return damaged(patient, f"{patient.paths.db} is damaged: {told}")

    def _search(self, patient: Patient, found: Stored) -> Finding:
        if not found.search_problem:
            return fine(f"The search knows {found.search.messages} messages.")
        return Finding(
            level=Level.WARNING,
            what=f"The search does not work: {found.search_problem}",
            why="Nothing is lost, but nothing that was said is found.",
            remedy="holdfast search --rebuild",
            mend=lambda: rebuild(patient),
        )


class Model:
    """Calls it, as `holdfast models check` does."""

    name = "model"

    def look(self, patient: Patient) -> Iterable[Finding]:
        if patient.config is None:
            return
        # Here, because it brings every codec and the whole of HTTP with it.
        from holdfast.cli.models_asked import checked  # noqa: PLC0415 - see above

        try:
            found = asyncio.run(checked(patient.home, None))
        except HoldfastError as error:
            yield _unusable(str(error), first=True)
            return
        for place, each in enumerate(found):
            if each.checkup.reachable:
                yield fine(f"{each.name} ({each.provider}) answers.")
            else:
                told = f"{each.name} ({each.provider}): {each.checkup.problem}"
                yield _unusable(told, first=place == 0)


def _unusable(told: str, *, first: bool) -> Finding:
    return Finding(
        level=Level.PROBLEM if first else Level.WARNING,
        what=told,
        why="No message can be answered by it." if first else "It cannot stand in when it has to.",
        remedy="`holdfast setup` chooses a model and tries it; `holdfast models check` calls it.",
    )

"""The contents: the configuration, the database with its search index, and the model."""

import asyncio
from collections.abc import Iterable

from holdfast.cli.doctor.damage import damaged_database
from holdfast.cli.doctor.finding import ExaminedHome, FindingLevel, HealthFinding, ok_finding
from holdfast.cli.doctor.stored import DatabaseReport, inspect_database, rebuild_search_index
from holdfast.config import ConfigError, load
from holdfast.core.errors import HoldfastError, StoreDamaged
from holdfast.store.sqlite.inspection import has_wal

_MAX_PROBLEMS_LISTED = 3  # faults of a damaged file: the first say as much as the hundredth


class ConfigCheck:
    name = "config"

    def run(self, examined: ExaminedHome) -> Iterable[HealthFinding]:
        try:
            config = load(examined.home)
        except ConfigError as error:
            yield HealthFinding(
                level=FindingLevel.PROBLEM,
                what=str(error),
                why="The gateway does not start with it; one that runs goes on with the old one.",
                remedy="Mend it, then `holdfast config check`.",
            )
            return
        for warning in config.warnings:
            yield HealthFinding(
                level=FindingLevel.WARNING,
                what=str(warning),
                why="It is probably not what you meant.",
                remedy="`holdfast config show` has what counts, and where it comes from.",
            )
        if not config.warnings:
            yield ok_finding("The configuration is sound.")


class DatabaseCheck:
    name = "database"

    def run(self, examined: ExaminedHome) -> Iterable[HealthFinding]:
        if not (examined.paths.db.exists() or has_wal(examined.paths.db)):
            yield ok_finding("Nothing was stored yet.")
            return
        try:
            found = inspect_database(examined)
        except StoreDamaged as error:
            yield damaged_database(examined, str(error))
            return
        except HoldfastError as error:
            yield HealthFinding(
                level=FindingLevel.PROBLEM,
                what=str(error),
                why="The gateway does not start, or accepts nothing, until it can be used.",
                remedy="The message says what to do; nothing was changed.",
            )
            return
        yield self._file_finding(examined, found)
        if not (found.problems or found.behind):
            yield self._search_finding(examined, found)

    def _file_finding(self, examined: ExaminedHome, report: DatabaseReport) -> HealthFinding:
        if not report.problems:
            older = " It is of an older version, and brought up by the next start."
            sound = "The database is sound: every page of it was read."
            return ok_finding(sound + (older if report.behind else ""))
        first, more = (
            report.problems[:_MAX_PROBLEMS_LISTED],
            len(report.problems[_MAX_PROBLEMS_LISTED:]),
        )
        told = "; ".join(first) + (f"; and {more} more" if more else "")
        return damaged_database(examined, f"{examined.paths.db} is damaged: {told}")

    def _search_finding(self, examined: ExaminedHome, report: DatabaseReport) -> HealthFinding:
        if not report.search_problem:
            return ok_finding(f"The search knows {report.search.messages} messages.")
        return HealthFinding(
            level=FindingLevel.WARNING,
            what=f"The search does not work: {report.search_problem}",
            why="Nothing is lost, but nothing that was said is found.",
            remedy="holdfast search --rebuild",
            fix=lambda: rebuild_search_index(examined),
        )


class ModelHealthCheck:
    """Calls it, as `holdfast models check` does."""

    name = "model"

    def run(self, examined: ExaminedHome) -> Iterable[HealthFinding]:
        if examined.config is None:
            return
        # Here, because it brings every codec and the whole of HTTP with it.
        from holdfast.cli.models_asked import probe_models  # noqa: PLC0415 - see above

        try:
            found = asyncio.run(probe_models(examined.home, None))
        except HoldfastError as error:
            yield _unusable_model(str(error), first=True)
            return
        for place, each in enumerate(found):
            if each.checkup.reachable:
                yield ok_finding(f"{each.name} ({each.provider}) answers.")
            else:
                told = f"{each.name} ({each.provider}): {each.checkup.problem}"
                yield _unusable_model(told, first=place == 0)


def _unusable_model(what: str, *, first: bool) -> HealthFinding:
    return HealthFinding(
        level=FindingLevel.PROBLEM if first else FindingLevel.WARNING,
        what=what,
        why="No message can be answered by it." if first else "It cannot stand in when it has to.",
        remedy="`holdfast setup` chooses a model and tries it; `holdfast models check` calls it.",
    )

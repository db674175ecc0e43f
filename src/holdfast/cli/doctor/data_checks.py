"""Health checks of the configuration, the database with its search index, and the model."""

import asyncio
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import click
import msgspec

from holdfast.cli.backup import backup_dir, staging_dir_beside
from holdfast.cli.common.connection import api_client_for
from holdfast.cli.common.offline import query_store
from holdfast.cli.common.output import format_duration, sanitize
from holdfast.cli.doctor.finding import ExaminedHome, FindingLevel, HealthFinding, ok_finding
from holdfast.cli.restore import LOCK_PURPOSE, restore_under_lock, salvage_under_lock
from holdfast.config import ConfigError, load
from holdfast.core.errors import HoldfastError, StoreDamaged, StoreError
from holdfast.core.ops.backup import InvalidBackup
from holdfast.core.ports.store import Store
from holdfast.server.api.views.gateway import SearchIndexView, StoreView, search_index_view
from holdfast.store.backup import create, directory
from holdfast.store.backup.directory import StoredBackup
from holdfast.store.sqlite.connection import check_closed_store
from holdfast.store.sqlite.file_check import has_wal
from holdfast.system.lock import HomeLock

_LOCK_PURPOSE = "holdfast doctor"
_INSPECTION_TIMEOUT = 600.0  # seconds at the most: every page of the file is read
_EMPTY_SEARCH = SearchIndexView(messages=0, pending_sessions=0, bytes=0)


class DatabaseReport(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with the file, page by page, and with the index beside it. `behind`: it is of
    an older schema, and was not opened as a store, which would bring it up to the present one."""

    problems: list[str]
    search: SearchIndexView
    search_problem: str = ""
    behind: bool = False


def inspect_database(examined: ExaminedHome) -> DatabaseReport:
    if examined.running:
        view = api_client_for(examined.home, timeout=_INSPECTION_TIMEOUT).get("/store", StoreView)
        return DatabaseReport(**msgspec.structs.asdict(view))
    with HomeLock(examined.home, purpose=_LOCK_PURPOSE):
        found = check_closed_store(examined.paths.db)
    if found.problems or found.needs_migration:
        return DatabaseReport(
            problems=found.problems, search=_EMPTY_SEARCH, behind=found.needs_migration
        )
    return query_store(examined.home, _read_search_state, purpose=_LOCK_PURPOSE) or DatabaseReport(
        problems=[], search=_EMPTY_SEARCH
    )


async def _read_search_state(store: Store) -> DatabaseReport:
    try:
        state = await store.search_state()
    except StoreError as error:
        return DatabaseReport(problems=[], search=_EMPTY_SEARCH, search_problem=str(error))
    return DatabaseReport(problems=[], search=search_index_view(state))


def rebuild_search_index(examined: ExaminedHome) -> str:
    if examined.running:
        view = api_client_for(examined.home, timeout=_INSPECTION_TIMEOUT).post(
            "/search/rebuild", {}, SearchIndexView
        )
        return _rebuilt_text(view.messages)

    async def anew(store: Store) -> int:
        return (await store.rebuild_search_index()).messages

    return _rebuilt_text(query_store(examined.home, anew, purpose=_LOCK_PURPOSE) or 0)


def _rebuilt_text(messages: int) -> str:
    return f"The search index was made anew: {messages} messages."


def damaged_database(examined: ExaminedHome, what: str) -> HealthFinding:
    """Nothing is done about it but by a person's word; what is there is set aside then."""
    good = newest_valid_backup(backup_dir(examined.home))
    stop = "Stop the gateway, then " if examined.running else ""
    offers = ["`holdfast restore --salvage` (what can be read of it)"]
    if good is not None:
        offers.insert(0, f"`holdfast restore {good.name}` ({_describe_backup(good)})")
    asked = not examined.running and sys.stdin.isatty()
    return HealthFinding(
        level=FindingLevel.PROBLEM,
        what=what,
        why="Nothing is written to it any more, so that no message is accepted.",
        remedy=f"{stop}{', or '.join(offers)}. Each sets this file aside and deletes nothing.",
        fix=_interactive_fix(examined.home, what, good) if asked else None,
    )


def newest_valid_backup(folder: Path) -> StoredBackup | None:
    """The newest that can be opened, each tried in its turn."""
    for one in directory.list_backups(folder):
        try:
            with staging_dir_beside(one.path) as room:
                create.verify_backup(one.path, room, progress=lambda done: None)
        except InvalidBackup:
            continue
        return one
    return None


def _describe_backup(backup: StoredBackup) -> str:
    assert backup.manifest is not None, "it was verified"
    return f"{format_duration(max(0.0, time.time() - backup.made_at))} old, {backup.manifest.describe()}"


def _interactive_fix(home: Path, what: str, backup: StoredBackup | None) -> Callable[[], str]:
    def mend() -> str:
        click.echo(f"\n    {sanitize(what)}\n    It can be mended in more than one way:")
        if backup is not None:
            click.echo(f"      restore  the newest good backup ({_describe_backup(backup)})")
        click.echo("      salvage  save what can be read of it, and count what is lost")
        click.echo("      leave    do nothing now")
        ways = [*(["restore"] if backup is not None else []), "salvage", "leave"]
        chosen = click.prompt("    Which", type=click.Choice(ways), default="leave")
        if chosen == "leave":
            raise HoldfastError("it was left as it is.")
        with HomeLock(home, purpose=LOCK_PURPOSE):
            return _restore_backup(home, backup) if chosen == "restore" else _salvage_database(home)

    return mend


def _restore_backup(home: Path, backup: StoredBackup | None) -> str:
    assert backup is not None, "it was offered"
    restored = restore_under_lock(home, backup.path)
    return f"{restored.manifest.describe()} are back; set aside: {', '.join(restored.aside)}"


def _salvage_database(home: Path) -> str:
    saved, aside = salvage_under_lock(home)
    return f"{saved.summary()}; set aside: {aside}"


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
        from holdfast.cli.models import probe_models  # noqa: PLC0415 - see above

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

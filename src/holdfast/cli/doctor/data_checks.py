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
from holdfast.cli.common.output import sanitize
from holdfast.cli.doctor.finding import ExaminedHome, FindingLevel, HealthFinding, ok_finding
from holdfast.cli.restore import LOCK_PURPOSE, recover_under_lock, restore_under_lock
from holdfast.config import ConfigError, load
from holdfast.core.errors import HoldfastError, StoreDamaged, StoreError
from holdfast.core.ops.backup import InvalidBackup
from holdfast.core.ports.store import Store
from holdfast.core.ports.store_queries import GetSearchStatus
from holdfast.core.text.locale_format import format_duration
from holdfast.core.text.translation import _
from holdfast.server.api.views.gateway import SearchIndexView, StoreView, search_index_view
from holdfast.store.backup import create, directory
from holdfast.store.backup.directory import StoredBackup
from holdfast.store.sqlite.connection import check_closed_store
from holdfast.store.sqlite.file_check import has_wal
from holdfast.system.lock import HomeLock

_LOCK_PURPOSE = "holdfast doctor"
_INSPECTION_TIMEOUT = 600.0  # seconds; every page of the file is read
_EMPTY_SEARCH = SearchIndexView(messages=0, pending_sessions=0, bytes=0)


class DatabaseReport(msgspec.Struct, frozen=True, kw_only=True):
    """The problems of the file, page by page, and of the search index. `behind`: the schema is
    older; it was not opened as a store, which would migrate it."""

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
        state = await store.read(GetSearchStatus())
    except StoreError as error:
        return DatabaseReport(problems=[], search=_EMPTY_SEARCH, search_problem=str(error))
    return DatabaseReport(problems=[], search=search_index_view(state))


def rebuild_search_index(examined: ExaminedHome) -> str:
    if examined.running:
        view = api_client_for(examined.home, timeout=_INSPECTION_TIMEOUT).post(
            "/search/rebuild", {}, SearchIndexView
        )
        return _rebuilt_text(view.messages)

    async def rebuild(store: Store) -> int:
        return (await store.rebuild_search_index()).messages

    return _rebuilt_text(query_store(examined.home, rebuild, purpose=_LOCK_PURPOSE) or 0)


def _rebuilt_text(messages: int) -> str:
    return _("The search index was rebuilt: {messages} messages.").format(messages=messages)


def damaged_database(examined: ExaminedHome, what: str) -> HealthFinding:
    """A fix needs a decision of the user; it moves the damaged file aside."""
    good = newest_valid_backup(backup_dir(examined.home))
    stop = _("Stop the gateway, then ") if examined.running else ""
    offers = [_("`holdfast restore --recover` (what is readable)")]
    if good is not None:
        offers.insert(
            0,
            _("`holdfast restore {name}` ({describe_backup})").format(
                name=good.name, describe_backup=_describe_backup(good)
            ),
        )
    can_ask = not examined.running and sys.stdin.isatty()
    return HealthFinding(
        level=FindingLevel.PROBLEM,
        what=what,
        why=_("Nothing can be written to it, so no message is accepted."),
        remedy=_("{stop}{offers}. Each moves this file aside and deletes nothing.").format(
            stop=stop, offers=", or ".join(offers)
        ),
        fix=_interactive_fix(examined.home, what, good) if can_ask else None,
    )


def newest_valid_backup(folder: Path) -> StoredBackup | None:
    """The newest backup that can be opened."""
    for one in directory.list_backups(folder):
        try:
            with staging_dir_beside(one.path) as folder:
                create.verify_backup(one.path, folder, progress=lambda done: None)
        except InvalidBackup:
            continue
        return one
    return None


def _describe_backup(backup: StoredBackup) -> str:
    assert backup.manifest is not None, "it was verified"
    age = format_duration(max(0.0, time.time() - backup.made_at))
    return _("{age} old, {describe}").format(age=age, describe=backup.manifest.describe())


def _interactive_fix(home: Path, what: str, backup: StoredBackup | None) -> Callable[[], str]:
    def choose_fix() -> str:
        click.echo(
            _("\n    {what}\n    There is more than one way to fix it:").format(what=sanitize(what))
        )
        if backup is not None:
            click.echo(
                _("      restore  the newest good backup ({describe_backup})").format(
                    describe_backup=_describe_backup(backup)
                )
            )
        click.echo(_("      recover  recover what is readable, and count what is lost"))
        click.echo(_("      leave    do nothing now"))
        choices = [*(["restore"] if backup is not None else []), "recover", "leave"]
        chosen = click.prompt(_("    Which"), type=click.Choice(choices), default="leave")
        if chosen == "leave":
            raise HoldfastError("it was left as it is.")
        with HomeLock(home, purpose=LOCK_PURPOSE):
            return _restore_backup(home, backup) if chosen == "restore" else _recover_database(home)

    return choose_fix


def _restore_backup(home: Path, backup: StoredBackup | None) -> str:
    assert backup is not None, "it was offered"
    restored = restore_under_lock(home, backup.path)
    moved = ", ".join(restored.previous_files)
    return _("{describe} are back; moved aside: {moved}").format(
        describe=restored.manifest.describe(), moved=moved
    )


def _recover_database(home: Path) -> str:
    saved, aside = recover_under_lock(home)
    return _("{summary}; moved aside: {aside}").format(summary=saved.summary(), aside=aside)


_MAX_PROBLEMS_LISTED = 3


def check_config(examined: ExaminedHome) -> Iterable[HealthFinding]:
    try:
        config = load(examined.home)
    except ConfigError as error:
        yield HealthFinding(
            level=FindingLevel.PROBLEM,
            what=str(error),
            why=_("The gateway does not start with it; a running one keeps the old one."),
            remedy=_("Correct it, then run `holdfast config check`."),
        )
        return
    for warning in config.warnings:
        yield HealthFinding(
            level=FindingLevel.WARNING,
            what=str(warning),
            why=_("It is probably not what you meant."),
            remedy=_("`holdfast config show` lists the values and where they come from."),
        )
    if not config.warnings:
        yield ok_finding(_("The configuration is valid."))


def check_database(examined: ExaminedHome) -> Iterable[HealthFinding]:
    if not (examined.paths.db.exists() or has_wal(examined.paths.db)):
        yield ok_finding(_("Nothing was stored yet."))
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
            why=_("The gateway does not start, or accepts nothing, until it can be used."),
            remedy=_("The message says what to do; nothing was changed."),
        )
        return
    yield _file_finding(examined, found)
    if not (found.problems or found.behind):
        yield _search_finding(examined, found)


def _file_finding(examined: ExaminedHome, report: DatabaseReport) -> HealthFinding:
    if not report.problems:
        older = _(" It is of an older version; the next start migrates it.")
        sound = _("The database is sound: every page of it was read.")
        return ok_finding(sound + (older if report.behind else ""))
    first, more = (
        report.problems[:_MAX_PROBLEMS_LISTED],
        len(report.problems[_MAX_PROBLEMS_LISTED:]),
    )
    listed = "; ".join(first) + (_("; and {more} more").format(more=more) if more else "")
    return damaged_database(
        examined, _("{db} is damaged: {listed}").format(db=examined.paths.db, listed=listed)
    )


def _search_finding(examined: ExaminedHome, report: DatabaseReport) -> HealthFinding:
    if not report.search_problem:
        return ok_finding(
            _("The search index has {messages} messages.").format(messages=report.search.messages)
        )
    return HealthFinding(
        level=FindingLevel.WARNING,
        what=_("The search does not work: {search_problem}").format(
            search_problem=report.search_problem
        ),
        why=_("Nothing is lost, but no message is found."),
        remedy=_("holdfast search --rebuild"),
        fix=lambda: rebuild_search_index(examined),
    )


def check_model(examined: ExaminedHome) -> Iterable[HealthFinding]:
    """Calls the models, as `holdfast models check` does."""
    if examined.config is None:
        return
    from holdfast.cli.models import probe_models  # noqa: PLC0415 - brings HTTP and all codecs

    try:
        found = asyncio.run(probe_models(examined.home, None))
    except HoldfastError as error:
        yield _unusable_model(str(error), first=True)
        return
    for index, each in enumerate(found):
        if each.checkup.reachable:
            yield ok_finding(
                _("{name} ({provider}) answers.").format(name=each.name, provider=each.provider)
            )
        else:
            problem = f"{each.name} ({each.provider}): {each.checkup.problem}"
            yield _unusable_model(problem, first=index == 0)


def _unusable_model(what: str, *, first: bool) -> HealthFinding:
    return HealthFinding(
        level=FindingLevel.PROBLEM if first else FindingLevel.WARNING,
        what=what,
        why=_("No message can be answered by it.")
        if first
        else _("It cannot be used as a fallback."),
        remedy=_("`holdfast setup` chooses and tests a model; `holdfast models check` calls it."),
    )

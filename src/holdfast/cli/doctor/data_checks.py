"""Health checks of the configuration, the database with its search index, and the model."""

import asyncio
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import click
import msgspec

from holdfast.cli.backup import backup_dir, staging_dir_beside
from holdfast.cli.common.connection import api_client_for, query_api
from holdfast.cli.common.offline import query_store
from holdfast.cli.common.output import sanitize
from holdfast.cli.doctor.finding import (
    ExaminedHome,
    FindingLevel,
    HealthFinding,
    ok_finding,
    problem_finding,
)
from holdfast.cli.restore import LOCK_PURPOSE, recover_under_lock, restore_under_lock
from holdfast.cli.search import REBUILD_TIMEOUT, request_rebuild
from holdfast.config import ConfigError, load
from holdfast.core.errors import HoldfastError, StoreDamaged, StoreError
from holdfast.core.ops.backup import InvalidBackup
from holdfast.core.ops.status import FAILURES_SHOWN_FOR, Failures
from holdfast.core.ports.store import Store
from holdfast.core.ports.store_queries import GetFailures, GetSearchStatus
from holdfast.core.text.locale_format import format_duration
from holdfast.core.text.translation import _, _n
from holdfast.server.api.views.gateway import SearchIndexView, StoreView, search_index_view
from holdfast.server.status.problems import failure_problems
from holdfast.store.backup import create, directory
from holdfast.store.backup.directory import StoredBackup
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
    failures: Failures = Failures()  # of a gateway that is down; a running one reports its own


def inspect_database(examined: ExaminedHome) -> DatabaseReport:
    if examined.running:
        view = api_client_for(examined.home, timeout=_INSPECTION_TIMEOUT).get("/store", StoreView)
        return DatabaseReport(**msgspec.structs.asdict(view))
    with HomeLock(examined.home, purpose=_LOCK_PURPOSE):
        found = examined.store.check()
    if found.problems or found.needs_migration:
        return DatabaseReport(
            problems=found.problems, search=_EMPTY_SEARCH, behind=found.needs_migration
        )
    return query_store(examined.home, _read_report, purpose=_LOCK_PURPOSE) or DatabaseReport(
        problems=[], search=_EMPTY_SEARCH
    )


async def _read_report(store: Store) -> DatabaseReport:
    failures = await store.read(GetFailures(since=time.time() - FAILURES_SHOWN_FOR))
    return msgspec.structs.replace(await _read_search_state(store), failures=failures)


async def _read_search_state(store: Store) -> DatabaseReport:
    try:
        state = await store.read(GetSearchStatus())
    except StoreError as error:
        return DatabaseReport(problems=[], search=_EMPTY_SEARCH, search_problem=error.for_person())
    return DatabaseReport(problems=[], search=search_index_view(state))


def rebuild_search_index(examined: ExaminedHome) -> str:
    n = query_api(
        examined.home, request_rebuild, purpose=_LOCK_PURPOSE, timeout=REBUILD_TIMEOUT
    ).messages
    return _n(
        "The search index was rebuilt: {n} message.",
        "The search index was rebuilt: {n} messages.",
        n,
    ).format(n=n)


def damaged_database(examined: ExaminedHome, what: str) -> HealthFinding:
    """A fix needs a decision of the user; it moves the damaged file aside."""
    good = newest_valid_backup(backup_dir(examined.home))
    if good is None:
        remedy = _(
            "Run `holdfast restore --recover`, which recovers the readable data. It moves this "
            "file aside and deletes nothing."
        )
    else:
        remedy = _(
            "Run `holdfast restore {name}` ({backup}), or `holdfast restore --recover`, which "
            "recovers the readable data. Both move this file aside and delete nothing."
        ).format(name=good.name, backup=_describe_backup(good))
    if examined.running:
        remedy = " ".join((_("Stop the gateway first."), remedy))
    can_ask = not examined.running and sys.stdin.isatty()
    return HealthFinding(
        level=FindingLevel.PROBLEM,
        what=what,
        why=_("Nothing can be written to it, so no message is accepted."),
        remedy=remedy,
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
    return _("{age} old, {contents}").format(age=age, contents=backup.manifest.describe())


def _interactive_fix(home: Path, what: str, backup: StoredBackup | None) -> Callable[[], str]:
    def choose_fix() -> str:
        choices = {
            "recover": _("recover the readable data, and count what is lost"),
            "leave": _("do nothing now"),
        }
        if backup is not None:
            newest = _("restore the newest good backup ({backup})")
            choices = {"restore": newest.format(backup=_describe_backup(backup))} | choices
        click.echo(f"\n    {sanitize(what)}")
        click.echo("    " + _("There is more than one way to fix it:"))
        for name, effect in choices.items():
            click.echo(f"      {name:<8} {effect}")
        question = "    " + _("Which")
        chosen = click.prompt(question, type=click.Choice([*choices]), default="leave")
        if chosen == "leave":
            raise HoldfastError(
                "The database was left as it is: still damaged. Run `holdfast doctor` "
                "again to repair it."
            )
        with HomeLock(home, purpose=LOCK_PURPOSE):
            return _restore_backup(home, backup) if chosen == "restore" else _recover_database(home)

    return choose_fix


def _restore_backup(home: Path, backup: StoredBackup | None) -> str:
    assert backup is not None, "it was offered"
    restored = restore_under_lock(home, backup.path)
    moved = ", ".join(restored.previous_files)
    return _("Restored: {contents}. Moved aside: {files}.").format(
        contents=restored.manifest.describe(), files=moved
    )


def _recover_database(home: Path) -> str:
    saved, aside = recover_under_lock(home)
    return f"{saved.summary()} {_('Moved aside: {files}.').format(files=aside)}"


_MAX_PROBLEMS_LISTED = 3


def check_config(examined: ExaminedHome) -> Iterable[HealthFinding]:
    try:
        config = load(examined.home)
    except ConfigError as error:
        yield HealthFinding(
            level=FindingLevel.PROBLEM,
            what=error.for_person(),
            why=_("A gateway does not start with it; a running gateway keeps the last good one."),
            remedy=_("Correct the configuration, then run `holdfast config check`."),
        )
        return
    for warning in config.warnings:
        yield HealthFinding(
            level=FindingLevel.WARNING,
            what=str(warning),
            why=_("The setting is probably not what you meant."),
            remedy=_("`holdfast config show` lists the values and where they are set."),
        )
    if not config.warnings:
        yield ok_finding(_("The configuration is valid."))


def check_database(examined: ExaminedHome) -> Iterable[HealthFinding]:
    if not examined.store.exists():
        yield ok_finding(_("There is no database yet."))
        return
    try:
        found = inspect_database(examined)
    except StoreDamaged as error:
        yield damaged_database(examined, error.for_person())
        return
    except HoldfastError as error:
        yield HealthFinding(
            level=FindingLevel.PROBLEM,
            what=error.for_person(),
            why=_("The gateway does not start, or accepts no messages, until the database works."),
            remedy=_("Do what the message says. Nothing was changed."),
        )
        return
    yield _file_finding(examined, found)
    if not (found.problems or found.behind):
        yield _search_finding(examined, found)
    yield from map(problem_finding, failure_problems(found.failures))


def _file_finding(examined: ExaminedHome, report: DatabaseReport) -> HealthFinding:
    if not report.problems:
        texts = [_("The database is sound: every page was read.")]
        if report.behind:
            texts.append(_("It has an older schema; the next start migrates it."))
        return ok_finding(" ".join(texts))
    listed = "; ".join(report.problems[:_MAX_PROBLEMS_LISTED])
    more = len(report.problems) - _MAX_PROBLEMS_LISTED
    text = _("{file} is damaged: {problems}")
    if more > 0:
        text = _("{file} is damaged: {problems}; and {n} more")
    return damaged_database(examined, text.format(file=examined.paths.db, problems=listed, n=more))


def _search_finding(examined: ExaminedHome, report: DatabaseReport) -> HealthFinding:
    if not report.search_problem:
        n = report.search.messages
        text = _n("The search index has {n} message.", "The search index has {n} messages.", n)
        return ok_finding(text.format(n=n))
    return HealthFinding(
        level=FindingLevel.WARNING,
        what=_("The search does not work: {reason}").format(reason=report.search_problem),
        why=_("Nothing is lost, but no message can be found."),
        remedy="holdfast search --rebuild",
        fix=lambda: rebuild_search_index(examined),
    )


def check_model(examined: ExaminedHome) -> Iterable[HealthFinding]:
    """Calls the models, as `holdfast models check` does."""
    if examined.config is None:
        return
    from holdfast.cli.models import probe_models  # noqa: PLC0415 - it imports HTTP and all codecs

    try:
        found = asyncio.run(probe_models(examined.home, None))
    except HoldfastError as error:
        yield _unusable_model(error.for_person(), first=True)
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
        why=_("It cannot answer messages.") if first else _("It cannot be used as a fallback."),
        remedy=_("`holdfast setup` chooses and tests a model; `holdfast models check` calls it."),
    )

"""A damaged database, as the doctor sees it: what can take its place, and asking for that."""

import sys
import time
from collections.abc import Callable
from pathlib import Path

import click

from holdfast.cli.backup_place import backup_dir, staging_dir_beside
from holdfast.cli.common.harmless import sanitize
from holdfast.cli.common.output import format_duration
from holdfast.cli.doctor.finding import ExaminedHome, FindingLevel, HealthFinding
from holdfast.cli.restoring import LOCK_PURPOSE, restore_under_lock, salvage_under_lock
from holdfast.core.errors import HoldfastError
from holdfast.core.ops.backup import InvalidBackup
from holdfast.store.backup import directory, packing
from holdfast.store.backup.directory import StoredBackup
from holdfast.system.lock import HomeLock


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
                packing.verify_backup(one.path, room, progress=lambda done: None)
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

"""`holdfast restore`: restores a backup, or recovers a damaged database.

Existing files are moved aside, never deleted.
"""

import time
from pathlib import Path

import click
import msgspec

from holdfast.cli.backup import backup_dir, backup_json
from holdfast.cli.common.options import chosen_home, home_flag, home_option
from holdfast.cli.common.output import (
    confirm,
    json_option,
    print_json,
    progress_bar,
    ratio_progress_bar,
)
from holdfast.config import prepare_home
from holdfast.core.config.versions import ENV_FILE
from holdfast.core.errors import HoldfastError
from holdfast.core.ops.backup import BackupManifest
from holdfast.core.text.locale_format import format_duration, format_time
from holdfast.core.text.translation import _
from holdfast.store.backup import archive, directory
from holdfast.store.backup import restore as stored
from holdfast.store.backup.create import DATABASE
from holdfast.store.backup.restore import RestoreResult
from holdfast.store.recovery.recover import RecoveryResult, recover_database
from holdfast.system.lock import HomeLock
from holdfast.system.paths import Paths


@click.command("restore")
@home_option
@json_option
@click.argument("name", metavar="NAME|FILE", required=False)
@click.option("--recover", is_flag=True, help="Recover the readable data of a damaged database.")
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Also replace existing files of users, memory and the configuration.",
)
@click.option("-y", "--yes", "--force", "yes", is_flag=True, help="Do not ask for confirmation.")
def command(as_json: bool, name: str | None, recover: bool, everything: bool, yes: bool) -> None:
    """Restore a backup: a NAME in `holdfast backup list`, `latest`, or a FILE.

    The gateway must not be running. The backup is verified first; then its database
    replaces the current one in one step. The current one is moved aside, never deleted
    (`state.db.before-restore-…`). Files that users sent, memory and the configuration are restored
    if they are missing; with --all they also replace existing ones.

    \b
    Examples:
      holdfast gateway stop
      holdfast restore latest
      holdfast restore --recover
    """
    if recover == (name is not None):
        raise click.UsageError(_("Give the name of a backup (`latest`: the newest), or --recover."))
    home = chosen_home()
    if name is None:
        recover_home_database(home, yes=yes, as_json=as_json)
    else:
        restore_backup(home, name, everything=everything, yes=yes, as_json=as_json)


LOCK_PURPOSE = "holdfast restore"


def restore_backup(home: Path, name: str, *, everything: bool, yes: bool, as_json: bool) -> None:
    backup = directory.find_backup(backup_dir(home), name)
    manifest = archive.read_manifest(backup)
    prepare_home(home)
    with HomeLock(home, purpose=LOCK_PURPOSE):
        if not yes:
            _confirm_restore(home, backup, manifest)
        restored = restore_under_lock(home, backup, everything=everything)
    if as_json:
        about = msgspec.to_builtins(restored)
        print_json(about | {"backup": backup_json(backup, manifest)})
        return
    _print_restored(home, restored)


def restore_under_lock(home: Path, backup: Path, *, everything: bool = False) -> RestoreResult:
    """The caller holds the lock of the home."""
    length = archive.read_manifest(backup).unpacked_bytes
    with progress_bar(_("Restoring"), length) as advance:
        return stored.restore_backup(
            home, backup, at=time.time(), overwrite=everything, progress=advance
        )


def recover_home_database(home: Path, *, yes: bool, as_json: bool) -> None:
    database = Paths(home).db
    if not database.exists():
        raise HoldfastError(
            "There is no {file} to recover. `holdfast backup list` lists the backups.",
            file=database,
        )
    with HomeLock(home, purpose=LOCK_PURPOSE):
        if not yes:
            confirm(
                _(
                    "Recover the readable data of {file} into a new file, and move the damaged "
                    "file aside?"
                ).format(file=database)
            )
        saved, moved_to = recover_under_lock(home)
    if as_json:
        print_json(msgspec.to_builtins(saved) | {"previous_files": [moved_to]})
        return
    click.echo(saved.summary())
    click.echo(_("The damaged file is {file} now.").format(file=home / moved_to))


def recover_under_lock(home: Path) -> tuple[RecoveryResult, str]:
    """Reads the damaged file, and moves it aside. The caller holds the lock of the home."""
    database = home / DATABASE
    with ratio_progress_bar(_("Reading")) as reached:
        return stored.replace_database(
            home, at=time.time(), make=lambda new: recover_database(database, new, progress=reached)
        )


def _confirm_restore(home: Path, backup: Path, manifest: BackupManifest) -> None:
    age = format_duration(max(0.0, time.time() - manifest.made_at))
    if Paths(home).db.exists():
        question = _(
            "Restore {name}, {age} old ({contents})? The current database of {home} is moved "
            "aside. Later messages are not in the backup."
        )
    else:
        question = _(
            "Restore {name}, {age} old ({contents})? Later messages are not in the backup."
        )
    confirm(question.format(name=backup.name, age=age, contents=manifest.describe(), home=home))


def _print_restored(home: Path, restored: RestoreResult) -> None:
    manifest = restored.manifest
    click.echo(
        _("{home} is restored to {time}: {contents}.").format(
            home=home, time=format_time(manifest.made_at), contents=manifest.describe()
        )
    )
    if manifest.last_active is not None:
        click.echo(
            _("The newest conversation in it was last used at {time}.").format(
                time=format_time(manifest.last_active)
            )
        )
    for name in restored.previous_files:
        click.echo(_("Moved aside: {file}").format(file=home / name))
    if restored.placed:
        click.echo(_("Other files restored: {n}.").format(n=restored.placed))
    if restored.left:
        click.echo(
            _("Existing files that were not replaced: {n} (--all replaces them).").format(
                n=restored.left
            )
        )
    if not manifest.secrets and not (home / ENV_FILE).exists():
        click.echo(_("The backup contains no keys. Set them in the environment or in .env again."))
    click.echo(_("Start it:  {command}").format(command=f"holdfast run{home_flag(home)}"))

"""`holdfast backup`: creates, lists, verifies and prunes backups of a home."""

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import click
import msgspec

from holdfast import __version__
from holdfast.cli.common.options import chosen_home, home_option
from holdfast.cli.common.output import (
    json_option,
    print_json,
    print_table,
    progress_bar,
    ratio_progress_bar,
)
from holdfast.config import ConfigError, load_settings
from holdfast.core.config.settings import BackupSettings
from holdfast.core.errors import HoldfastError
from holdfast.core.ops.backup import BackupManifest, InvalidBackup
from holdfast.core.text.locale_format import format_duration, format_size, format_time
from holdfast.core.text.translation import _, _n
from holdfast.server.local.control_client import ControlClient, GatewayDown, GatewayRefused
from holdfast.store.backup import archive, create, directory
from holdfast.store.backup.create import DATABASE, copy_closed_database
from holdfast.store.backup.directory import StoredBackup
from holdfast.store.backup.restore_plan import PLAN_FILE, finish_restore
from holdfast.system import exit_codes
from holdfast.system.lock import HomeLock
from holdfast.system.paths import Paths


@click.group("backup")
@home_option
def command() -> None:
    """Back up conversations, memory, files that people sent, and the configuration.

    The store of a running gateway is copied while it works; otherwise the home is locked
    meanwhile. `holdfast restore` restores a backup. A gateway creates a backup every day.

    \b
    Examples:
      holdfast backup create
      holdfast backup create --to /mnt/usb/ --keep 5
      holdfast backup verify --all
    """


@command.command("create")
@home_option
@json_option
@click.option("--to", metavar="DIR|FILE", help="Where to write the backup.  [default: backup.dir]")
@click.option("--include-workspaces", is_flag=True, help="Include all files that agents created.")
@click.option("--include-secrets", is_flag=True, help="Include .env and the folder secrets.")
@click.option(
    "--keep", type=click.IntRange(1), help="Keep only this many of the newest backups there."
)
# Made by the gateway itself, at the lowest priority. The version before this one writes --gently.
@click.option("--scheduled", "--gently", "scheduled", is_flag=True, hidden=True)
def create_command(
    as_json: bool,
    to: str | None,
    include_workspaces: bool,
    include_secrets: bool,
    keep: int | None,
    scheduled: bool,
) -> None:
    """Create a backup in one file, and verify it by opening it.

    Keys and tokens are left out unless you include them, because a backup may be copied anywhere.
    Only the owner can read the file (mode 0600).
    """
    options = CreateBackupOptions(
        to=to,
        workspaces=include_workspaces,
        secrets=include_secrets,
        keep=keep,
        scheduled=scheduled,
    )
    create_backup(chosen_home(), options, as_json=as_json)


@command.command("list")
@home_option
@json_option
@click.option(
    "--in", "folder", metavar="DIR", help="List the backups in this folder.  [default: backup.dir]"
)
def list_backups(as_json: bool, folder: str | None) -> None:
    """List backups, the newest first."""
    print_backups(chosen_home(), folder=folder, as_json=as_json)


@command.command("verify", short_help="Unpack backups, compare their checksums, open them.")
@home_option
@json_option
@click.argument("names", metavar="[NAME|FILE]...", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Verify every backup.")
def verify_command(as_json: bool, names: tuple[str, ...], every: bool) -> None:
    """Unpack backups, compare their checksums and open their databases.

    Without a name, verifies the newest backup. Exits with 1 if a backup is not valid.
    """
    verify_backups(chosen_home(), names, every=every, as_json=as_json)


@command.command("prune")
@home_option
@json_option
@click.option(
    "--keep", type=click.IntRange(1), help="How many backups to keep.  [default: backup.keep]"
)
@click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
def prune_command(as_json: bool, keep: int | None, dry_run: bool) -> None:
    """Remove all but the newest backups."""
    prune_backups(chosen_home(), keep=keep, dry_run=dry_run, as_json=as_json)


def backup_dir(home: Path) -> Path:
    return configured_backup_dir(home, load_backup_settings(home))


def notify_gateway(home: Path) -> None:
    """Tells the running gateway that the backups have changed, so that its status shows the newest.
    A gateway that starts later reads them then."""
    with suppress(GatewayDown, GatewayRefused):
        ControlClient(Paths(home)).post("/backup/refresh")


def load_backup_settings(home: Path) -> BackupSettings:
    """A broken configuration must not prevent a backup."""
    try:
        return load_settings(home).backup
    except ConfigError:
        click.echo(
            _("The configuration could not be read; using the default backup settings."), err=True
        )
        return BackupSettings()


def configured_backup_dir(home: Path, settings: BackupSettings) -> Path:
    return Paths(home).backups(settings.dir)


def backup_json(path: Path, manifest: BackupManifest) -> dict[str, Any]:
    about = msgspec.to_builtins(manifest)
    assert isinstance(about, dict)
    return {"path": str(path), "bytes": path.stat().st_size, **about}


@contextmanager
def staging_dir_beside(path: Path) -> Iterator[Path]:
    """A folder next to the backup, where there is space; for a read-only disk, elsewhere."""
    if os.access(path.parent, os.W_OK):
        with directory.staging_folder(path.parent) as staging:
            yield staging
        return
    with tempfile.TemporaryDirectory(prefix="holdfast-") as created:
        yield Path(created)


_LOCK_PURPOSE = "holdfast backup"
_ARCHIVE_SUFFIXES = (".tar.gz", ".tgz")
_COPY_TIMEOUT = 120.0  # seconds without progress: another copy may be running first


class CreateBackupOptions(msgspec.Struct, frozen=True, kw_only=True):
    to: str | None = None
    workspaces: bool = False
    secrets: bool = False
    keep: int | None = None
    scheduled: bool = False  # made by the gateway itself, not requested by a user


def create_backup(home: Path, request: CreateBackupOptions, *, as_json: bool) -> None:
    if request.scheduled:
        os.nice(19)
    path = make_backup(home, request)
    removed = (
        directory.prune_backups(path.parent, keep=request.keep, always_keep=path)
        if request.keep
        else []
    )
    notify_gateway(home)
    manifest = archive.read_manifest(path)
    if as_json:
        print_json(backup_json(path, manifest) | {"removed": [str(each) for each in removed]})
        return
    click.echo(
        _("{file}: {contents}, {size}, verified.").format(
            file=path, contents=manifest.describe(), size=format_size(path.stat().st_size)
        )
    )
    if not request.secrets:
        click.echo(_("Keys and tokens are not included (--include-secrets includes them)."))
    if removed:
        n = len(removed)
        text = _n("{n} older backup was removed.", "{n} older backups were removed.", n)
        click.echo(text.format(n=n))


def make_backup(home: Path, request: CreateBackupOptions) -> Path:
    """Creates a backup and verifies it."""
    database = Paths(home).db
    if home.is_dir() and not os.access(home, os.R_OK | os.X_OK):
        raise HoldfastError(
            "{home} cannot be read by this user. Run this command as its owner.", home=home
        )
    if (home / PLAN_FILE).exists():
        with HomeLock(home, purpose=_LOCK_PURPOSE):
            finish_restore(home)
    if not database.exists():
        raise HoldfastError("There is nothing to back up: {home} has no database yet.", home=home)
    folder, file = _destination(home, request.to)
    with directory.staging_folder(folder) as staging:
        size = create.measure_backup(home, workspaces=request.workspaces, secrets=request.secrets)
        create.require_free_space(folder, size.temporary)
        _copy(home, staging / DATABASE, scheduled=request.scheduled)
        spec = create.BackupSpec(
            version=__version__,
            at=time.time(),
            files_bytes=size.files,
            workspaces=request.workspaces,
            secrets=request.secrets,
            to=file,
        )
        copied = (staging / DATABASE).stat().st_size + size.files
        with progress_bar(_("Packing, verifying"), 2 * copied) as advance:  # each reads all of it
            return create.create_backup(home, staging / DATABASE, folder, spec, progress=advance)


def _destination(home: Path, to: str | None) -> tuple[Path, Path | None]:
    """The folder, and the file in it if `to` names one."""
    if to is None:
        return backup_dir(home), None
    path = Path(to).expanduser().absolute()
    if path.is_dir() or to.endswith("/") or not path.suffixes:
        return path, None
    if not path.name.endswith(_ARCHIVE_SUFFIXES):
        raise HoldfastError(
            "{path} is neither a folder nor the name of a backup (FILE.tar.gz). To create a "
            "folder, write {path}/",
            path=path,
        )
    if path.exists():
        raise HoldfastError("{path} already exists. Remove it or choose another name.", path=path)
    return path.parent, path


def _copy(home: Path, to: Path, *, scheduled: bool) -> None:
    try:
        _copy_live(home, to, scheduled=scheduled)
    except GatewayDown:
        to.unlink(missing_ok=True)
        with HomeLock(home, purpose=_LOCK_PURPOSE):
            _copy_offline(Paths(home).db, to)


def _copy_live(home: Path, to: Path, *, scheduled: bool) -> None:
    lines = ControlClient(Paths(home), timeout=_COPY_TIMEOUT).follow(
        "/backup/copy", {"to": str(to), "due": scheduled}
    )
    last: dict[str, Any] = {}
    with ratio_progress_bar(_("Copying")) as reached:
        for last in lines:
            if "of" in last:
                reached(last["done"], last["of"])
    if "error" in last:
        raise HoldfastError("The gateway could not copy its store: {error}", error=last["error"])
    if "copied" not in last:
        raise HoldfastError("The gateway stopped while it copied its store. Try again.")


def _copy_offline(database: Path, to: Path) -> None:
    with ratio_progress_bar(_("Copying")) as reached:
        copy_closed_database(
            database, to, progress=lambda copied: reached(copied.done, copied.total)
        )


def print_backups(home: Path, *, folder: str | None, as_json: bool) -> None:
    directory_path = Path(folder).expanduser().absolute() if folder else backup_dir(home)
    found = directory.list_backups(directory_path)
    if as_json:
        print_json({"folder": str(directory_path), "backups": [*map(_listed_backup_json, found)]})
        return
    if not found:
        click.echo(
            _("There are no backups in {folder}. `holdfast backup create` creates one.").format(
                folder=directory_path
            )
        )
        return
    now = time.time()
    print_table(
        (_("NAME"), _("CREATED"), _("AGE"), _("SIZE"), _("CONTENTS"), _("VERSION")),
        [_backup_row(b, now) for b in found],
    )


def verify_backups(home: Path, names: tuple[str, ...], *, every: bool, as_json: bool) -> None:
    directory_path = backup_dir(home)
    paths = [one.path for one in directory.list_backups(directory_path)] if every else []
    paths += [
        directory.find_backup(directory_path, name)
        for name in names or (() if every else (directory.LATEST,))
    ]
    results = [_verify_backup(path, as_json=as_json) for path in paths]
    if as_json:
        print_json({"verified": results})
    elif not results:
        click.echo(_("There are no backups in {folder}.").format(folder=directory_path))
    sys.exit(exit_codes.OK if all(each["good"] for each in results) else exit_codes.FAILED)


def prune_backups(home: Path, *, keep: int | None, dry_run: bool, as_json: bool) -> None:
    settings = load_backup_settings(home)
    directory_path, keep = configured_backup_dir(home, settings), keep or settings.keep
    if dry_run:
        valid = [
            one.path for one in directory.list_backups(directory_path) if one.manifest is not None
        ]
        removed = valid[keep:]
    else:
        removed = directory.prune_backups(directory_path, keep=keep)
        notify_gateway(home)
    if as_json:
        print_json({"removed": [str(path) for path in removed], "dry_run": dry_run})
        return
    for path in removed:
        text = _("{name} would be removed.") if dry_run else _("{name} is removed.")
        click.echo(text.format(name=path.name))
    if not removed:
        text = _n(
            "There is no more than {n} backup in {folder}; none is removed.",
            "There are no more than {n} backups in {folder}; none is removed.",
            keep,
        )
        click.echo(text.format(n=keep, folder=directory_path))


def _listed_backup_json(backup: StoredBackup) -> dict[str, Any]:
    if backup.manifest is None:
        return {
            "name": backup.name,
            "path": str(backup.path),
            "bytes": backup.bytes,
            "problem": backup.problem,
        }
    return {"name": backup.name, **backup_json(backup.path, backup.manifest)}


def _backup_row(backup: StoredBackup, now: float) -> tuple[str, ...]:
    age = format_duration(max(0.0, now - backup.made_at))
    if backup.manifest is None:
        return (
            backup.name,
            format_time(backup.made_at),
            age,
            format_size(backup.bytes),
            _("not a backup, or damaged"),
            "",
        )
    manifest = backup.manifest
    more = [word for word, there in _included_parts(backup) if there]
    contents = ", ".join([manifest.describe(), *more])
    return (
        backup.name,
        format_time(backup.made_at),
        age,
        format_size(backup.bytes),
        contents,
        manifest.version,
    )


def _included_parts(backup: StoredBackup) -> Iterator[tuple[str, bool]]:
    assert backup.manifest is not None, "only valid backups have a manifest"
    yield _("workspaces"), backup.manifest.workspaces
    yield _("secrets"), backup.manifest.secrets


def _verify_backup(path: Path, *, as_json: bool) -> dict[str, Any]:
    try:
        length = archive.read_manifest(path).unpacked_bytes
        with (
            staging_dir_beside(path) as staging,
            progress_bar(_("Verifying {name}").format(name=path.name[9:24]), length) as advance,
        ):
            manifest = create.verify_backup(path, staging, progress=advance)
    except InvalidBackup as error:
        if not as_json:
            click.echo(f"{click.style(_('bad'), fg='red')}   {path.name}: {error.for_person()}")
        return {"path": str(path), "good": False, "problem": error.for_person()}
    if not as_json:
        contents = _("{contents}, schema {schema}").format(
            contents=manifest.describe(), schema=manifest.schema
        )
        click.echo(f"{click.style(_('good'), fg='green')}  {path.name}: {contents}")
    return {"good": True, **backup_json(path, manifest)}

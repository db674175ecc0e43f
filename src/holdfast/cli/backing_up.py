"""Backing up: the store is copied by whoever owns it, and packed and verified here."""

import os
import time
from pathlib import Path
from typing import Any

import click
import msgspec

from holdfast import __version__
from holdfast.cli.backup_place import backup_dir, backup_json, notify_gateway
from holdfast.cli.common.bar import progress_bar, ratio_progress_bar
from holdfast.cli.common.output import format_size, print_json
from holdfast.core.errors import HoldfastError
from holdfast.server.local.client import ControlClient, GatewayDown
from holdfast.store.backup import archive, directory, packing
from holdfast.store.backup.copying import copy_closed_database
from holdfast.store.backup.gathering import DATABASE
from holdfast.store.backup.plan import PLAN_FILE, finish_restore
from holdfast.system.lock import HomeLock
from holdfast.system.paths import Paths

_LOCK_PURPOSE = "holdfast backup"
_ARCHIVE_SUFFIXES = (".tar.gz", ".tgz")
_COPY_TIMEOUT = 120.0  # seconds without a line from the gateway: another copy may be in front


class CreateBackupOptions(msgspec.Struct, frozen=True, kw_only=True):
    to: str | None = None
    workspaces: bool = False
    secrets: bool = False
    keep: int | None = None
    scheduled: bool = (
        False  # nobody asked for it: it is one of those that the gateway makes by itself
    )


def create_backup(home: Path, request: CreateBackupOptions, *, gently: bool, as_json: bool) -> None:
    if gently:
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
    click.echo(f"{path}: {manifest.describe()}, {format_size(path.stat().st_size)}, verified.")
    if not request.secrets:
        click.echo("Keys and tokens are not in it (--include-secrets).")
    if removed:
        click.echo(f"{len(removed)} older backups were removed.")


def make_backup(home: Path, request: CreateBackupOptions) -> Path:
    """A new backup, verified."""
    database = Paths(home).db
    if home.is_dir() and not os.access(home, os.R_OK | os.X_OK):
        raise HoldfastError(f"{home} may not be read by this user; ask as its owner.")
    if (home / PLAN_FILE).exists():
        with HomeLock(home, purpose=_LOCK_PURPOSE):
            finish_restore(home)
    if not database.exists():
        raise HoldfastError(f"Nothing was stored in {home} yet: there is nothing to back up.")
    folder, file = _destination(home, request.to)
    with directory.staging_folder(folder) as room:
        needed = database.stat().st_size
        packing.require_free_space(folder, 2 * needed)
        _copy(home, room / DATABASE, scheduled=request.scheduled)
        wanted = packing.BackupSpec(
            version=__version__,
            at=time.time(),
            workspaces=request.workspaces,
            secrets=request.secrets,
            to=file,
        )
        with progress_bar("Packing, verifying", 2 * needed) as advance:
            return packing.create_backup(home, room / DATABASE, folder, wanted, progress=advance)


def _destination(home: Path, to: str | None) -> tuple[Path, Path | None]:
    """The folder, and the file in it where one is named."""
    if to is None:
        return backup_dir(home), None
    path = Path(to).expanduser().absolute()
    if path.is_dir() or to.endswith("/") or not path.suffixes:
        return path, None
    if not path.name.endswith(_ARCHIVE_SUFFIXES):
        raise HoldfastError(
            f"{path} is no folder, and no name for a backup, which is a FILE.tar.gz. For a folder "
            f"that is to be made, say {path}/"
        )
    if path.exists():
        raise HoldfastError(f"{path} exists already; remove it or name another.")
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
    with ratio_progress_bar("Copying") as reached:
        for last in lines:
            if "of" in last:
                reached(last["done"], last["of"])
    if "error" in last:
        raise HoldfastError(f"The gateway could not copy its store: {last['error']}")
    if "copied" not in last:
        raise HoldfastError("The gateway went away while it copied its store; try again.")


def _copy_offline(database: Path, to: Path) -> None:
    with ratio_progress_bar("Copying") as reached:
        copy_closed_database(
            database, to, progress=lambda copied: reached(copied.done, copied.total)
        )

"""Backing up: the store is copied by whoever owns it, and packed and verified here."""

import os
import time
from pathlib import Path
from typing import Any

import click
import msgspec

from holdfast import __version__
from holdfast.cli.backup_place import shelf_of, tell_gateway, told
from holdfast.cli.common.bar import bar, share_bar
from holdfast.cli.common.output import print_json, size
from holdfast.core.errors import HoldfastError
from holdfast.server.local.client import ControlClient, GatewayDown
from holdfast.store.backup import archive, directory, packing
from holdfast.store.backup.copying import copy_closed
from holdfast.store.backup.gathering import DATABASE
from holdfast.store.backup.plan import PLAN, finish
from holdfast.system.lock import HomeLock
from holdfast.system.paths import Paths

_PURPOSE = "holdfast backup"
_ENDINGS = (".tar.gz", ".tgz")
_ANSWERS_WITHIN = 120.0  # seconds without a line from the gateway: another copy may be in front


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    to: str | None = None
    workspaces: bool = False
    secrets: bool = False
    keep: int | None = None
    due: bool = False  # nobody asked for it: it is one of those that the gateway makes by itself


def create(home: Path, asked: Asked, *, gently: bool, as_json: bool) -> None:
    if gently:
        os.nice(19)
    path = made(home, asked)
    removed = directory.prune(path.parent, keep=asked.keep, spare=path) if asked.keep else []
    tell_gateway(home)
    manifest = archive.read_manifest(path)
    if as_json:
        print_json(told(path, manifest) | {"removed": [str(each) for each in removed]})
        return
    click.echo(f"{path}: {manifest.told()}, {size(path.stat().st_size)}, verified.")
    if not asked.secrets:
        click.echo("Keys and tokens are not in it (--include-secrets).")
    if removed:
        click.echo(f"{len(removed)} older backups were removed.")


def made(home: Path, asked: Asked) -> Path:
    """A new backup, verified."""
    database = Paths(home).db
    if home.is_dir() and not os.access(home, os.R_OK | os.X_OK):
        raise HoldfastError(f"{home} may not be read by this user; ask as its owner.")
    if (home / PLAN).exists():
        with HomeLock(home, purpose=_PURPOSE):
            finish(home)
    if not database.exists():
        raise HoldfastError(f"Nothing was stored in {home} yet: there is nothing to back up.")
    folder, file = _destination(home, asked.to)
    with directory.staging(folder) as room:
        needed = database.stat().st_size
        packing.enough_room(folder, 2 * needed)
        _copy(home, room / DATABASE, due=asked.due)
        wanted = packing.Wanted(
            version=__version__,
            at=time.time(),
            workspaces=asked.workspaces,
            secrets=asked.secrets,
            to=file,
        )
        with bar("Packing, verifying", 2 * needed) as advance:
            return packing.pack(home, room / DATABASE, folder, wanted, tell=advance)


def _destination(home: Path, to: str | None) -> tuple[Path, Path | None]:
    """The folder, and the file in it where one is named."""
    if to is None:
        return shelf_of(home), None
    path = Path(to).expanduser().absolute()
    if path.is_dir() or to.endswith("/") or not path.suffixes:
        return path, None
    if not path.name.endswith(_ENDINGS):
        raise HoldfastError(
            f"{path} is no folder, and no name for a backup, which is a FILE.tar.gz. For a folder "
            f"that is to be made, say {path}/"
        )
    if path.exists():
        raise HoldfastError(f"{path} exists already; remove it or name another.")
    return path.parent, path


def _copy(home: Path, to: Path, *, due: bool) -> None:
    try:
        _copy_live(home, to, due=due)
    except GatewayDown:
        to.unlink(missing_ok=True)
        with HomeLock(home, purpose=_PURPOSE):
            _copy_offline(Paths(home).db, to)


def _copy_live(home: Path, to: Path, *, due: bool) -> None:
    lines = ControlClient(Paths(home), timeout=_ANSWERS_WITHIN).follow(
        "/backup/copy", {"to": str(to), "due": due}
    )
    last: dict[str, Any] = {}
    with share_bar("Copying") as reached:
        for last in lines:
            if "of" in last:
                reached(last["done"], last["of"])
    if "error" in last:
        raise HoldfastError(f"The gateway could not copy its store: {last['error']}")
    if "copied" not in last:
        raise HoldfastError("The gateway went away while it copied its store; try again.")


def _copy_offline(database: Path, to: Path) -> None:
    with share_bar("Copying") as reached:
        copy_closed(database, to, tell=lambda copied: reached(copied.done, copied.of))

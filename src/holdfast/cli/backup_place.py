"""Where the backups of a home are, room to look into one, and what is told of one to programs."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import click
import msgspec

from holdfast.config import ConfigError, load_settings
from holdfast.core.config.settings import BackupSettings
from holdfast.core.ops.backup import Manifest
from holdfast.server.local.client import ControlClient, ControlRefused, GatewayDown
from holdfast.store.backup import directory
from holdfast.system.paths import Paths


def shelf_of(home: Path) -> Path:
    return folder(home, backup_settings(home))


def tell_gateway(home: Path) -> None:
    """That the backups are others now, so that its status has the newest. It looks by itself when
    it starts, and one that has no ear for it is not needed for a backup."""
    with suppress(GatewayDown, ControlRefused):
        ControlClient(Paths(home)).post("/backup/shelf")


def backup_settings(home: Path) -> BackupSettings:
    """A configuration that is broken keeps nobody from a backup."""
    try:
        return load_settings(home).backup
    except ConfigError:
        click.echo("The configuration cannot be read; backups are taken to be as usual.", err=True)
        return BackupSettings()


def folder(home: Path, settings: BackupSettings) -> Path:
    return Paths(home).backups(settings.dir)


def told(path: Path, manifest: Manifest) -> dict[str, Any]:
    about = msgspec.to_builtins(manifest)
    assert isinstance(about, dict)
    return {"path": str(path), "bytes": path.stat().st_size, **about}


@contextmanager
def room_beside(path: Path) -> Iterator[Path]:
    """Beside the backup, where there was room for one; on a disk that is read-only, elsewhere."""
    if os.access(path.parent, os.W_OK):
        with directory.staging(path.parent) as room:
            yield room
        return
    with tempfile.TemporaryDirectory(prefix="holdfast-") as made:
        yield Path(made)

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
from holdfast.core.ops.backup import BackupManifest
from holdfast.server.local.client import ControlClient, GatewayDown, GatewayRefused
from holdfast.store.backup import directory
from holdfast.system.paths import Paths


def backup_dir(home: Path) -> Path:
    return configured_backup_dir(home, load_backup_settings(home))


def notify_gateway(home: Path) -> None:
    """That the backups are others now, so that its status has the newest. It looks by itself when
    it starts, and one that has no ear for it is not needed for a backup."""
    with suppress(GatewayDown, GatewayRefused):
        ControlClient(Paths(home)).post("/backup/shelf")


def load_backup_settings(home: Path) -> BackupSettings:
    """A configuration that is broken keeps nobody from a backup."""
    try:
        return load_settings(home).backup
    except ConfigError:
        click.echo("The configuration cannot be read; backups are taken to be as usual.", err=True)
        return BackupSettings()


def configured_backup_dir(home: Path, settings: BackupSettings) -> Path:
    return Paths(home).backups(settings.dir)


def backup_json(path: Path, manifest: BackupManifest) -> dict[str, Any]:
    about = msgspec.to_builtins(manifest)
    assert isinstance(about, dict)
    return {"path": str(path), "bytes": path.stat().st_size, **about}


@contextmanager
def staging_dir_beside(path: Path) -> Iterator[Path]:
    """Beside the backup, where there was room for one; on a disk that is read-only, elsewhere."""
    if os.access(path.parent, os.W_OK):
        with directory.staging_folder(path.parent) as room:
            yield room
        return
    with tempfile.TemporaryDirectory(prefix="holdfast-") as made:
        yield Path(made)

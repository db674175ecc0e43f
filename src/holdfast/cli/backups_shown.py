"""Backups as people and programs see them: listed, verified, and the old ones removed."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from holdfast.cli.backup_place import (
    backup_dir,
    backup_json,
    configured_backup_dir,
    load_backup_settings,
    notify_gateway,
    staging_dir_beside,
)
from holdfast.cli.common.bar import progress_bar
from holdfast.cli.common.output import (
    format_duration,
    format_size,
    format_time,
    print_json,
    print_table,
)
from holdfast.core.ops.backup import InvalidBackup
from holdfast.store.backup import archive, directory, packing
from holdfast.store.backup.directory import StoredBackup
from holdfast.system import exits


def print_backups(home: Path, *, folder: str | None, as_json: bool) -> None:
    place = Path(folder).expanduser().absolute() if folder else backup_dir(home)
    found = directory.list_backups(place)
    if as_json:
        print_json({"folder": str(place), "backups": [*map(_listed_backup_json, found)]})
        return
    if not found:
        click.echo(f"There are no backups in {place}; `holdfast backup create` makes one.")
        return
    now = time.time()
    print_table(
        ("NAME", "MADE", "AGE", "SIZE", "HOLDS", "VERSION"), [_backup_row(b, now) for b in found]
    )


def verify_backups(home: Path, names: tuple[str, ...], *, every: bool, as_json: bool) -> None:
    place = backup_dir(home)
    paths = [one.path for one in directory.list_backups(place)] if every else []
    paths += [
        directory.find_backup(place, name)
        for name in names or (() if every else (directory.LATEST,))
    ]
    results = [_verify_backup(path, as_json=as_json) for path in paths]
    if as_json:
        print_json({"verified": results})
    elif not results:
        click.echo(f"There are no backups in {place}.")
    sys.exit(exits.OK if all(each["good"] for each in results) else exits.FAILED)


def prune_backups(home: Path, *, keep: int | None, dry_run: bool, as_json: bool) -> None:
    settings = load_backup_settings(home)
    place, keep = configured_backup_dir(home, settings), keep or settings.keep
    if dry_run:
        whole = [one.path for one in directory.list_backups(place) if one.manifest is not None]
        gone = whole[keep:]
    else:
        gone = directory.prune_backups(place, keep=keep)
        notify_gateway(home)
    if as_json:
        print_json({"removed": [str(path) for path in gone], "dry_run": dry_run})
        return
    for path in gone:
        click.echo(f"{path.name} {'would be' if dry_run else 'is'} removed.")
    if not gone:
        click.echo(f"There are no more than {keep} backups in {place}; none is removed.")


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
            "no backup, or damaged",
            "",
        )
    manifest = backup.manifest
    more = [word for word, there in _included_parts(backup) if there]
    holds = ", ".join([manifest.describe(), *more])
    return (
        backup.name,
        format_time(backup.made_at),
        age,
        format_size(backup.bytes),
        holds,
        manifest.version,
    )


def _included_parts(backup: StoredBackup) -> Iterator[tuple[str, bool]]:
    assert backup.manifest is not None, "only those that are whole are asked"
    yield "workspaces", backup.manifest.workspaces
    yield "secrets", backup.manifest.secrets


def _verify_backup(path: Path, *, as_json: bool) -> dict[str, Any]:
    try:
        length = archive.read_manifest(path).database_bytes
        with (
            staging_dir_beside(path) as room,
            progress_bar(f"Verifying {path.name[9:24]}", length) as advance,
        ):
            manifest = packing.verify_backup(path, room, progress=advance)
    except InvalidBackup as error:
        if not as_json:
            click.echo(f"{click.style('bad', fg='red')}   {path.name}: {error}")
        return {"path": str(path), "good": False, "problem": str(error)}
    if not as_json:
        good = click.style("good", fg="green")
        click.echo(f"{good}  {path.name}: {manifest.describe()}, schema {manifest.schema}")
    return {"good": True, **backup_json(path, manifest)}

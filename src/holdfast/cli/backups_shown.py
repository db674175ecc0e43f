"""Backups as people and programs see them: listed, verified, and the old ones removed."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from holdfast.cli.backup_place import (
    backup_settings,
    folder,
    room_beside,
    shelf_of,
    tell_gateway,
    told,
)
from holdfast.cli.common.bar import bar
from holdfast.cli.common.output import duration, moment, print_json, print_table, size
from holdfast.core.ops.backup import BadBackup
from holdfast.store.backup import archive, directory, packing
from holdfast.store.backup.directory import Kept
from holdfast.system import exits


def print_list(home: Path, *, folder: str | None, as_json: bool) -> None:
    place = Path(folder).expanduser().absolute() if folder else shelf_of(home)
    found = directory.kept(place)
    if as_json:
        print_json({"folder": str(place), "backups": [*map(_shown, found)]})
        return
    if not found:
        click.echo(f"There are no backups in {place}; `holdfast backup create` makes one.")
        return
    now = time.time()
    print_table(("NAME", "MADE", "AGE", "SIZE", "HOLDS", "VERSION"), [_row(b, now) for b in found])


def verify(home: Path, names: tuple[str, ...], *, every: bool, as_json: bool) -> None:
    place = shelf_of(home)
    paths = [one.path for one in directory.kept(place)] if every else []
    paths += [
        directory.find(place, name) for name in names or (() if every else (directory.LATEST,))
    ]
    results = [_verified(path, as_json=as_json) for path in paths]
    if as_json:
        print_json({"verified": results})
    elif not results:
        click.echo(f"There are no backups in {place}.")
    sys.exit(exits.OK if all(each["good"] for each in results) else exits.FAILED)


def prune(home: Path, *, keep: int | None, dry_run: bool, as_json: bool) -> None:
    settings = backup_settings(home)
    place, keep = folder(home, settings), keep or settings.keep
    if dry_run:
        whole = [one.path for one in directory.kept(place) if one.manifest is not None]
        gone = whole[keep:]
    else:
        gone = directory.prune(place, keep=keep)
        tell_gateway(home)
    if as_json:
        print_json({"removed": [str(path) for path in gone], "dry_run": dry_run})
        return
    for path in gone:
        click.echo(f"{path.name} {'would be' if dry_run else 'is'} removed.")
    if not gone:
        click.echo(f"There are no more than {keep} backups in {place}; none is removed.")


def _shown(one: Kept) -> dict[str, Any]:
    if one.manifest is None:
        return {"name": one.name, "path": str(one.path), "bytes": one.bytes, "problem": one.problem}
    return {"name": one.name, **told(one.path, one.manifest)}


def _row(one: Kept, now: float) -> tuple[str, ...]:
    age = duration(max(0.0, now - one.made_at))
    if one.manifest is None:
        return one.name, moment(one.made_at), age, size(one.bytes), "no backup, or damaged", ""
    manifest = one.manifest
    more = [word for word, there in _parts(one) if there]
    holds = ", ".join([manifest.told(), *more])
    return one.name, moment(one.made_at), age, size(one.bytes), holds, manifest.version


def _parts(one: Kept) -> Iterator[tuple[str, bool]]:
    assert one.manifest is not None, "only those that are whole are asked"
    yield "workspaces", one.manifest.workspaces
    yield "secrets", one.manifest.secrets


def _verified(path: Path, *, as_json: bool) -> dict[str, Any]:
    try:
        length = archive.read_manifest(path).database_bytes
        with room_beside(path) as room, bar(f"Verifying {path.name[9:24]}", length) as advance:
            manifest = packing.verify(path, room, tell=advance)
    except BadBackup as error:
        if not as_json:
            click.echo(f"{click.style('bad', fg='red')}   {path.name}: {error}")
        return {"path": str(path), "good": False, "problem": str(error)}
    if not as_json:
        good = click.style("good", fg="green")
        click.echo(f"{good}  {path.name}: {manifest.told()}, schema {manifest.schema}")
    return {"good": True, **told(path, manifest)}

"""Restoring: asked for, done under the home's lock, and told what is there then."""

import time
from pathlib import Path

import click
import msgspec

from holdfast.cli.backup_place import shelf_of, told
from holdfast.cli.common.bar import bar, share_bar
from holdfast.cli.common.confirming import confirm
from holdfast.cli.common.home import as_option
from holdfast.cli.common.output import duration, moment, print_json
from holdfast.config import prepare_home
from holdfast.core.config.home_files import ENV_FILE
from holdfast.core.errors import HoldfastError
from holdfast.core.ops.backup import Manifest
from holdfast.store.backup import archive, directory
from holdfast.store.backup import restore as stored
from holdfast.store.backup.gathering import DATABASE
from holdfast.store.backup.restore import Restored
from holdfast.store.recovery.salvage import Salvaged, salvage
from holdfast.system.lock import HomeLock
from holdfast.system.paths import Paths

PURPOSE = "holdfast restore"


def restore(home: Path, name: str, *, everything: bool, yes: bool, as_json: bool) -> None:
    backup = directory.find(shelf_of(home), name)
    manifest = archive.read_manifest(backup)
    prepare_home(home)
    with HomeLock(home, purpose=PURPOSE):
        if not yes:
            _ask(home, backup, manifest)
        restored = put_back(home, backup, everything=everything)
    if as_json:
        about = msgspec.to_builtins(restored)
        print_json(about | {"backup": told(backup, manifest)})
        return
    _tell(home, restored)


def put_back(home: Path, backup: Path, *, everything: bool = False) -> Restored:
    """To be called by the holder of the home's lock."""
    length = archive.read_manifest(backup).database_bytes
    with bar("Restoring", length) as advance:
        return stored.restore(home, backup, at=time.time(), everything=everything, tell=advance)


def save(home: Path, *, yes: bool, as_json: bool) -> None:
    database = Paths(home).db
    if not database.exists():
        raise HoldfastError(f"There is no {database}; `holdfast backup list` has the backups.")
    with HomeLock(home, purpose=PURPOSE):
        if not yes:
            confirm(f"Read what can be read of {database} into a new file, and set this one aside?")
        saved, aside = saved_from(home)
    if as_json:
        print_json(msgspec.to_builtins(saved) | {"aside": [aside]})
        return
    click.echo(f"{saved.told()}.")
    click.echo(f"What was there is {home / aside}.")


def saved_from(home: Path) -> tuple[Salvaged, str]:
    """To be called by the holder of the home's lock. Reads the damaged file, which is set aside."""
    database = home / DATABASE
    with share_bar("Reading") as reached:
        return stored.replace_database(
            home, at=time.time(), make=lambda new: salvage(database, new, tell=reached)
        )


def _ask(home: Path, backup: Path, manifest: Manifest) -> None:
    age = duration(max(0.0, time.time() - manifest.made_at))
    there = Paths(home).db.exists()
    aside = f" What is in {home} now is set aside." if there else ""
    question = (
        f"Restore {backup.name}, {age} old ({manifest.told()})?{aside} "
        "What was said since is not in it."
    )
    confirm(question)


def _tell(home: Path, restored: Restored) -> None:
    manifest = restored.manifest
    click.echo(f"{home} is as it was at {moment(manifest.made_at)}: {manifest.told()}.")
    if manifest.last_active is not None:
        click.echo(f"The last conversation in it was used at {moment(manifest.last_active)}.")
    for name in restored.aside:
        click.echo(f"Set aside: {home / name}")
    if restored.placed:
        click.echo(f"Other files that were put back: {restored.placed}.")
    if restored.left:
        click.echo(f"Other files that were there already, and stayed (--all): {restored.left}.")
    if not manifest.secrets and not (home / ENV_FILE).exists():
        click.echo("Keys are not in it: put them into the environment or .env again.")
    click.echo(f"Start it:  holdfast run{as_option(home)}")

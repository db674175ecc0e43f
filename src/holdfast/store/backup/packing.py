"""Packing a copy of the database and what belongs to it into one file, and verifying that."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import apsw
import msgspec

from holdfast.core.errors import HoldfastError
from holdfast.core.ops.backup import BadBackup, Manifest
from holdfast.store.backup import archive, directory
from holdfast.store.backup.archive import Source, Tell
from holdfast.store.backup.gathering import DATABASE, gather
from holdfast.store.sqlite import errors
from holdfast.store.sqlite.checking import quick_check
from holdfast.store.sqlite.inspection import APPLICATION_ID
from holdfast.store.sqlite.opening import open_untouched
from holdfast.store.sqlite.schema import migrations

_ROOM = 50_000_000  # bytes that are to be left on the disk


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of a backup. `to` None: a name of its own on the shelf."""

    version: str
    at: float
    workspaces: bool = False
    secrets: bool = False
    to: Path | None = None


def pack(home: Path, copy: Path, folder: Path, wanted: Wanted, *, tell: Tell) -> Path:
    """A new backup, whole and verified, or none. `copy` is consumed: it lies in a room of the
    folder that is cleared afterwards, and so may lie there what this leaves."""
    draft = copy.with_name("draft")
    try:
        _write(home, copy, draft, wanted, tell)
        if wanted.to is None:
            return directory.place(draft, folder, at=wanted.at)
        directory.put(draft, wanted.to)
        return wanted.to
    except OSError as error:
        raise HoldfastError(
            f"No backup was made: {folder} cannot be written: {error.strerror}. Nothing half done "
            "is left there"
        ) from None


def _write(home: Path, copy: Path, draft: Path, wanted: Wanted, tell: Tell) -> None:
    try:
        manifest = describe(copy, wanted)
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            archive.write(out, manifest, _sources(home, copy, wanted), tell=tell)
        copy.unlink()
        verify(draft, copy.parent, tell=tell)
    except (*errors.DAMAGE, BadBackup) as error:
        raise BadBackup(
            f"No backup was made, for what it would hold is not sound: {error}. `holdfast doctor` "
            "looks at the database, and says what can be done"
        ) from None


def describe(copy: Path, wanted: Wanted) -> Manifest:
    with opened(copy) as db:
        return Manifest(
            version=wanted.version,
            schema=db.pragma("user_version"),
            made_at=wanted.at,
            database_bytes=copy.stat().st_size,
            counts=_counts(db),
            last_active=db.execute("SELECT max(active_at) FROM sessions").get,
            workspaces=wanted.workspaces,
            secrets=wanted.secrets,
        )


def verify(path: Path, room: Path, *, tell: Tell) -> Manifest:
    """Unpack a backup's database and open it, as a restore would; `BadBackup` says what is wrong.
    `room` is a folder for what is unpacked, which is gone afterwards."""
    database = room / DATABASE
    manifest, _ = archive.unpack(
        path, room, wanted=lambda name: name == DATABASE, fits=partial(enough_room, room), tell=tell
    )
    try:
        check(path, database, manifest)
    finally:
        database.unlink(missing_ok=True)
    return manifest


def check(path: Path, database: Path, manifest: Manifest) -> None:
    """Whether the unpacked database of a backup is what its manifest says."""
    if manifest.schema > len(migrations()):
        raise BadBackup(
            f"{path} was made by Holdfast {manifest.version} and has schema version "
            f"{manifest.schema}; this program knows versions up to {len(migrations())}. Use it "
            "with that Holdfast or a newer one"
        )
    if not database.exists():
        raise BadBackup(f"{path} has no database in it")
    try:
        with opened(database) as db:
            told = (APPLICATION_ID, manifest.schema, manifest.counts)
            found = (db.pragma("application_id"), db.pragma("user_version"), _counts(db))
            if problems := quick_check(db.cursor()):
                raise BadBackup(f"The database in {path} is damaged: {problems[0]}")
    except errors.DAMAGE as error:
        raise BadBackup(f"The database in {path} cannot be opened: {error}") from None
    if told != found:
        raise BadBackup(f"The database in {path} is not the one its manifest tells of")


def enough_room(folder: Path, needed: int) -> None:
    """Before anything is written: a disk that fills up is everybody's."""
    free = shutil.disk_usage(folder).free
    if free < needed + _ROOM:
        raise HoldfastError(
            f"{folder} has {free / 1e6:.0f} MB of room, and this needs {(needed + _ROOM) / 1e6:.0f}"
            " MB for the while. Free some, or name another folder with --to"
        )


@contextmanager
def opened(path: Path) -> Iterator[apsw.Connection]:
    db = open_untouched(path)
    try:
        yield db
    finally:
        db.close()


def _sources(home: Path, copy: Path, wanted: Wanted) -> Iterator[Source]:
    yield Source(DATABASE, os.open(copy, os.O_RDONLY | os.O_CLOEXEC))
    yield from gather(home, workspaces=wanted.workspaces, secrets=wanted.secrets)


def _counts(db: apsw.Connection) -> dict[str, int]:
    tables = [
        str(name)
        for (name,) in db.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
        )
    ]
    return {name: int(db.execute(f'SELECT count(*) FROM "{name}"').get) for name in tables}

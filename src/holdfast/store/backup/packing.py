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
from holdfast.core.ops.backup import BackupManifest, InvalidBackup
from holdfast.store.backup import archive, directory
from holdfast.store.backup.archive import ArchiveSource, BytesCallback
from holdfast.store.backup.gathering import DATABASE, collect_files
from holdfast.store.sqlite import errors
from holdfast.store.sqlite.checking import quick_check
from holdfast.store.sqlite.inspection import APPLICATION_ID
from holdfast.store.sqlite.opening import open_immutable
from holdfast.store.sqlite.schema import load_migrations

_MIN_FREE_SPACE = 50_000_000  # bytes that are to be left on the disk


class BackupSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of a backup. `to` None: a name of its own on the shelf."""

    version: str
    at: float
    workspaces: bool = False
    secrets: bool = False
    to: Path | None = None


def create_backup(
    home: Path, database_copy: Path, folder: Path, spec: BackupSpec, *, progress: BytesCallback
) -> Path:
    """A new backup, whole and verified, or none. `copy` is consumed: it lies in a room of the
    folder that is cleared afterwards, and so may lie there what this leaves."""
    draft = database_copy.with_name("draft")
    try:
        _write_verified(home, database_copy, draft, spec, progress)
        if spec.to is None:
            return directory.add_backup(draft, folder, at=spec.at)
        directory.move_durably(draft, spec.to)
        return spec.to
    except OSError as error:
        raise HoldfastError(
            f"No backup was made: {folder} cannot be written: {error.strerror}. Nothing half done "
            "is left there"
        ) from None


def _write_verified(
    home: Path, database_copy: Path, draft: Path, spec: BackupSpec, progress: BytesCallback
) -> None:
    try:
        manifest = describe_database(database_copy, spec)
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            archive.write(
                out, manifest, _archive_sources(home, database_copy, spec), progress=progress
            )
        database_copy.unlink()
        verify_backup(draft, database_copy.parent, progress=progress)
    except (*errors.DAMAGE_ERRORS, InvalidBackup) as error:
        raise InvalidBackup(
            f"No backup was made, for what it would hold is not sound: {error}. `holdfast doctor` "
            "looks at the database, and says what can be done"
        ) from None


def describe_database(database_copy: Path, spec: BackupSpec) -> BackupManifest:
    with open_database_copy(database_copy) as db:
        return BackupManifest(
            version=spec.version,
            schema=db.pragma("user_version"),
            made_at=spec.at,
            database_bytes=database_copy.stat().st_size,
            counts=_table_counts(db),
            last_active=db.execute("SELECT max(active_at) FROM sessions").get,
            workspaces=spec.workspaces,
            secrets=spec.secrets,
        )


def verify_backup(path: Path, staging: Path, *, progress: BytesCallback) -> BackupManifest:
    """Unpack a backup's database and open it, as a restore would; `InvalidBackup` says what is wrong.
    `room` is a folder for what is unpacked, which is gone afterwards."""
    database = staging / DATABASE
    manifest, _ = archive.unpack(
        path,
        staging,
        should_extract=lambda name: name == DATABASE,
        check_space=partial(require_free_space, staging),
        progress=progress,
    )
    try:
        check_database(path, database, manifest)
    finally:
        database.unlink(missing_ok=True)
    return manifest


def check_database(path: Path, database: Path, manifest: BackupManifest) -> None:
    """Whether the unpacked database of a backup is what its manifest says."""
    if manifest.schema > len(load_migrations()):
        raise InvalidBackup(
            f"{path} was made by Holdfast {manifest.version} and has schema version "
            f"{manifest.schema}; this program knows versions up to {len(load_migrations())}. Use it "
            "with that Holdfast or a newer one"
        )
    if not database.exists():
        raise InvalidBackup(f"{path} has no database in it")
    try:
        with open_database_copy(database) as db:
            told = (APPLICATION_ID, manifest.schema, manifest.counts)
            found = (db.pragma("application_id"), db.pragma("user_version"), _table_counts(db))
            if problems := quick_check(db.cursor()):
                raise InvalidBackup(f"The database in {path} is damaged: {problems[0]}")
    except errors.DAMAGE_ERRORS as error:
        raise InvalidBackup(f"The database in {path} cannot be opened: {error}") from None
    if told != found:
        raise InvalidBackup(f"The database in {path} is not the one its manifest tells of")


def require_free_space(folder: Path, needed: int) -> None:
    """Before anything is written: a disk that fills up is everybody's."""
    free = shutil.disk_usage(folder).free
    if free < needed + _MIN_FREE_SPACE:
        raise HoldfastError(
            f"{folder} has {free / 1e6:.0f} MB of room, and this needs {(needed + _MIN_FREE_SPACE) / 1e6:.0f}"
            " MB for the while. Free some, or name another folder with --to"
        )


@contextmanager
def open_database_copy(path: Path) -> Iterator[apsw.Connection]:
    db = open_immutable(path)
    try:
        yield db
    finally:
        db.close()


def _archive_sources(home: Path, database_copy: Path, spec: BackupSpec) -> Iterator[ArchiveSource]:
    yield ArchiveSource(DATABASE, os.open(database_copy, os.O_RDONLY | os.O_CLOEXEC))
    yield from collect_files(home, workspaces=spec.workspaces, secrets=spec.secrets)


def _table_counts(db: apsw.Connection) -> dict[str, int]:
    tables = [
        str(name)
        for (name,) in db.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
        )
    ]
    return {name: int(db.execute(f'SELECT count(*) FROM "{name}"').get) for name in tables}

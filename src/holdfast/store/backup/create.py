"""Makes a backup: copies the live database, collects the other files, packs them into one
archive and verifies it."""

import os
import shutil
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import apsw
import msgspec

from holdfast.core.config.versions import CONFIG_FILE, ENV_FILE
from holdfast.core.errors import HoldfastError, StoreError
from holdfast.core.ops.backup import BackupManifest, CopyProgress, InvalidBackup
from holdfast.store.backup import archive, directory
from holdfast.store.backup.archive import ArchiveSource, BytesCallback
from holdfast.store.sqlite import errors
from holdfast.store.sqlite.closed_store import open_closed_store
from holdfast.store.sqlite.connection import open_immutable
from holdfast.store.sqlite.file_check import APPLICATION_ID, quick_check
from holdfast.store.sqlite.schema import load_migrations

DATABASE = "state.db"
MEMORY, WORKSPACES, SECRETS = "memory", "workspaces", "secrets"
_UPLOADS_FOLDER = "uploads"
_OPEN_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_STEP_PAGES = 32  # pages that are copied in one step
_STEP_SECONDS = 0.008  # from one step to the next: 16 MB per second
_SYNC_INTERVAL = 32  # steps between two fdatasync calls
_ARCHIVE_OVERHEAD = 4096  # bytes of one file in an archive besides its content, at most
_MIN_FREE_SPACE = 50_000_000  # bytes that must stay free on the disk

CopyCallback = Callable[[CopyProgress], None]


def is_backup_file(name: str) -> bool:
    """Whether a backup may contain a file of that name."""
    first = name.split("/", 1)[0]
    return name in (DATABASE, CONFIG_FILE, ENV_FILE) or (
        first in (MEMORY, WORKSPACES, SECRETS) and first != name
    )


def collect_files(home: Path, *, workspaces: bool, secrets: bool) -> Iterator[ArchiveSource]:
    """The files of the home as they are now: the configuration, the data of memory providers, and
    uploads. With `workspaces` also the whole workspaces, with `secrets` also keys and tokens."""
    yield from _owner_file(home, CONFIG_FILE)
    if secrets:
        yield from _owner_file(home, ENV_FILE)
        yield from _files_below(home, SECRETS)
    yield from _files_below(home, MEMORY)
    if workspaces:
        yield from _files_below(home, WORKSPACES)
        return
    for session in sorted(_subfolders(home / WORKSPACES)):
        yield from _files_below(home, f"{WORKSPACES}/{session}/{_UPLOADS_FOLDER}")


class BackupSize(msgspec.Struct, frozen=True, kw_only=True):
    """The bytes that a backup copies: of the database with its log, and of the other files."""

    database: int
    files: int
    file_count: int = 0

    @property
    def temporary(self) -> int:
        """The most that is on the disk of the backup at one time: a copy of the database, and an
        archive of everything, which may not be compressible."""
        return 2 * self.database + self.files + _ARCHIVE_OVERHEAD * self.file_count


def measure_backup(home: Path, *, workspaces: bool, secrets: bool) -> BackupSize:
    """The size of what a backup would copy now. A part of the database may be only in its log."""
    files = count = 0
    for source in collect_files(home, workspaces=workspaces, secrets=secrets):
        files += os.fstat(source.fd).st_size
        count += 1
        os.close(source.fd)
    return BackupSize(database=database_bytes(home), files=files, file_count=count)


def database_bytes(home: Path) -> int:
    """The size of the database of a home with its log."""
    parts = (home / DATABASE, home / f"{DATABASE}-wal")
    return sum(part.stat().st_size for part in parts if part.exists())


def _owner_file(home: Path, name: str) -> Iterator[ArchiveSource]:
    try:
        fd = os.open(home / name, os.O_RDONLY | os.O_CLOEXEC)  # the owner's own file: follow links
    except FileNotFoundError:
        return
    yield ArchiveSource(name, fd)


def _files_below(home: Path, folder: str) -> Iterator[ArchiveSource]:
    """Every regular file. Links are not followed, since untrusted commands may have made them. Hard
    links to files at the top of the home are left out too: those may be the keys."""
    if any((home / part).is_symlink() for part in _path_prefixes(folder)):
        return
    top = home / folder
    if not top.is_dir():
        return
    ours = {_inode(each.lstat()) for each in home.iterdir() if not each.is_dir()}
    for place, folders, names, fd in os.fwalk(top, follow_symlinks=False):
        folders.sort()
        for name in sorted(names):
            try:
                if _inode(os.stat(name, dir_fd=fd, follow_symlinks=False)) in ours:
                    continue
                opened = os.open(name, _OPEN_FLAGS, dir_fd=fd)
            except OSError:
                continue  # a link, or gone since
            if not stat.S_ISREG(os.fstat(opened).st_mode):
                os.close(opened)
                continue
            yield ArchiveSource(str(Path(place, name).relative_to(home)), opened)


def _inode(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _path_prefixes(folder: str) -> list[str]:
    parts = folder.split("/")
    return ["/".join(parts[: number + 1]) for number in range(len(parts))]


def _subfolders(path: Path) -> list[str]:
    try:
        return [entry.name for entry in os.scandir(path) if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []


def copy_closed_database(path: Path, to: Path, *, progress: CopyCallback) -> None:
    """Copy a file that no process has open; the caller holds the lock of the home."""
    with open_closed_store(path) as db, db:
        copy_database(db.cursor(), to=to, cancelled=threading.Event(), progress=progress, pause=0)


def copy_database(
    cursor: apsw.Cursor,
    *,
    to: Path,
    cancelled: threading.Event,
    progress: CopyCallback,
    pause: float = _STEP_SECONDS,
) -> None:
    """Copy what the cursor's open transaction sees into a new file. When `cancelled` is set it
    stops, and the caller removes the file. `pause`: minimum seconds from one step to the next.

    The transaction makes it a consistent copy: SQLite restarts a copy when another connection
    writes, but not one that reads from a snapshot. Writers continue; only the WAL cannot be
    checkpointed meanwhile.
    """
    source = cursor.connection
    cursor.execute("SELECT count(*) FROM sqlite_schema").get  # noqa: B018 - fixes the snapshot
    os.close(os.open(to, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    target = _open_target(to)
    try:
        with target.backup("main", source, "main") as backup:
            _run_copy(backup, to, cancelled, progress, pause)
    finally:
        target.close()
    _fdatasync(to)


def _open_target(to: Path) -> apsw.Connection:
    # No other process uses the file, so it needs no locks, which its file system may not have. An
    # incomplete copy is thrown away, so it needs no journal either.
    db = apsw.Connection(str(to), flags=apsw.SQLITE_OPEN_READWRITE, vfs="unix-none")
    db.pragma("journal_mode", "off")
    db.pragma("synchronous", "off")
    return db


def _run_copy(
    backup: apsw.Backup, to: Path, cancelled: threading.Event, progress: CopyCallback, pause: float
) -> None:
    steps = 0
    while not backup.done:
        begun = time.monotonic()
        backup.step(_STEP_PAGES)
        steps += 1
        if steps % _SYNC_INTERVAL == 0:
            # A little at a time: a commit of the gateway would wait for all unsynced data.
            _fdatasync(to)
        progress(CopyProgress(done=backup.page_count - backup.remaining, total=backup.page_count))
        took = time.monotonic() - begun
        # Longer pauses on a slow disk.
        if pause and cancelled.wait(max(pause - took, took)):
            raise StoreError("the copy was cancelled")


def _fdatasync(path: Path) -> None:
    fd = os.open(path, os.O_RDWR)
    try:
        os.fdatasync(fd)
    finally:
        os.close(fd)


class BackupSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup contains. `to` None: a generated name in the backup directory."""

    version: str
    at: float
    files_bytes: int = 0  # as measured before
    workspaces: bool = False
    secrets: bool = False
    to: Path | None = None


def create_backup(
    home: Path, database_copy: Path, folder: Path, spec: BackupSpec, *, progress: BytesCallback
) -> Path:
    """Make a complete and verified backup, or none. `database_copy` is consumed: it is in a staging
    folder, which the caller removes with everything that is left in it."""
    draft = database_copy.with_name("draft")
    try:
        _write_verified(home, database_copy, draft, spec, progress)
        if spec.to is None:
            return directory.add_backup(draft, folder, at=spec.at)
        directory.move_durably(draft, spec.to)
        return spec.to
    except OSError as error:
        raise HoldfastError(
            "No backup was made: {folder} cannot be written: {error}. No incomplete file was left. "
            "Check the free space and the permissions, or choose another folder with --to",
            folder=folder,
            error=error.strerror,
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
            "No backup was made, because the data is damaged: {error}. Run `holdfast "
            "doctor` to check and repair the database",
            error=error,
        ) from None


def describe_database(database_copy: Path, spec: BackupSpec) -> BackupManifest:
    with open_database_copy(database_copy) as db:
        return BackupManifest(
            version=spec.version,
            schema=db.pragma("user_version"),
            made_at=spec.at,
            database_bytes=database_copy.stat().st_size,
            files_bytes=spec.files_bytes,
            counts=_table_counts(db),
            last_active=db.execute("SELECT max(active_at) FROM sessions").get,
            workspaces=spec.workspaces,
            secrets=spec.secrets,
        )


def verify_backup(path: Path, staging: Path, *, progress: BytesCallback) -> BackupManifest:
    """Unpack a backup's database and open it, as a restore would. Raises `InvalidBackup`.
    `staging` is a folder for the unpacked database, which is removed afterwards."""
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
    """Raises `InvalidBackup` if the unpacked database is not what the manifest says."""
    if manifest.schema > len(load_migrations()):
        raise InvalidBackup(
            "{path} was made by Holdfast {version} and has schema version {schema}; this "
            "program supports versions up to {supported}. Use that version of Holdfast or"
            " a newer one",
            path=path,
            version=manifest.version,
            schema=manifest.schema,
            supported=len(load_migrations()),
        )
    if not database.exists():
        raise InvalidBackup(
            "{path} does not contain a database. Use another backup; `holdfast backup list` "
            "shows all",
            path=path,
        )
    try:
        with open_database_copy(database) as db:
            expected = (APPLICATION_ID, manifest.schema, manifest.counts)
            found = (db.pragma("application_id"), db.pragma("user_version"), _table_counts(db))
            if problems := quick_check(db.cursor()):
                raise InvalidBackup(
                    "The database in {path} is damaged: {problems}. Use another backup; "
                    "`holdfast backup list` shows all",
                    path=path,
                    problems=problems[0],
                )
    except errors.DAMAGE_ERRORS as error:
        raise InvalidBackup(
            "The database in {path} cannot be opened: {error}. Use another backup; "
            "`holdfast backup list` shows all",
            path=path,
            error=error,
        ) from None
    if expected != found:
        raise InvalidBackup(
            "The database in {path} does not match its manifest. Use another backup; "
            "`holdfast backup list` shows all",
            path=path,
        )


def require_free_space(folder: Path, needed: int) -> None:
    """Checked before anything is written: a full disk affects every process."""
    free = shutil.disk_usage(folder).free
    if free < needed + _MIN_FREE_SPACE:
        raise HoldfastError(
            "{folder} has {free:.0f} MB of free space, and this needs {needed:.0f} MB "
            "temporarily. Free some space, or choose another folder with --to",
            folder=folder,
            free=free / 1000000.0,
            needed=(needed + _MIN_FREE_SPACE) / 1000000.0,
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

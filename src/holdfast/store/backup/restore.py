"""Restores a verified backup: it replaces the files of a home, which are set aside."""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import TypeVar

import apsw
import msgspec

from holdfast.core.errors import HoldfastError
from holdfast.core.ops.backup import BackupManifest, InvalidBackup
from holdfast.core.people.approval import OPERATOR
from holdfast.core.people.audit import AuditEntry, AuditKind
from holdfast.store.backup import archive
from holdfast.store.backup.archive import BytesCallback
from holdfast.store.backup.create import (
    DATABASE,
    check_database,
    database_bytes,
    is_backup_file,
    require_free_space,
)
from holdfast.store.backup.restore_plan import (
    PLAN_FILE,
    STAGING_PREFIX,
    FileMove,
    RestorePlan,
    StepHook,
    commit_plan,
    finish_restore,
    fsync_path,
    is_safe_path,
    no_hook,
)
from holdfast.store.sqlite.writes import audit_log

T = TypeVar("T")

_PREVIOUS_SUFFIX = ".before-restore-"
_MAX_FILE_NAME = 255  # bytes, on every file system that a home may be on
_NUMBER_LENGTH = 8  # of them, for the number behind a name that is taken
_SIDE_FILES = ("-wal", "-shm", "-journal")
# Rebuilt from the database; after a restore, they would belong to another one.
_REBUILDABLE_FILES = tuple(f"search.db{suffix}" for suffix in ("", *_SIDE_FILES))


class RestoreResult(msgspec.Struct, frozen=True, kw_only=True):
    """`previous_files`: the new names of the files that were replaced; `left`: how many files of
    the backup existed already and were left alone."""

    manifest: BackupManifest
    previous_files: tuple[str, ...]
    placed: int
    left: int


def restore_backup(
    home: Path,
    backup: Path,
    *,
    at: float,
    overwrite: bool,
    progress: BytesCallback,
    hook: StepHook = no_hook,
) -> RestoreResult:
    """To be called by the holder of the home's lock. Before the plan is committed nothing of the
    home has changed; from then on the restored state counts.

    The database is replaced. Other files are put where there are none; with `everything`, also
    where there are.
    """
    finish_restore(home)
    mark = _unused_stamp(home, at)
    with staging_folder(home, mark) as staging:
        manifest, names = archive.unpack(
            backup,
            staging,
            should_extract=is_backup_file,
            check_space=partial(require_free_space, home),
            progress=progress,
        )
        check_database(backup, staging / DATABASE, manifest)
        hook("settle")
        _prepare_database(staging / DATABASE, at=at)
        names.remove(DATABASE)
        chosen = [name for name in names if _may_place(home, name, overwrite=overwrite)]
        _fsync_all(staging, [*chosen, DATABASE])
        moves = (*_file_moves(staging, chosen, mark), *_database_moves(staging, mark))
        previous_files = tuple(
            move.aside for move in moves if move.aside and _is_nonempty(home / move.place)
        )
        commit_plan(home, RestorePlan(room=staging.name, moves=moves), hook=hook)
    placed, left = len(chosen), len(names) - len(chosen)
    return RestoreResult(manifest=manifest, previous_files=previous_files, placed=placed, left=left)


def replace_database(home: Path, *, at: float, make: Callable[[Path], T]) -> tuple[T, str]:
    """Replace the database by one that `make` writes. Returns the result of `make`, and the name of
    the old database. The caller holds the lock of the home."""
    finish_restore(home)
    require_free_space(home, 2 * database_bytes(home))
    mark = _unused_stamp(home, at)
    with staging_folder(home, mark) as staging:
        result = make(staging / DATABASE)
        _fsync_all(staging, [DATABASE])
        commit_plan(home, RestorePlan(room=staging.name, moves=(*_database_moves(staging, mark),)))
    return result, f"{DATABASE}{_PREVIOUS_SUFFIX}{mark}"


@contextmanager
def staging_folder(home: Path, mark: str) -> Iterator[Path]:
    """A folder in the home, on the same file system as the files that it will replace."""
    staging = home / f"{STAGING_PREFIX}{mark}"
    staging.mkdir(mode=0o700)
    try:
        yield staging
    except OSError as error:
        raise HoldfastError(
            "{home} cannot be written: {error}. Nothing in it was changed. Check its "
            "permissions and the free space",
            home=home,
            error=error.strerror,
        ) from None
    finally:
        # Not if a plan is written: the next process that opens the store needs these files.
        if not (home / PLAN_FILE).exists():
            shutil.rmtree(staging, ignore_errors=True)


def _database_moves(staging: Path, mark: str) -> Iterator[FileMove]:
    """The WAL first: SQLite would apply it to the new file. Files that are moved away keep matching
    names, so that they can still be opened."""
    database_backup = f"{DATABASE}{_PREVIOUS_SUFFIX}{mark}"
    for suffix in _SIDE_FILES:
        side_file_backup = (
            "" if suffix == "-shm" else database_backup + suffix
        )  # shared memory, with nothing of its own
        yield FileMove(place=DATABASE + suffix, aside=side_file_backup)
    for name in _REBUILDABLE_FILES:
        yield FileMove(place=name)
    yield FileMove(place=DATABASE, staged=f"{staging.name}/{DATABASE}", aside=database_backup)


def _may_place(home: Path, name: str, *, overwrite: bool) -> bool:
    return is_safe_path(home, name) and (overwrite or not os.path.lexists(home / name))


def _is_nonempty(path: Path) -> bool:
    return os.path.lexists(path) and path.lstat().st_size > 0


def _file_moves(staging: Path, names: Iterable[str], mark: str) -> Iterator[FileMove]:
    for name in names:
        yield FileMove(
            place=name, staged=f"{staging.name}/{name}", aside=_previous_name(name, mark)
        )


def _previous_name(name: str, mark: str) -> str:
    """The name under which a file is set aside: its own name, shortened if the new one would be too
    long for the file system."""
    folder, slash, own = name.rpartition("/")
    suffix = f"{_PREVIOUS_SUFFIX}{mark}"
    room = _MAX_FILE_NAME - len(suffix) - _NUMBER_LENGTH
    own_start = os.fsencode(own)[:room].decode(errors="ignore")
    return f"{folder}{slash}{own_start}{suffix}"


def _prepare_database(database: Path, *, at: float) -> None:
    """Pending deliveries of the copy may have been sent since it was made, so they become possible
    repetitions. The audit continues with a row about the restore."""
    db = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        db.execute(
            "UPDATE outbox SET doubtful = 1 WHERE state IN ('pending', 'sending', 'unknown')"
        )
        if db.table_exists("main", "audit"):  # not in one that is older than that
            audit_log.record(
                db.cursor(), AuditEntry(kind=AuditKind.BACKUP_RESTORED, actor=OPERATOR, at=at)
            )
    except apsw.Error as error:
        raise InvalidBackup(
            "The database of the backup cannot be written: {error}. Check the free space, or use "
            "another backup; `holdfast backup list` shows all",
            error=error,
        ) from None
    finally:
        db.close()


def _fsync_all(staging: Path, names: Iterable[str]) -> None:
    folders = {staging}
    for name in names:
        fsync_path(staging / name)
        folders.add((staging / name).parent)
    for folder in folders:
        fsync_path(folder)


def _unused_stamp(home: Path, at: float) -> str:
    """A time stamp that no earlier set-aside file has."""
    stamp = f"{datetime.fromtimestamp(at, UTC):%Y%m%d-%H%M%S}Z"
    marks = chain([stamp], (f"{stamp}-{number}" for number in count(2)))
    return next(mark for mark in marks if not [*home.glob(f"*{_PREVIOUS_SUFFIX}{mark}*")])

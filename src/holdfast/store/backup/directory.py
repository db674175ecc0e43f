"""The backup directory: complete backups only, plus a locked staging folder for one that is
being made."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from holdfast.core.errors import HoldfastError
from holdfast.core.ops.backup import BackupManifest, InvalidBackup
from holdfast.store.backup.restore_plan import fsync_path

LATEST = "latest"
_PREFIX, _SUFFIX = "holdfast-", ".tar.gz"
_STAGING_PREFIX = ".holdfast-backup-"


class StoredBackup(msgspec.Struct, frozen=True, kw_only=True):
    """A file in the backup directory. Without a manifest it is invalid; `problem` says why."""

    path: Path
    bytes: int
    made_at: float
    manifest: BackupManifest | None = None
    problem: str = ""

    @property
    def name(self) -> str:
        return self.path.name.removesuffix(_SUFFIX)


def list_backups(folder: Path) -> list[StoredBackup]:
    """All backups, the newest first."""
    try:
        paths = [*folder.glob(f"{_PREFIX}*{_SUFFIX}")]
    except OSError as error:
        raise HoldfastError(
            "{folder} cannot be read: {error}. Check its permissions, or choose another folder "
            "with --in",
            folder=folder,
            error=error.strerror,
        ) from None
    return sorted(map(_read_backup, paths), key=lambda one: one.made_at, reverse=True)


def find_backup(folder: Path, name: str) -> Path:
    """The backup of that name, its beginning, `latest`, or the path of a file."""
    if "/" in name or (name.endswith(_SUFFIX) and Path(name).exists()):
        return Path(name).absolute()
    found = list_backups(folder)
    if name == LATEST:
        whole = [one for one in found if one.manifest is not None]
        if not whole:
            raise InvalidBackup(
                "There is no backup in {folder}. Run `holdfast backup create` to make one",
                folder=folder,
            )
        return whole[0].path
    prefix = name.removesuffix(_SUFFIX)
    matches = [one for one in found if one.name == prefix] or [
        one for one in found if one.name.startswith((prefix, _PREFIX + prefix))
    ]
    if len(matches) != 1:
        if matches:
            raise InvalidBackup(
                "The names of {n} backups in {folder} begin with {name!r}. Type more of the name; "
                "`holdfast backup list` shows all backups",
                n=len(matches),
                folder=folder,
                name=name,
            )
        raise InvalidBackup(
            "No backup in {folder} has a name that begins with {name!r}. `holdfast backup list` "
            "shows all backups",
            folder=folder,
            name=name,
        )
    return matches[0].path


def prune_backups(folder: Path, *, keep: int, always_keep: Path | None = None) -> list[Path]:
    """Remove all but the newest complete backups; returns the removed ones. `always_keep` stays
    whatever its date: after the clock was set back, the newest may be the oldest by its name."""
    whole = [
        one.path
        for one in list_backups(folder)
        if one.manifest is not None and one.path != always_keep
    ]
    pruned = whole[max(0, keep - (always_keep is not None)) :]
    for path in pruned:
        path.unlink(missing_ok=True)
    return pruned


@contextmanager
def staging_folder(folder: Path) -> Iterator[Path]:
    """A private folder beside the backups, gone afterwards. What a killed process left of one is
    cleared away here: the lock on it died with its owner."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_stale_staging(folder)
        room, fd = _locked_staging(folder)
    except OSError as error:
        raise HoldfastError(
            "{folder} cannot be written: {error}. Choose another folder with --to",
            folder=folder,
            error=error.strerror,
        ) from None
    try:
        yield room
    finally:
        shutil.rmtree(room, ignore_errors=True)
        os.close(fd)


def add_backup(draft: Path, folder: Path, *, at: float) -> Path:
    """Move a finished file into the backup directory, under a new name, atomically and durably."""
    stem = f"{_PREFIX}{datetime.fromtimestamp(at, UTC):%Y%m%d-%H%M%S}Z"
    path, number = folder / f"{stem}{_SUFFIX}", 1
    while path.exists():
        number += 1
        path = folder / f"{stem}-{number}{_SUFFIX}"
    move_durably(draft, path)
    return path


def move_durably(draft: Path, path: Path) -> None:
    fsync_path(draft)
    draft.rename(path)
    fsync_path(path.parent)


def _read_backup(path: Path) -> StoredBackup:
    from holdfast.store.backup.archive import read_manifest  # noqa: PLC0415 - where there is one

    status = path.stat()
    try:
        manifest = read_manifest(path)
    except InvalidBackup as error:
        return StoredBackup(
            path=path, bytes=status.st_size, made_at=status.st_mtime, problem=str(error)
        )
    return StoredBackup(
        path=path, bytes=status.st_size, made_at=manifest.made_at, manifest=manifest
    )


def _locked_staging(folder: Path) -> tuple[Path, int]:
    """A new staging folder and its lock. A cleanup between the two takes it for a stale one; then
    another is created."""
    while True:
        staging = folder / f"{_STAGING_PREFIX}{os.getpid()}-{os.urandom(4).hex()}"
        staging.mkdir(mode=0o700)
        with suppress(FileNotFoundError):
            fd = os.open(staging, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(fd, fcntl.LOCK_EX)
            if staging.exists():
                return staging, fd
            os.close(fd)


def _remove_stale_staging(folder: Path) -> None:
    for room in folder.glob(f"{_STAGING_PREFIX}*"):
        with suppress(OSError):  # in use, or just removed
            fd = os.open(room, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(room)
            finally:
                os.close(fd)

"""Turns failures of SQLite, of the disk and of the file into errors that say what happened,
where, and what to do."""

from pathlib import Path

import apsw

from holdfast.core.errors import StoreDamaged, StoreError, StoreUnusable, TransientStoreError

DAMAGE_ERRORS = (apsw.CorruptError, apsw.NotADBError, apsw.FormatError)

_PERMISSION_REMEDY = (
    "Give the user that runs the gateway write permission on the file and its folder"
)


def to_store_error(error: Exception, path: Path) -> StoreError:
    """Our own error, which says what happened, where, and what to do."""
    if isinstance(error, StoreError):
        return error
    if isinstance(error, DAMAGE_ERRORS):
        converted: StoreError = damaged_file(path, str(error))
    else:
        converted = _to_failure(error, path)
    converted.__cause__ = error
    return converted


def to_open_error(error: Exception, path: Path) -> StoreUnusable:
    """The same for a file that could not be opened."""
    converted = to_store_error(error, path)
    return converted if isinstance(converted, StoreUnusable) else StoreUnusable(str(converted))


def _to_failure(error: Exception, path: Path) -> StoreError:
    match error:
        case apsw.FullError():
            what, remedy = "the disk is full", "Free some space; no restart is needed then"
        case apsw.IOError():
            what = f"the disk failed ({error})"
            remedy = "Look at the disk and the system's log; no restart is needed once it works"
        case apsw.BusyError() | apsw.LockedError():
            what = "another program holds the file"
            remedy = "End that program: only the gateway may open this file"
        case apsw.ReadOnlyError() | apsw.CantOpenError() | apsw.PermissionsError() | OSError():
            what, remedy = f"it cannot be opened or written ({error})", _PERMISSION_REMEDY
        case _:
            what = f"{type(error).__name__}: {error}"
            return StoreError(
                f"{path}: {what}; nothing of this was written. Nothing else is affected"
            )
    return TransientStoreError(f"{path}: {what}; nothing of this was written. {remedy}")


def damaged_file(path: Path, damage: str) -> StoreDamaged:
    return StoreDamaged(
        f"{path} is damaged: {damage}. It was left as it is. `holdfast doctor` looks at it, and"
        " offers to restore the newest good backup or to save what can be read"
    )


def not_a_database(path: Path) -> StoreDamaged:
    return StoreDamaged(
        f"{path} is no SQLite database. It was left as it is. If it was one, `holdfast doctor`"
        " offers a backup; else move it away, or name another home with HOLDFAST_HOME"
    )


def foreign_database(path: Path, application_id: int) -> StoreUnusable:
    return StoreUnusable(
        f"{path} is a database of another program (application id {application_id:#010x})."
        " It was left as it is. Move it away, or name another home with HOLDFAST_HOME"
    )


def newer_schema(path: Path, version: int, known: int) -> StoreUnusable:
    return StoreUnusable(
        f"{path} has schema version {version}, and this program knows versions up to {known}."
        " It was left as it is. Run the newer Holdfast that wrote it, or restore a backup"
        " from before the upgrade"
    )


def read_only_file(path: Path) -> StoreUnusable:
    return StoreUnusable(f"{path} is read-only. It was left as it is. {_PERMISSION_REMEDY}")


def folder_missing(path: Path) -> StoreUnusable:
    return StoreUnusable(
        f"{path} cannot be made: the folder {path.parent} does not exist. Create it, or name"
        " another home with HOLDFAST_HOME"
    )


def not_a_file(path: Path) -> StoreUnusable:
    return StoreUnusable(f"{path} is no regular file. It was left as it is. Move it away")


def main_file_missing(path: Path, wal: Path) -> StoreDamaged:
    return StoreDamaged(
        f"{path} is missing or empty, but its log {wal.name} is there and holds messages."
        f" Nothing was written. Bring {path.name} back beside it; to start afresh, move the"
        " log away"
    )


def main_file_emptied(path: Path, search: str) -> StoreDamaged:
    return StoreDamaged(
        f"{path} is empty, and was not: {search} beside it was made from what it held. Nothing was"
        " written. `holdfast doctor` offers the newest good backup; to start afresh, remove both"
    )


def wal_unsupported(path: Path, mode: object) -> StoreUnusable:
    return StoreUnusable(
        f"{path} cannot keep a write-ahead log (journal mode is {mode}). The file system has"
        " no shared memory, as network drives have none: put the home on a local disk"
    )

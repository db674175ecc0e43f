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
                "{path}: {what}. Nothing was written; nothing else is affected",
                path=path,
                what=what,
            )
    return TransientStoreError(
        "{path}: {what}. Nothing was written. {remedy}", path=path, what=what, remedy=remedy
    )


def damaged_file(path: Path, damage: str) -> StoreDamaged:
    return StoreDamaged(
        "{path} is damaged: {damage}. It was not changed. Run `holdfast doctor` to "
        "restore the newest good backup or to recover what can be read",
        path=path,
        damage=damage,
    )


def not_a_database(path: Path) -> StoreDamaged:
    return StoreDamaged(
        "{path} is not an SQLite database. It was not changed. If it was one, run "
        "`holdfast doctor` to restore a backup. Otherwise move it away, or choose "
        "another home with HOLDFAST_HOME",
        path=path,
    )


def foreign_database(path: Path, application_id: int) -> StoreUnusable:
    return StoreUnusable(
        "{path} is a database of another program (application id "
        "{application_id:#010x}). It was not changed. Move it away, or choose another"
        " home with HOLDFAST_HOME",
        path=path,
        application_id=application_id,
    )


def newer_schema(path: Path, version: int, known: int) -> StoreUnusable:
    return StoreUnusable(
        "{path} has schema version {version}; this program supports versions up to "
        "{known}. It was not changed. Run the newer Holdfast that wrote it, or "
        "restore a backup from before the upgrade",
        path=path,
        version=version,
        known=known,
    )


def read_only_file(path: Path) -> StoreUnusable:
    return StoreUnusable(
        "{path} is read-only. {remedy}",
        path=path,
        remedy=_PERMISSION_REMEDY,
    )


def folder_missing(path: Path) -> StoreUnusable:
    return StoreUnusable(
        "{path} cannot be created: the folder {parent} does not exist. Create it, or "
        "choose another home with HOLDFAST_HOME",
        path=path,
        parent=path.parent,
    )


def not_a_file(path: Path) -> StoreUnusable:
    return StoreUnusable(
        "{path} is not a regular file. It was not changed. Move it away", path=path
    )


def main_file_missing(path: Path, wal: Path) -> StoreDamaged:
    return StoreDamaged(
        "{path} is missing or empty, but its write-ahead log {wal} contains messages."
        " Nothing was written. Put {name} back next to it. To start with an empty "
        "store, move the log away",
        path=path,
        wal=wal.name,
        name=path.name,
    )


def main_file_emptied(path: Path, search: str) -> StoreDamaged:
    return StoreDamaged(
        "{path} is empty, although {search} next to it was built from its content. "
        "Nothing was written. Run `holdfast doctor` to restore the newest good "
        "backup. To start with an empty store, remove both",
        path=path,
        search=search,
    )


def wal_unsupported(path: Path, mode: object) -> StoreUnusable:
    return StoreUnusable(
        "{path} cannot use a write-ahead log (journal mode is {mode}): the file "
        "system has no shared memory, like most network drives. Put the home on a "
        "local disk",
        path=path,
        mode=mode,
    )

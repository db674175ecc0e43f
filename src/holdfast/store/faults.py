"""What a failure of the disk, the file or a write says to the person who reads it."""

from pathlib import Path

import apsw

from holdfast.core.errors import StoreError, StoreUnusable

_NOTHING = "nothing of this was written"

DAMAGE = (apsw.CorruptError, apsw.NotADBError, apsw.FormatError)


def explain(error: Exception, path: Path) -> StoreError:
    """The error of ours that says what happened, where, and what to do."""
    if isinstance(error, StoreError):
        return error
    if isinstance(error, DAMAGE):
        return damaged(path, str(error))
    if isinstance(error, apsw.FullError):
        return StoreError(
            f"the disk that holds {path} is full: {_NOTHING}. Free some space there;"
            " no restart is needed"
        )
    if isinstance(error, apsw.IOError):
        return StoreError(
            f"the disk failed under {path} ({error}): {_NOTHING}. Look at the disk and the"
            " system's log; the gateway goes on once the disk does"
        )
    if isinstance(error, apsw.ReadOnlyError):
        return StoreError(f"{path} cannot be written any more ({error}): {_NOTHING}. {_MODE}")
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return StoreError(
            f"{path} is held by another program: {_NOTHING}. End that program; only the"
            " gateway may open this file"
        )
    return StoreError(f"{path} could not be used as asked ({type(error).__name__}: {error})")


_MODE = "Give the user that runs the gateway write permission on the file and its folder"


def damaged(path: Path, found: str) -> StoreUnusable:
    return StoreUnusable(
        f"{path} is damaged: {found}. It was left as it is. Set it aside together with its"
        " -wal file, and restore the newest good backup"
    )


def no_database(path: Path) -> StoreUnusable:
    return StoreUnusable(
        f"{path} is no SQLite database. It was left as it is. Move it away, or name another"
        " home with HOLDFAST_HOME"
    )


def foreign(path: Path, application_id: int) -> StoreUnusable:
    return StoreUnusable(
        f"{path} is a database of another program (application id {application_id:#010x})."
        " It was left as it is. Move it away, or name another home with HOLDFAST_HOME"
    )


def newer(path: Path, version: int, known: int) -> StoreUnusable:
    return StoreUnusable(
        f"{path} has schema version {version}, and this program knows versions up to {known}."
        " It was left as it is. Run the newer Holdfast that wrote it, or restore a backup"
        " from before the upgrade"
    )


def read_only(path: Path) -> StoreUnusable:
    return StoreUnusable(f"{path} is read-only. It was left as it is. {_MODE}")


def no_folder(path: Path) -> StoreUnusable:
    return StoreUnusable(
        f"{path} cannot be made: the folder {path.parent} does not exist. Create it, or name"
        " another home with HOLDFAST_HOME"
    )


def not_a_file(path: Path) -> StoreUnusable:
    return StoreUnusable(f"{path} is no regular file. It was left as it is. Move it away")


def lost(path: Path, log: Path) -> StoreUnusable:
    return StoreUnusable(
        f"{path} is missing or empty, but its log {log.name} is there and holds messages."
        f" Nothing was written. Bring {path.name} back beside it; to start afresh, move the"
        " log away"
    )


def cannot_open(path: Path, error: Exception) -> StoreUnusable:
    return StoreUnusable(f"{path} cannot be opened ({error}). Nothing was written. {_MODE}")


def no_log(path: Path, mode: object) -> StoreUnusable:
    return StoreUnusable(
        f"{path} cannot keep a write-ahead log (journal mode is {mode}). The file system has"
        " no shared memory, as network drives have none: put the home on a local disk"
    )

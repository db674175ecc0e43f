"""The file at rest: looked at by the holder of the home's lock, with nothing written to it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import msgspec

from holdfast.store.backup.plan import finish_restore
from holdfast.store.sqlite import errors
from holdfast.store.sqlite.checking import quick_check
from holdfast.store.sqlite.inspection import check_header, has_wal
from holdfast.store.sqlite.opening import open_immutable, open_reader
from holdfast.store.sqlite.schema import load_migrations


class ClosedStoreCheck(msgspec.Struct, frozen=True, kw_only=True):
    """`behind`: it is of an older schema, which its next owner brings up to the present one."""

    problems: list[str]
    needs_migration: bool


def check_closed_store(path: Path) -> ClosedStoreCheck:
    """Reads every page of it; `StoreUnusable`: it is none of ours, or newer than this program."""
    known = len(load_migrations())
    with open_closed_store(path) as db:
        version = db.pragma("user_version")
        if version > known:
            raise errors.newer_schema(path, version, known)
        return ClosedStoreCheck(problems=quick_check(db.cursor()), needs_migration=version < known)


@contextmanager
def open_closed_store(path: Path) -> Iterator[apsw.Connection]:
    """A connection that can only read, to a file that nobody has open. A restore that was cut is
    carried to its end before."""
    finish_restore(path.parent)
    check_header(path, known=len(load_migrations()), vfs=None)
    # One that was closed has no log, and needs none to be made beside it.
    db = open_reader(path, vfs=None) if has_wal(path) else open_immutable(path)
    try:
        yield db
    except apsw.Error as error:
        raise errors.to_store_error(error, path) from error
    finally:
        db.close()

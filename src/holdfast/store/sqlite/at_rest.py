"""The file at rest: looked at by the holder of the home's lock, with nothing written to it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import msgspec

from holdfast.store.backup.plan import finish
from holdfast.store.sqlite import errors
from holdfast.store.sqlite.checking import quick_check
from holdfast.store.sqlite.inspection import has_log, inspect
from holdfast.store.sqlite.opening import open_reader, open_untouched
from holdfast.store.sqlite.schema import migrations


class AtRest(msgspec.Struct, frozen=True, kw_only=True):
    """`behind`: it is of an older schema, which its next owner brings up to the present one."""

    problems: list[str]
    behind: bool


def look_through(path: Path) -> AtRest:
    """Reads every page of it; `StoreUnusable`: it is none of ours, or newer than this program."""
    known = len(migrations())
    with opened_at_rest(path) as db:
        version = db.pragma("user_version")
        if version > known:
            raise errors.newer(path, version, known)
        return AtRest(problems=quick_check(db.cursor()), behind=version < known)


@contextmanager
def opened_at_rest(path: Path) -> Iterator[apsw.Connection]:
    """A connection that can only read, to a file that nobody has open. A restore that was cut is
    carried to its end before."""
    finish(path.parent)
    inspect(path, known=len(migrations()), vfs=None)
    # One that was closed has no log, and needs none to be made beside it.
    db = open_reader(path, vfs=None) if has_log(path) else open_untouched(path)
    try:
        yield db
    except apsw.Error as error:
        raise errors.explain(error, path) from error
    finally:
        db.close()

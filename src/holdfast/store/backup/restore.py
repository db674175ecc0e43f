"""Restoring: a verified backup takes the place of what is in a home, which is set aside."""

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
from holdfast.core.ops.backup import BadBackup, Manifest
from holdfast.core.people.approval import OPERATOR
from holdfast.core.people.audit import Act, AuditKind
from holdfast.store.backup import archive
from holdfast.store.backup.archive import Tell
from holdfast.store.backup.gathering import DATABASE, belongs
from holdfast.store.backup.packing import check, enough_room
from holdfast.store.backup.plan import (
    PLAN,
    ROOM,
    Move,
    Plan,
    Step,
    commit,
    finish,
    reachable,
    unwatched,
)
from holdfast.store.backup.syncing import sync
from holdfast.store.sqlite.writes import audit

T = TypeVar("T")

_ASIDE = ".before-restore-"
_LONGEST_NAME = 255  # bytes, on every file system that a home may be on
_COUNTED = 8  # of them, for the number behind a name that is taken
_BESIDE = ("-wal", "-shm", "-journal")
# What can be made anew from the database, and would follow another one than is there then.
_REBUILT = tuple(f"search.db{suffix}" for suffix in ("", *_BESIDE))


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """`aside`: under which names lies what was there; `left`: files of the backup that were there
    already and stayed."""

    manifest: Manifest
    aside: tuple[str, ...]
    placed: int
    left: int


def restore(
    home: Path, backup: Path, *, at: float, everything: bool, tell: Tell, step: Step = unwatched
) -> Restored:
    """To be called by the holder of the home's lock. Before the plan is committed nothing of the
    home has changed; from then on the restored state counts.

    The database is replaced. Other files are put where there are none; with `everything`, also
    where there are.
    """
    finish(home)
    mark = _stamp(home, at)
    with staging(home, mark) as room:
        manifest, names = archive.unpack(
            backup, room, wanted=belongs, fits=partial(enough_room, home), tell=tell
        )
        check(backup, room / DATABASE, manifest)
        step("settle")
        _settle(room / DATABASE, at=at)
        names.remove(DATABASE)
        chosen = [name for name in names if _fits(home, name, everything=everything)]
        _sync_all(room, [*chosen, DATABASE])
        moves = (*_others(room, chosen, mark), *_exchange(room, mark))
        aside = tuple(
            move.aside for move in moves if move.aside and _holds_something(home / move.place)
        )
        commit(home, Plan(room=room.name, moves=moves), at=step)
    placed, left = len(chosen), len(names) - len(chosen)
    return Restored(manifest=manifest, aside=aside, placed=placed, left=left)


def replace_database(home: Path, *, at: float, make: Callable[[Path], T]) -> tuple[T, str]:
    """Have a database made, and put it in the place of the one that is there; what `make` told,
    and the name under which the old one lies then. To be called by the holder of the lock."""
    finish(home)
    enough_room(home, 2 * (home / DATABASE).stat().st_size)
    mark = _stamp(home, at)
    with staging(home, mark) as room:
        told = make(room / DATABASE)
        _sync_all(room, [DATABASE])
        commit(home, Plan(room=room.name, moves=(*_exchange(room, mark),)))
    return told, f"{DATABASE}{_ASIDE}{mark}"


@contextmanager
def staging(home: Path, mark: str) -> Iterator[Path]:
    """A folder in the home, on the same file system as what it will replace."""
    room = home / f"{ROOM}{mark}"
    room.mkdir(mode=0o700)
    try:
        yield room
    except OSError as error:
        raise HoldfastError(
            f"{home} cannot be written: {error.strerror}. Nothing in it has changed"
        ) from None
    finally:
        # Not where a plan counts already: whoever opens the store next needs what is here.
        if not (home / PLAN).exists():
            shutil.rmtree(room, ignore_errors=True)


def _exchange(room: Path, mark: str) -> Iterator[Move]:
    """The log goes first: SQLite would take it for the new file's own. Whatever is set aside keeps
    the names that belong together, so that it can be opened as it was."""
    aside = f"{DATABASE}{_ASIDE}{mark}"
    for suffix in _BESIDE:
        kept = "" if suffix == "-shm" else aside + suffix  # shared memory, with nothing of its own
        yield Move(place=DATABASE + suffix, aside=kept)
    for name in _REBUILT:
        yield Move(place=name)
    yield Move(place=DATABASE, staged=f"{room.name}/{DATABASE}", aside=aside)


def _fits(home: Path, name: str, *, everything: bool) -> bool:
    return reachable(home, name) and (everything or not os.path.lexists(home / name))


def _holds_something(path: Path) -> bool:
    return os.path.lexists(path) and path.lstat().st_size > 0


def _others(room: Path, names: Iterable[str], mark: str) -> Iterator[Move]:
    for name in names:
        yield Move(place=name, staged=f"{room.name}/{name}", aside=_beside(name, mark))


def _beside(name: str, mark: str) -> str:
    """Where a file is set aside: under its own name, or the beginning of one that is too long to
    be made longer. A plan that meets one could never be carried out."""
    folder, slash, own = name.rpartition("/")
    suffix = f"{_ASIDE}{mark}"
    room = _LONGEST_NAME - len(suffix) - _COUNTED
    own_start = os.fsencode(own)[:room].decode(errors="ignore")
    return f"{folder}{slash}{own_start}{suffix}"


def _settle(database: Path, *, at: float) -> None:
    """What the copy owes to platforms may have been delivered since it was made: nobody knows, so
    that it is sent as what may be a repetition. Its audit goes on with that it was put back."""
    db = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        db.execute(
            "UPDATE outbox SET doubtful = 1 WHERE state IN ('pending', 'sending', 'unknown')"
        )
        if db.table_exists("main", "audit"):  # not in one that is older than that
            audit.record(db.cursor(), Act(kind=AuditKind.BACKUP_RESTORED, actor=OPERATOR, at=at))
    except apsw.Error as error:
        raise BadBackup(f"The database of the backup cannot be written: {error}") from None
    finally:
        db.close()


def _sync_all(room: Path, names: Iterable[str]) -> None:
    folders = {room}
    for name in names:
        sync(room / name)
        folders.add((room / name).parent)
    for folder in folders:
        sync(folder)


def _stamp(home: Path, at: float) -> str:
    """By which what is set aside now is known; nothing that was set aside before has it."""
    stamp = f"{datetime.fromtimestamp(at, UTC):%Y%m%d-%H%M%S}Z"
    marks = chain([stamp], (f"{stamp}-{number}" for number in count(2)))
    return next(mark for mark in marks if not [*home.glob(f"*{_ASIDE}{mark}*")])

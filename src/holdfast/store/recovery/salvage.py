"""Salvage: a new store of all that can be read of a damaged one, and a count of what cannot."""

import os
import shutil
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import apsw
import msgspec

from holdfast.core.errors import StoreUnusable
from holdfast.core.ops.backup import said
from holdfast.store.recovery.homeless import give_rows
from holdfast.store.recovery.layout import layouts
from holdfast.store.recovery.pages import Pages
from holdfast.store.recovery.records import Value
from holdfast.store.recovery.trees import Found, Tell, Trees
from holdfast.store.sqlite import errors
from holdfast.store.sqlite.inspection import APPLICATION_ID
from holdfast.store.sqlite.schema import migrate, migrations

_NOTHING = "nothing is known to be lost"


class Salvaged(msgspec.Struct, frozen=True, kw_only=True):
    """`lost_pages` and `about_lost` (rows, by table) are of what was there and is not any more;
    where a whole page is lost the rows are an estimate, from what others of its table hold, and
    from the numbers that are missing. What was in pages that nothing leads to, nobody can count."""

    rows: Mapping[str, int]
    lost_pages: int
    about_lost: Mapping[str, int]

    def told(self) -> str:
        """In the words of a person."""
        lost = ", ".join(f"{count} {table}" for table, count in self.about_lost.items())
        missing = [f"about {lost} are lost, perhaps more"] if lost else []
        if self.lost_pages:
            pages = "1 page" if self.lost_pages == 1 else f"{self.lost_pages} pages"
            missing.append(f"{pages} could not be read, with what was in them")
        return f"{said(self.rows)} were saved; {', and '.join(missing) or _NOTHING}"


def salvage(damaged: Path, new: Path, *, tell: Tell) -> Salvaged:
    """Read the damaged file, which is left as it is, into a new one; `StoreUnusable`: nothing can
    be read, or it is newer than this program, which would drop what it does not know. To be called
    by the holder of the home's lock, with nobody else at the file."""
    work = new.with_name("damaged")
    _copy(damaged, work)
    with open(work, "rb") as file:
        pages, known = Pages(file), len(migrations())
        if pages.version > known:
            raise errors.newer(damaged, pages.version, known)
        version = pages.version or known
        trees = Trees(pages, layouts(version), tell=tell)
        kept = _fill(new, trees, version)
    work.unlink()
    if not kept.total():
        raise StoreUnusable(
            f"{damaged} holds nothing that can be read any more. It was left as it is: restore the"
            " newest good backup"
        )
    return Salvaged(
        rows=dict(kept),
        lost_pages=sum(trees.lost.values()) + trees.unplaced + pages.cut_off,
        about_lost=_estimate(trees),
    )


def _copy(damaged: Path, work: Path) -> None:
    """With the log folded in, by SQLite: it looks at no page for that, and does it as it closes
    also where it takes the file for none."""
    log = damaged.with_name(damaged.name + "-wal")
    shutil.copyfile(damaged, work)
    if not log.exists():
        return
    shutil.copyfile(log, work.with_name(work.name + "-wal"))
    with suppress(apsw.Error):
        db = apsw.Connection(str(work), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            db.pragma("user_version")  # before it has read, it does not know that there is a log
            db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        finally:
            db.close()
    for suffix in ("-wal", "-shm"):
        work.with_name(work.name + suffix).unlink(missing_ok=True)


def _fill(new: Path, trees: Trees, version: int) -> Counter[str]:
    os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    db = apsw.Connection(str(new))
    kept: Counter[str] = Counter()
    try:
        db.pragma("application_id", APPLICATION_ID)
        for migration in migrations()[:version]:
            migrate(db, migration)
        with db:
            for found in trees.walk():
                table = found.layout.table
                if _insert(db, found):
                    kept[table] += 1
                    trees.regained[table] += found.layout.copy
                elif not found.layout.copy:
                    trees.broken[table] += 1
            _count_on(db, trees.sequences)
            kept["sessions"] += give_rows(db)
            trees.gaps["messages"] = _gaps(db)
    finally:
        db.close()
    return kept


def _insert(db: apsw.Connection, found: Found) -> bool:
    """False: it makes no sense, or contradicts the schema or a row that is there."""
    row = found.layout.row(found.entry.rowid, found.entry.values)
    if not _sensible(row):
        return False
    names, places = ", ".join(row), ", ".join("?" * len(row))
    statement = f"INSERT OR IGNORE INTO {found.layout.table} ({names}) VALUES ({places})"
    try:
        db.execute(statement, tuple(row.values()))
    except apsw.ConstraintError:
        return False
    return db.changes() > 0


def _sensible(row: Mapping[str, Value]) -> bool:
    """A page that was lost in the middle of a long text leaves one that looks like a text."""
    if any(isinstance(value, str) and "\0" in value for value in row.values()):
        return False
    body = row.get("body")
    try:
        if isinstance(body, str):
            msgspec.json.decode(body)
    except msgspec.DecodeError:
        return False
    return True


def _count_on(db: apsw.Connection, sequences: Mapping[str, int]) -> None:
    """A number that was given out is not given out again, also where its row is lost."""
    for table, number in sequences.items():
        given = db.execute("SELECT max(seq) FROM sqlite_sequence WHERE name = ?", (table,)).get
        db.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table,))
        db.execute(
            "INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)",
            (table, max(given or 0, number)),
        )


def _gaps(db: apsw.Connection) -> int:
    """Messages that are missing before others: those of a conversation are numbered from 1."""
    missing = db.execute(
        "SELECT total(last - held) FROM (SELECT max(seq) AS last, count(*) AS held FROM messages"
        " GROUP BY session_id)"
    ).get
    return int(missing)


def _estimate(trees: Trees) -> dict[str, int]:
    gone = Counter(trees.broken)
    for table, count in trees.lost.items():
        if trees.leaves[table] and table not in ("sqlite_schema", "sqlite_sequence"):
            gone[table] += round(count * trees.rows[table] / trees.leaves[table])
    gone.subtract(trees.regained)
    gone |= trees.gaps
    return {table: count for table, count in gone.items() if count > 0}

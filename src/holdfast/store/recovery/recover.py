"""Recovers a damaged database: copies every readable row into a new file and estimates what is
lost."""

import os
import shutil
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import apsw
import msgspec

from holdfast.core.errors import StoreUnusable
from holdfast.core.messages.source import Source, build_session_key
from holdfast.core.ops.backup import describe_counts
from holdfast.core.text.translation import _, _n
from holdfast.store.recovery.file_format import PageReader, Value
from holdfast.store.recovery.layout import schema_layouts
from holdfast.store.recovery.trees import FoundRow, PagesCallback, TreeWalker
from holdfast.store.sqlite import errors
from holdfast.store.sqlite.file_check import APPLICATION_ID
from holdfast.store.sqlite.schema import apply_migration, load_migrations


def restore_orphan_sessions(db: apsw.Connection) -> int:
    """Restores sessions whose rows are lost, and returns their number. The chat of a session is
    known if a message of it or its route is left; otherwise it is put where the command line and
    the page find it."""
    found = db.execute(
        "SELECT session_id, min(created_at), max(created_at) FROM messages"
        " WHERE session_id NOT IN (SELECT id FROM sessions) GROUP BY session_id"
    ).fetchall()
    for session_id, first, last in found:
        db.execute(
            "INSERT INTO sessions (id, route, created_at, active_at) VALUES (?, ?, ?, ?)",
            (session_id, _orphan_route(db, str(session_id)), first, last),
        )
    return len(found)


def _orphan_route(db: apsw.Connection, session_id: str) -> str:
    known = db.execute(
        "SELECT route FROM inbox WHERE session_id = ?1"
        " UNION ALL SELECT key FROM routes WHERE session_id = ?1 LIMIT 1",
        (session_id,),
    ).get
    if known is not None:
        return str(known)
    return str(build_session_key(Source(platform="api", chat_id=session_id, user_id=session_id)))


# Written by triggers with the other rows, or when they are asked for.
_DERIVED_TABLES = frozenset(
    {
        *("row_counts", "counted", "message_changes"),
        *("usage_mark", "usage_counted", "usage_sums", "model_usage"),
    }
)
_NOT_ESTIMATED = frozenset({"sqlite_schema", "sqlite_sequence", *_DERIVED_TABLES})
_FIRST_WITH_LISTS = 21  # the schema in which turns list their messages
_FIRST_WITH_SUMS = 23  # the schema in which the usage of sessions is counted


class RecoveryResult(msgspec.Struct, frozen=True, kw_only=True):
    """`estimated_lost_rows` is by table. For lost pages it is an estimate, from the other pages of
    the table and from gaps in the numbers. Rows in unassigned pages cannot be counted."""

    rows: Mapping[str, int]
    lost_pages: int
    estimated_lost_rows: Mapping[str, int]

    def summary(self) -> str:
        """The result for a person, in whole sentences."""
        texts = [_("Recovered: {contents}.").format(contents=describe_counts(self.rows))]
        if self.estimated_lost_rows:
            lost = [f"{count} {table}" for table, count in self.estimated_lost_rows.items()]
            text = _("Lost, as an estimate: {rows}; perhaps more.")
            texts.append(text.format(rows=", ".join(lost)))
        if n := self.lost_pages:
            text = _n(
                "{n} page of the file could not be read.",
                "{n} pages of the file could not be read.",
                n,
            )
            texts.append(text.format(n=n))
        if len(texts) == 1:
            texts.append(_("No loss is known."))
        return " ".join(texts)


def recover_database(damaged: Path, new: Path, *, progress: PagesCallback) -> RecoveryResult:
    """Copy the readable rows of the damaged file, which is not changed, into a new one. Raises
    `StoreUnusable` if nothing can be read, or if it is newer than this program, which would drop
    what it does not know. The caller holds the lock of the home; no process has the file open."""
    work = new.with_name("damaged")
    _copy_with_wal(damaged, work)
    with open(work, "rb") as file:
        pages, known = PageReader(file), len(load_migrations())
        if pages.version > known:
            raise errors.newer_schema(damaged, pages.version, known)
        version = pages.version or known
        trees = TreeWalker(pages, schema_layouts(version), progress=progress)
        recovered = _fill_database(new, trees, version)
    work.unlink()
    if not recovered.total():
        raise StoreUnusable(
            "{damaged} has no readable rows and was not changed. Restore the newest good backup",
            damaged=damaged,
        )
    return RecoveryResult(
        rows=dict(recovered),
        lost_pages=sum(trees.lost_pages.values()) + trees.unassigned_pages + pages.missing_pages,
        estimated_lost_rows=_estimate_lost(trees),
    )


def _copy_with_wal(damaged: Path, work: Path) -> None:
    """Copy the file and let SQLite checkpoint the WAL into the copy: it reads no page for that, and
    does it on close even for a file that it does not accept."""
    wal = damaged.with_name(damaged.name + "-wal")
    shutil.copyfile(damaged, work)
    if not wal.exists():
        return
    shutil.copyfile(wal, work.with_name(work.name + "-wal"))
    with suppress(apsw.Error):
        db = apsw.Connection(str(work), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            db.pragma("user_version")  # only a read makes it notice the WAL
            db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        finally:
            db.close()
    for suffix in ("-wal", "-shm"):
        work.with_name(work.name + suffix).unlink(missing_ok=True)


def _fill_database(new: Path, trees: TreeWalker, version: int) -> Counter[str]:
    os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    db = apsw.Connection(str(new))
    recovered: Counter[str] = Counter()
    try:
        db.pragma("application_id", APPLICATION_ID)
        for migration in load_migrations()[:version]:
            apply_migration(db, migration)
        with db:
            for found in trees.walk():
                table = found.layout.table
                if table in _DERIVED_TABLES:
                    continue
                if _insert_row(db, found):
                    recovered[table] += 1
                    trees.rows_from_indexes[table] += found.layout.is_copy
                elif not found.layout.is_copy:
                    trees.unreadable_rows[table] += 1
            _restore_sequences(db, trees.sequences)
            recovered["sessions"] += restore_orphan_sessions(db)
            _unlist_messages(db)
            _count_usage(db)
            trees.missing_rows["messages"] = _count_missing_messages(db)
    finally:
        db.close()
    return recovered


def _insert_row(db: apsw.Connection, found: FoundRow) -> bool:
    """Inserts a row; False: it is implausible, or conflicts with the schema or an existing row."""
    row = found.layout.row(found.cell.rowid, found.cell.values)
    if not _is_plausible(row):
        return False
    names, placeholders = ", ".join(row), ", ".join("?" * len(row))
    statement = f"INSERT OR IGNORE INTO {found.layout.table} ({names}) VALUES ({placeholders})"
    try:
        db.execute(statement, tuple(row.values()))
    except apsw.ConstraintError:
        return False
    return db.changes() > 0


def _is_plausible(row: Mapping[str, Value]) -> bool:
    """Detects texts with a lost page in the middle, which still look like texts."""
    if any(isinstance(value, str) and "\0" in value for value in row.values()):
        return False
    body = row.get("body")
    try:
        if isinstance(body, str):
            msgspec.json.decode(body)
    except msgspec.DecodeError:
        return False
    return True


def _unlist_messages(db: apsw.Connection) -> None:
    """Makes messages whose turn is lost findable by their own row, and removes parts whose delivery
    is lost."""
    if db.pragma("user_version") >= _FIRST_WITH_LISTS:
        db.execute(
            "UPDATE inbox SET listed = NULL WHERE listed AND turn_id NOT IN (SELECT id FROM turns)"
        )
        db.execute("DELETE FROM parts WHERE delivery_id NOT IN (SELECT id FROM outbox)")


def _count_usage(db: apsw.Connection) -> None:
    """Counts the usage again: a row may have been counted before its session was inserted."""
    if db.pragma("user_version") >= _FIRST_WITH_SUMS:
        db.execute(
            "DELETE FROM usage_counted; DELETE FROM usage_sums;"
            "UPDATE usage_mark SET turn = '', session = '';"
            "UPDATE counted SET last = last WHERE name = 'inbox'"
        )


def _restore_sequences(db: apsw.Connection, sequences: Mapping[str, int]) -> None:
    """Makes sure that a number that was used is not used again, even if its row is lost."""
    for table, number in sequences.items():
        given = db.execute("SELECT max(seq) FROM sqlite_sequence WHERE name = ?", (table,)).get
        db.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table,))
        db.execute(
            "INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)",
            (table, max(given or 0, number)),
        )


def _count_missing_messages(db: apsw.Connection) -> int:
    """Gaps in the numbers of messages, which start at 1 in each session."""
    missing = db.execute(
        "SELECT total(last - held) FROM (SELECT max(seq) AS last, count(*) AS held FROM messages"
        " GROUP BY session_id)"
    ).get
    return int(missing)


def _estimate_lost(trees: TreeWalker) -> dict[str, int]:
    lost = Counter(trees.unreadable_rows)
    for table, count in trees.lost_pages.items():
        if trees.leaf_pages[table] and table not in _NOT_ESTIMATED:
            lost[table] += round(count * trees.row_counts[table] / trees.leaf_pages[table])
    lost.subtract(trees.rows_from_indexes)
    lost |= trees.missing_rows
    return {table: count for table, count in lost.items() if count > 0}

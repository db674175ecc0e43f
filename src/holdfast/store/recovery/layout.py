"""The layout of a schema version: which columns the rows of each B-tree have, and in which
order."""

from collections.abc import Iterable, Mapping

import apsw
import msgspec

from holdfast.store.recovery.file_format import Value
from holdfast.store.sqlite.schema import apply_migration, load_migrations

_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "TEXT": (str,),
    "INTEGER": (int,),
    "REAL": (int, float),  # SQLite writes a whole number as such
    "BLOB": (bytes,),
    "ANY": (int, float, str, bytes),
}


class Column(msgspec.Struct, frozen=True):
    name: str
    kind: str
    not_null: bool = False


class TreeLayout(msgspec.Struct, frozen=True, kw_only=True):
    """A B-tree. `rowid`: it is keyed by rowid, and `key` names the column that is the rowid; others
    have their key first. `table` "": an index without data of its own; an index with all columns of
    its table is a copy of it. Rows of the first schema version may have fewer columns.
    """

    table: str
    rowid: bool
    columns: tuple[Column, ...]
    key: str = ""
    is_copy: bool = False
    min_columns: int = 0

    def fits(self, values: list[Value]) -> bool:
        return (self.min_columns or len(self.columns)) <= len(values) <= len(self.columns) and all(
            (not column.not_null or column.name == self.key)
            if value is None
            else isinstance(value, _PYTHON_TYPES.get(column.kind, ()))
            for column, value in zip(self.columns, values, strict=False)
        )

    def row(self, rowid: int | None, values: list[Value]) -> dict[str, Value]:
        """The values by column name. A row from before a column was added has fewer values than
        columns."""
        named = {column.name: value for column, value in zip(self.columns, values, strict=False)}
        return named | {self.key: rowid} if self.key else named


def schema_layouts(version: int) -> dict[str, TreeLayout]:
    """Every tree of that version of the schema, by its name."""
    db = apsw.Connection(":memory:")
    first: dict[str, int] = {}
    try:
        for migration in load_migrations()[:version]:
            apply_migration(db, migration)
            for name in _names(db, "table"):
                first.setdefault(name, len(_table_layout(db, name).columns))
        tables = {
            name: _table_layout(db, name, min_columns=first[name]) for name in _names(db, "table")
        }
        return tables | {name: _index_layout(db, name, tables) for name in _names(db, "index")}
    finally:
        db.close()


def _names(db: apsw.Connection, kind: str) -> list[str]:
    rows = db.execute("SELECT name FROM sqlite_schema WHERE type = ?", (kind,))
    return [str(name) for (name,) in rows]


def _table_layout(db: apsw.Connection, name: str, *, min_columns: int = 0) -> TreeLayout:
    found = db.execute('SELECT name, type, "notnull", pk FROM pragma_table_info(?)', (name,))
    rows = [(Column(each, kind, bool(needed)), pk) for each, kind, needed, pk in found]
    keys = [column for column, pk in sorted(rows, key=lambda row: row[1]) if pk]
    if db.execute("SELECT wr FROM pragma_table_list(?)", (name,)).get:
        rest = [column for column, pk in rows if not pk]
        return TreeLayout(table=name, rowid=False, columns=(*keys, *rest), min_columns=min_columns)
    own = len(keys) == 1 and keys[0].kind == "INTEGER"
    columns = tuple(column for column, _ in rows)
    return TreeLayout(
        table=name,
        rowid=True,
        columns=columns,
        key=keys[0].name if own else "",
        min_columns=min_columns,
    )


def _index_layout(db: apsw.Connection, name: str, tables: Mapping[str, TreeLayout]) -> TreeLayout:
    """A partial index is not a copy, even with all columns."""
    columns = tuple(_index_columns(db, name))
    found = db.execute("SELECT tbl_name, sql FROM sqlite_schema WHERE name = ?", (name,))
    [(table, sql)] = [(str(table), str(sql)) for table, sql in found]
    whole = {column.name for column in tables[table].columns} <= {each.name for each in columns}
    copy = whole and "WHERE" not in sql
    return TreeLayout(table=table if copy else "", rowid=False, columns=columns, is_copy=copy)


def _index_columns(db: apsw.Connection, name: str) -> Iterable[Column]:
    table = db.execute("SELECT tbl_name FROM sqlite_schema WHERE name = ?", (name,)).get
    kinds = dict(db.execute("SELECT name, type FROM pragma_table_info(?)", (table,)))
    for (column,) in db.execute("SELECT name FROM pragma_index_xinfo(?)", (name,)):
        yield Column(str(column), str(kinds.get(column, "INTEGER")))

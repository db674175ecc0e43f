"""Damages the file of a store, and reads its rows."""

import random
from pathlib import Path

import apsw

PAGE = 4096
Rows = dict[str, set[str]]
_OWN_TABLES = {"message_changes", "usage_mark", "usage_counted", "usage_sums", "model_usage"}


def damage_pages(path: Path, *pages: int, chance: random.Random) -> None:
    """Overwrite whole pages with random bytes or zeros."""
    body = bytearray(path.read_bytes())
    for page in pages:
        damaged = chance.randbytes(PAGE) if chance.random() < 0.5 else bytes(PAGE)
        body[page * PAGE : (page + 1) * PAGE] = damaged
    path.write_bytes(body)


def read_rows(path: Path) -> Rows:
    """All rows but those of tables of which each file has its own."""
    db = apsw.Connection(str(path))
    names = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    found = {
        str(name): {repr(row) for row in db.execute(f'SELECT * FROM "{name}"')}
        for name in names
        if name not in _OWN_TABLES
    }
    db.close()
    return found


def root_page(path: Path, name: str) -> int:
    """The page that a table or an index begins on, counted from 1."""
    db = apsw.Connection(str(path))
    root = int(db.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (name,)).get)
    db.close()
    return root

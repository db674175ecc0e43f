"""The schema: the numbered migrations in `migrations/`, each applied whole or not at all."""

import re
from pathlib import Path

import apsw
import msgspec

from holdfast.core.errors import StoreUnusable


class Migration(msgspec.Struct, frozen=True):
    number: int
    sql: str


def load_migrations() -> list[Migration]:
    """The numbered steps of the schema, in order; a gap or a repeat is a broken package."""
    folder = Path(__file__).with_name("migrations")
    found = [
        Migration(int(file.name[:4]), file.read_text(encoding="utf-8"))
        for file in folder.iterdir()
        if re.fullmatch(r"\d{4}_\w+\.sql", file.name)
    ]
    found.sort(key=lambda migration: migration.number)
    if [migration.number for migration in found] != list(range(1, len(found) + 1)):
        raise StoreUnusable(
            "this installation is incomplete: a migration is missing in "
            "store/sqlite/migrations. Install Holdfast again"
        )
    return found


def apply_migration(db: apsw.Connection, migration: Migration) -> None:
    """Applies a migration and records its number, or does nothing."""
    db.execute("BEGIN IMMEDIATE")
    try:
        db.execute(migration.sql)
        db.pragma("user_version", migration.number)
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise

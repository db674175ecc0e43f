"""Saved configurations are never changed or deleted."""

import apsw
import pytest

from holdfast.store.sqlite.schema import apply_migration, load_migrations


def test_saved_configurations_cannot_be_changed_or_deleted() -> None:
    db = apsw.Connection(":memory:")
    for each in load_migrations():
        apply_migration(db, each)
    db.execute(
        "INSERT INTO configurations (at, by, source, text, changed, signature)"
        " VALUES (1, 'cli', 'set', '', '[]', '')"
    )
    for attempt in ("UPDATE configurations SET text = 'x'", "DELETE FROM configurations"):
        with pytest.raises(apsw.ConstraintError, match="never"):
            db.execute(attempt)
    db.close()

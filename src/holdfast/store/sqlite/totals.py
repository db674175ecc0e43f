"""Totals that the store keeps, so that reading them costs the same however much is stored: messages
and deliveries by state, and usage by session.

They contain the rows up to a mark in each table; reads add the rows after it. The writer advances
the marks between two transactions, after every thousand writes. A row that is open when a mark
passes it is added to the totals when it ends.

That is done here and not by triggers, because almost every row ends before a mark reaches it: the
four triggers that looked took as long as a third of the statements of a turn.
"""

import apsw
import msgspec

from holdfast.core.ids import InboxId, TurnId
from holdfast.core.messages.inbox import InboxState
from holdfast.core.turns.turn import EndTurn
from holdfast.store.sqlite import rows

_KEPT_CHANGES = 100_000  # rows of `message_changes`, by which the search index follows the store

# The update of `counted` also advances `usage_mark`, by a trigger (migration 23).
_ADVANCE = f"""
INSERT INTO row_counts
SELECT 'inbox', state, count(*) FROM inbox
WHERE id > (SELECT last FROM counted WHERE name = 'inbox') AND ended_at IS NOT NULL GROUP BY state
ON CONFLICT DO UPDATE SET count = count + excluded.count;
INSERT INTO row_counts
SELECT 'outbox', state, count(*) FROM outbox
WHERE seq > (SELECT last FROM counted WHERE name = 'outbox') AND state = 'sent' GROUP BY state
ON CONFLICT DO UPDATE SET count = count + excluded.count;
UPDATE counted SET last = max(last, (SELECT coalesce(max(id), 0) FROM inbox)) WHERE name = 'inbox';
UPDATE counted SET last = max(last, (SELECT coalesce(max(seq), 0) FROM outbox))
WHERE name = 'outbox';
DELETE FROM message_changes
WHERE number <= (SELECT max(number) FROM message_changes) - {_KEPT_CHANGES};
"""


class Marks(msgspec.Struct, frozen=True):
    """The last rows that the totals contain: a message and a turn."""

    message: InboxId = InboxId(0)
    turn: TurnId = TurnId("")


class WriterConnection(apsw.Connection):
    """The connection that writes the store, with its marks: only the writer changes them."""

    marks = Marks()


def read_marks(db: WriterConnection) -> None:
    (found,) = db.execute(
        "SELECT last, turn FROM counted, usage_mark WHERE name = 'inbox'"
    ).fetchall()
    db.marks = Marks(*found)  # type: ignore[arg-type]  # as the columns are


def count_missing(db: WriterConnection) -> int:
    """How many messages the totals do not contain."""
    last: int = db.execute("SELECT coalesce(max(id), 0) FROM inbox").get
    return last - db.marks.message


def advance_marks(db: WriterConnection) -> None:
    """Add the rows after the marks to the totals, in a transaction of its own: until it is
    committed, the old marks apply."""
    db.execute("BEGIN IMMEDIATE")
    try:
        db.execute(_ADVANCE)
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    read_marks(db)


def add_ended_message(cursor: apsw.Cursor, inbox_id: InboxId, state: InboxState) -> None:
    """To be called for each message that ends."""
    if inbox_id <= _marks(cursor).message:
        cursor.execute(
            "INSERT INTO row_counts VALUES ('inbox', ?, 1)"
            " ON CONFLICT DO UPDATE SET count = count + 1",
            (state.value,),
        )


def add_turn_usage(cursor: apsw.Cursor, end: EndTurn) -> None:
    """To be called for each turn that ends. Until then its row has no usage."""
    if end.turn_id <= _marks(cursor).turn:
        cursor.execute(
            "INSERT INTO added_usage VALUES (?, ?, ?, ?, ?)",
            (end.session_id, *rows.usage_columns(end.usage)),
        )


def _marks(cursor: apsw.Cursor) -> Marks:
    db: WriterConnection = cursor.connection  # type: ignore[assignment]  # made by `open_writer`
    return db.marks

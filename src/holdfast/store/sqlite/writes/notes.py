"""Notes: a notebook changed, and the ends of sessions that memory hears of once."""

import apsw

from holdfast.core.ids import SessionId
from holdfast.core.people.audit import Act, AuditKind
from holdfast.core.people.memory import About, Edit, Edited, EditOutcome, Note, Notebook, OwnerId
from holdfast.store.sqlite.writes import audit

_ADDING = ("add", "replace")
_LEAST = 20  # characters that a note counts for at least: it has a number and a line of its own


def notebook(cursor: apsw.Cursor, owner: OwnerId) -> Notebook:
    found = cursor.execute(
        "SELECT id, about, text, changed_at FROM notes WHERE owner = ? ORDER BY id", (owner,)
    ).fetchall()
    off = cursor.execute("SELECT off FROM notebooks WHERE owner = ?", (owner,)).fetchone()
    notes = tuple(
        Note(id=row[0], about=About(row[1]), text=row[2], changed_at=row[3])  # type: ignore[arg-type]  # as the columns are
        for row in found
    )
    return Notebook(owner=owner, notes=notes, off=bool(off and off[0]))


def notebooks(cursor: apsw.Cursor, *, limit: int, offset: int) -> list[Notebook]:
    """Those that hold something or are off, by their owners' names."""
    owners = cursor.execute(
        "SELECT owner FROM notebooks b WHERE off OR EXISTS (SELECT 1 FROM notes n"
        " WHERE n.owner = b.owner) ORDER BY owner LIMIT ? OFFSET ?",
        (limit, offset),
    ).fetchall()
    return [notebook(cursor, OwnerId(str(row[0]))) for row in owners]


def owners(cursor: apsw.Cursor) -> dict[OwnerId, bool]:
    found = cursor.execute("SELECT owner, off FROM notebooks").fetchall()
    return {OwnerId(str(row[0])): bool(row[1]) for row in found}


def owner(cursor: apsw.Cursor, session_id: SessionId) -> OwnerId | None:
    found = cursor.execute(
        "SELECT owner FROM remembered WHERE session_id = ?", (session_id,)
    ).fetchone()
    return None if found is None else OwnerId(str(found[0]))


def edit(cursor: apsw.Cursor, *, edit: Edit) -> Edited:
    """What cannot be done is said, and writes nothing."""
    edited = _edit(cursor, edit)
    if edit.by and edited.outcome is EditOutcome.DONE:
        act = Act(
            kind=AuditKind.MEMORY_CHANGED,
            actor=edit.by,
            at=edit.at,
            subject=edit.owner,
            facts={"change": edit.action, "note": edit.note_id},
        )
        audit.record(cursor, act)
    return edited


def _edit(cursor: apsw.Cursor, edit: Edit) -> Edited:
    before = notebook(cursor, edit.owner)
    if edit.action in _ADDING and before.off:
        return Edited(outcome=EditOutcome.OFF, notebook=before)
    if edit.action in ("off", "on"):
        return _switch(cursor, edit)
    if edit.action == "clear":
        cursor.execute("DELETE FROM notes WHERE owner = ?", (edit.owner,))
        return _after(cursor, edit, EditOutcome.DONE)
    if edit.action == "add":
        return _add(cursor, edit, before)
    return _change(cursor, edit, before)


def _switch(cursor: apsw.Cursor, edit: Edit) -> Edited:
    cursor.execute(
        "INSERT INTO notebooks (owner, off) VALUES (?, ?)"
        " ON CONFLICT DO UPDATE SET off = excluded.off",
        (edit.owner, edit.action == "off"),
    )
    return _after(cursor, edit, EditOutcome.DONE)


def _add(cursor: apsw.Cursor, edit: Edit, before: Notebook) -> Edited:
    about = edit.about or About.PERSON
    # Said twice, it is one note: a call whose outcome was lost can then be made again.
    same = next((n for n in before.notes if (n.about, n.text) == (about, edit.text)), None)
    if same is not None:
        return Edited(outcome=EditOutcome.SAME, notebook=before, note=same)
    crowded = len(before.notes) >= edit.room // _LEAST
    if crowded or before.used + len(edit.text) > edit.room:
        return Edited(outcome=EditOutcome.FULL, notebook=before)
    ((number,),) = cursor.execute(
        "INSERT INTO notebooks (owner, last_id) VALUES (?, 1)"
        " ON CONFLICT DO UPDATE SET last_id = last_id + 1 RETURNING last_id",
        (edit.owner,),
    ).fetchall()
    cursor.execute(
        "INSERT INTO notes (owner, id, about, text, changed_at) VALUES (?, ?, ?, ?, ?)",
        (edit.owner, number, about.value, edit.text, edit.at),
    )
    assert isinstance(number, int), "the column is"
    return _after(cursor, edit, EditOutcome.DONE, note_id=number)


def _change(cursor: apsw.Cursor, edit: Edit, before: Notebook) -> Edited:
    old = next((note for note in before.notes if note.id == edit.note_id), None)
    if old is None:
        return Edited(outcome=EditOutcome.MISSING, notebook=before)
    if edit.action == "remove":
        cursor.execute("DELETE FROM notes WHERE owner = ? AND id = ?", (edit.owner, old.id))
        done = _after(cursor, edit, EditOutcome.DONE)
        return Edited(outcome=done.outcome, notebook=done.notebook, note=old)
    # A note may always be made shorter, also where the limit was lowered since.
    grown = len(edit.text) - len(old.text)
    if grown > 0 and before.used + grown > edit.room:
        return Edited(outcome=EditOutcome.FULL, notebook=before, note=old)
    cursor.execute(
        "UPDATE notes SET about = ?, text = ?, changed_at = ? WHERE owner = ? AND id = ?",
        ((edit.about or old.about).value, edit.text, edit.at, edit.owner, old.id),
    )
    return _after(cursor, edit, EditOutcome.DONE, note_id=old.id)


def _after(
    cursor: apsw.Cursor, edit: Edit, outcome: EditOutcome, *, note_id: int | None = None
) -> Edited:
    now = notebook(cursor, edit.owner)
    note = next((note for note in now.notes if note.id == note_id), None)
    return Edited(outcome=outcome, notebook=now, note=note)


def enrol(cursor: apsw.Cursor, *, session_id: SessionId, owner: OwnerId) -> None:
    cursor.execute(
        "INSERT INTO remembered (session_id, owner) VALUES (?, ?) ON CONFLICT DO NOTHING",
        (session_id, owner),
    )


def claim_end(cursor: apsw.Cursor, *, session_id: SessionId) -> OwnerId | None:
    """The owner, once for all that has been said by now; None: there is nothing to tell."""
    claimed = cursor.execute(
        "UPDATE remembered SET ended_seq = said.seq FROM (SELECT coalesce(max(seq), 0) AS seq"
        " FROM messages WHERE session_id = ?1) AS said"
        " WHERE session_id = ?1 AND ended_seq < said.seq RETURNING owner",
        (session_id,),
    ).fetchall()
    return OwnerId(str(claimed[0][0])) if claimed else None

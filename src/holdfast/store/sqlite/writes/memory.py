"""Notebooks and their notes, and what memory providers have not processed yet: answered turns and
ends of sessions."""

from collections.abc import Sequence

import apsw

from holdfast.core.ids import SessionId, TurnId
from holdfast.core.people.audit import AuditEntry, AuditKind
from holdfast.core.people.memory import (
    AnsweredTurn,
    MemorySubject,
    Note,
    Notebook,
    NoteEdit,
    NoteEditOutcome,
    NoteEditResult,
    NoteTopic,
    OwnerId,
    SessionEnd,
)
from holdfast.core.turns.turn import EndTurn
from holdfast.store.sqlite import rows
from holdfast.store.sqlite.writes import audit_log

_ADDING_ACTIONS = ("add", "replace")
_MIN_NOTE_SIZE = 20  # characters that a note counts for at least, with its number and line


def notebook(cursor: apsw.Cursor, owner: OwnerId) -> Notebook:
    found = cursor.execute(
        "SELECT id, about, text, changed_at FROM notes WHERE owner = ? ORDER BY id", (owner,)
    ).fetchall()
    off = cursor.execute("SELECT off FROM notebooks WHERE owner = ?", (owner,)).fetchone()
    notes = tuple(
        Note(id=row[0], topic=NoteTopic(row[1]), text=row[2], changed_at=row[3])  # type: ignore[arg-type]  # as the columns are
        for row in found
    )
    return Notebook(owner=owner, notes=notes, off=bool(off and off[0]))


def notebooks(cursor: apsw.Cursor, *, limit: int, offset: int) -> list[Notebook]:
    """Notebooks with notes or switched off, ordered by owner."""
    owners = cursor.execute(
        "SELECT owner FROM notebooks b WHERE off OR EXISTS (SELECT 1 FROM notes n"
        " WHERE n.owner = b.owner) ORDER BY owner LIMIT ? OFFSET ?",
        (limit, offset),
    ).fetchall()
    return [notebook(cursor, OwnerId(str(row[0]))) for row in owners]


def memory_owners(cursor: apsw.Cursor) -> dict[OwnerId, bool]:
    found = cursor.execute("SELECT owner, off FROM notebooks").fetchall()
    return {OwnerId(str(row[0])): bool(row[1]) for row in found}


def memory_owner(cursor: apsw.Cursor, session_id: SessionId) -> OwnerId | None:
    found = cursor.execute(
        "SELECT owner FROM remembered WHERE session_id = ?", (session_id,)
    ).fetchone()
    return None if found is None else OwnerId(str(found[0]))


def edit_notes(cursor: apsw.Cursor, *, edit: NoteEdit) -> NoteEditResult:
    """An edit that is not possible writes nothing; the result says why."""
    edited = _apply_edit(cursor, edit)
    if edit.by and edited.outcome is NoteEditOutcome.DONE:
        entry = AuditEntry(
            kind=AuditKind.MEMORY_CHANGED,
            actor=edit.by,
            at=edit.at,
            subject=edit.owner,
            facts={"change": edit.action, "note": edit.note_id},
        )
        audit_log.record(cursor, entry)
    return edited


def _apply_edit(cursor: apsw.Cursor, edit: NoteEdit) -> NoteEditResult:
    before = notebook(cursor, edit.owner)
    if edit.action in _ADDING_ACTIONS and before.off:
        return NoteEditResult(outcome=NoteEditOutcome.OFF, notebook=before)
    if edit.action in ("off", "on"):
        return _switch_notebook(cursor, edit)
    if edit.action == "clear":
        cursor.execute("DELETE FROM notes WHERE owner = ?", (edit.owner,))
        return _edit_result(cursor, edit, NoteEditOutcome.DONE)
    if edit.action == "add":
        return _add_note(cursor, edit, before)
    return _change_note(cursor, edit, before)


def _switch_notebook(cursor: apsw.Cursor, edit: NoteEdit) -> NoteEditResult:
    cursor.execute(
        "INSERT INTO notebooks (owner, off) VALUES (?, ?)"
        " ON CONFLICT DO UPDATE SET off = excluded.off",
        (edit.owner, edit.action == "off"),
    )
    return _edit_result(cursor, edit, NoteEditOutcome.DONE)


def _add_note(cursor: apsw.Cursor, edit: NoteEdit, before: Notebook) -> NoteEditResult:
    topic = edit.topic or NoteTopic.PERSON
    # Added twice, it is one note: a call whose outcome was lost can be repeated.
    same = next((n for n in before.notes if (n.topic, n.text) == (topic, edit.text)), None)
    if same is not None:
        return NoteEditResult(outcome=NoteEditOutcome.UNCHANGED, notebook=before, note=same)
    crowded = len(before.notes) >= edit.max_chars // _MIN_NOTE_SIZE
    if crowded or before.used + len(edit.text) > edit.max_chars:
        return NoteEditResult(outcome=NoteEditOutcome.FULL, notebook=before)
    ((number,),) = cursor.execute(
        "INSERT INTO notebooks (owner, last_id) VALUES (?, 1)"
        " ON CONFLICT DO UPDATE SET last_id = last_id + 1 RETURNING last_id",
        (edit.owner,),
    ).fetchall()
    cursor.execute(
        "INSERT INTO notes (owner, id, about, text, changed_at) VALUES (?, ?, ?, ?, ?)",
        (edit.owner, number, topic.value, edit.text, edit.at),
    )
    assert isinstance(number, int), "the column is"
    return _edit_result(cursor, edit, NoteEditOutcome.DONE, note_id=number)


def _change_note(cursor: apsw.Cursor, edit: NoteEdit, before: Notebook) -> NoteEditResult:
    old = next((note for note in before.notes if note.id == edit.note_id), None)
    if old is None:
        return NoteEditResult(outcome=NoteEditOutcome.MISSING, notebook=before)
    if edit.action == "remove":
        cursor.execute("DELETE FROM notes WHERE owner = ? AND id = ?", (edit.owner, old.id))
        done = _edit_result(cursor, edit, NoteEditOutcome.DONE)
        return NoteEditResult(outcome=done.outcome, notebook=done.notebook, note=old)
    # A note may always become shorter, even if the limit was lowered since.
    growth = len(edit.text) - len(old.text)
    if growth > 0 and before.used + growth > edit.max_chars:
        return NoteEditResult(outcome=NoteEditOutcome.FULL, notebook=before, note=old)
    cursor.execute(
        "UPDATE notes SET about = ?, text = ?, changed_at = ? WHERE owner = ? AND id = ?",
        ((edit.topic or old.topic).value, edit.text, edit.at, edit.owner, old.id),
    )
    return _edit_result(cursor, edit, NoteEditOutcome.DONE, note_id=old.id)


def _edit_result(
    cursor: apsw.Cursor, edit: NoteEdit, outcome: NoteEditOutcome, *, note_id: int | None = None
) -> NoteEditResult:
    now = notebook(cursor, edit.owner)
    note = next((note for note in now.notes if note.id == note_id), None)
    return NoteEditResult(outcome=outcome, notebook=now, note=note)


def enable_memory(cursor: apsw.Cursor, *, session_id: SessionId, owner: OwnerId) -> None:
    cursor.execute(
        "INSERT INTO remembered (session_id, owner) VALUES (?, ?)"
        " ON CONFLICT DO UPDATE SET open = 1 WHERE open = 0",
        (session_id, owner),
    )


def request_memory_end(
    cursor: apsw.Cursor, session_id: SessionId, *, providers: Sequence[str]
) -> SessionEnd | None:
    """One end for all messages so far. An earlier one that is still unreported is replaced: the new
    one covers its messages too."""
    ended = cursor.execute(
        "UPDATE remembered SET ended_seq = said.seq FROM (SELECT coalesce(max(seq), 0) AS seq"
        " FROM messages WHERE session_id = ?1) AS said"
        " WHERE session_id = ?1 AND ended_seq < said.seq RETURNING owner, ended_seq",
        (session_id,),
    ).fetchall()
    cursor.execute(
        "UPDATE remembered SET open = 0 WHERE session_id = ? AND open = 1", (session_id,)
    )
    if not ended or _memory_is_off(cursor, str(ended[0][0])):
        return None
    ((owner, seq),) = ended
    end_id = f"{session_id}-{seq}"
    cursor.executemany(
        "INSERT INTO unreported_ends (session_id, provider, owner, end_id) VALUES (?, ?, ?, ?)"
        " ON CONFLICT DO UPDATE SET end_id = excluded.end_id",
        [(session_id, provider, owner, end_id) for provider in providers],
    )
    return SessionEnd(session_id=session_id, owner=OwnerId(str(owner)), end_id=end_id)


def _memory_is_off(cursor: apsw.Cursor, owner: str) -> bool:
    found = cursor.execute("SELECT 1 FROM notebooks WHERE owner = ? AND off", (owner,))
    return found.fetchone() is not None


def record_memory_end(
    cursor: apsw.Cursor, session_id: SessionId, *, provider: str, end_id: str
) -> None:
    """Delete the row of this end; that of a later one is kept."""
    cursor.execute(
        "DELETE FROM unreported_ends WHERE session_id = ? AND provider = ? AND end_id = ?",
        (session_id, provider, end_id),
    )


def unreported_ends(cursor: apsw.Cursor, *, provider: str) -> list[SessionEnd]:
    """In the order in which they were first requested."""
    found = cursor.execute(
        "SELECT session_id, owner, end_id FROM unreported_ends WHERE provider = ? ORDER BY rowid",
        (provider,),
    ).fetchall()
    return [
        SessionEnd(
            session_id=SessionId(str(session_id)), owner=OwnerId(str(owner)), end_id=str(end_id)
        )
        for session_id, owner, end_id in found
    ]


def unended_memory(cursor: apsw.Cursor, *, limit: int) -> list[tuple[SessionId, float]]:
    found = cursor.execute(
        "SELECT r.session_id, s.active_at FROM remembered r JOIN sessions s ON s.id = r.session_id"
        " WHERE r.open = 1 ORDER BY s.active_at LIMIT ?",
        (limit,),
    ).fetchall()
    return [(SessionId(str(session_id)), float(str(active_at))) for session_id, active_at in found]


def add_unsynced_turns(cursor: apsw.Cursor, end: EndTurn) -> None:
    """Adds turns in the commit that answers them. They are claimed before the provider gets them,
    and read by the next start."""
    if end.memory is None:
        return
    cursor.executemany(
        # Two providers with the same name share a row: that must not prevent a turn from ending.
        "INSERT INTO unsynced (turn_id, provider, session_id, owner) VALUES (?, ?, ?, ?)"
        " ON CONFLICT DO NOTHING",
        [
            (end.turn_id, provider, end.session_id, end.memory.owner)
            for provider in end.memory.providers
        ],
    )


def claim_memory_turn(
    cursor: apsw.Cursor, session_id: SessionId, *, turn_id: TurnId, provider: str
) -> bool:
    cursor.execute(
        "DELETE FROM unsynced WHERE turn_id = ? AND provider = ? AND session_id = ?",
        (turn_id, provider, session_id),
    )
    return bool(cursor.connection.changes())


def unsynced_turns(cursor: apsw.Cursor, *, provider: str) -> list[AnsweredTurn]:
    """In the order in which they were answered."""
    found = cursor.execute(
        "SELECT turn_id, session_id, owner FROM unsynced WHERE provider = ? ORDER BY rowid",
        (provider,),
    ).fetchall()
    return [
        AnsweredTurn(
            turn_id=TurnId(str(turn_id)),
            subject=MemorySubject(session_id=SessionId(str(session_id)), owner=OwnerId(str(owner))),
            user_text=_user_text(cursor, str(turn_id), str(session_id)),
            answer=_answer_text(cursor, str(turn_id), str(session_id)),
        )
        for turn_id, session_id, owner in found
    ]


def _user_text(cursor: apsw.Cursor, turn_id: str, session_id: str) -> str:
    """The texts of the messages of a turn; steering messages are in the transcript only."""
    found = cursor.execute(
        f"SELECT {rows.INBOX_COLUMNS} FROM inbox WHERE turn_id = ? AND session_id = ?"
        " AND (state = 'answered' OR merged_into IS NOT NULL) ORDER BY id",
        (turn_id, session_id),
    )
    return "\n\n".join(rows.decode_inbox_row(row).inbound.text for row in found)


def _answer_text(cursor: apsw.Cursor, turn_id: str, session_id: str) -> str:
    found = cursor.execute(
        f"SELECT {rows.RECORD_COLUMNS} FROM messages WHERE session_id = ? AND turn_id = ?"
        " ORDER BY seq DESC LIMIT 1",
        (session_id, turn_id),
    ).fetchall()
    return "".join(rows.decode_record(row).message.text for row in found)

"""Turns that memory has not been told of: owed by the commit that answers them, claimed before
they are told, and read by the next start."""

import apsw

from holdfast.core.ids import SessionId, TurnId
from holdfast.core.people.memory import AnsweredTurn, MemorySubject, OwnerId
from holdfast.core.turns.turn import EndTurn
from holdfast.store.sqlite import rows


def add_unsynced_turns(cursor: apsw.Cursor, end: EndTurn) -> None:
    if end.memory is None:
        return
    cursor.executemany(
        # Two that go by one name share what they are owed: that must keep no turn from ending.
        "INSERT INTO unsynced (turn_id, provider, session_id, owner) VALUES (?, ?, ?, ?)"
        " ON CONFLICT DO NOTHING",
        [
            (end.turn_id, provider, end.session_id, end.memory.owner)
            for provider in end.memory.providers
        ],
    )


def claim_memory_turn(cursor: apsw.Cursor, *, turn_id: TurnId, provider: str) -> bool:
    cursor.execute("DELETE FROM unsynced WHERE turn_id = ? AND provider = ?", (turn_id, provider))
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
    """What its messages were; what steered it has its place in the transcript alone."""
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

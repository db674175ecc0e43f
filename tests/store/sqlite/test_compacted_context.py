"""The context of a compacted session: what follows the messages that its summary covers."""

from pathlib import Path
from random import Random

import apsw
import pytest

from holdfast.core.ids import SessionId, SessionKey
from holdfast.core.messages.transcript import CompactionMessage, UserMessage
from holdfast.core.sessions.session import ForkEffect, UndoEffect
from holdfast.store.sqlite import rows
from holdfast.store.sqlite.connection import open_reader, open_writer
from holdfast.store.sqlite.reads import sessions
from holdfast.store.sqlite.schema import apply_migration, load_migrations
from holdfast.store.sqlite.writes import session_history, session_state, transcript

ROUTE = SessionKey("irc:default:dm:ann:")


def open_session(cursor: apsw.Cursor, name: str) -> SessionId:
    session_id = SessionId(name)
    session_state.open_session(cursor, session_id, route=ROUTE, at=1.0)
    return session_id


def say(cursor: apsw.Cursor, session_id: SessionId, text: str = "hi") -> None:
    cursor.execute(
        "INSERT INTO messages (session_id, seq, created_at, body) VALUES (?, ?, 1, ?)",
        (
            session_id,
            transcript.next_seq(cursor, session_id),
            rows.encode_json(UserMessage(text=text)),
        ),
    )


def compact(cursor: apsw.Cursor, session_id: SessionId, *, covers: int) -> None:
    summary = CompactionMessage(text="before", covers=covers)
    transcript.add_compaction_between_turns(cursor, session_id=session_id, message=summary, at=1.0)


def check_context(cursor: apsw.Cursor, session_id: SessionId) -> None:
    """The covered messages are counted off the whole transcript."""
    covers, records = sessions.context(cursor, session_id)
    assert records == sessions.transcript_records(cursor, session_id)[covers:]


@pytest.mark.parametrize("seed", range(10))
def test_a_context_is_what_follows_the_covered_messages(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    cursor = open_writer(tmp_path / "state.db", vfs=None).cursor()
    known = [open_session(cursor, "s")]
    compacted = 0
    for step in range(150):
        session_id = random.choice(known)
        records = sessions.transcript_records(cursor, session_id)
        action = random.choice(["say", "say", "say", "compact", "undo", "fork"])
        if action == "say":
            say(cursor, session_id, text=f"message {step}")
        elif action == "compact" and records:
            least, _ = sessions.context(cursor, session_id)
            compact(cursor, session_id, covers=random.randint(least, len(records)))
        elif action == "undo" and records:
            undo = UndoEffect(
                session_id=session_id, from_seq=random.choice(records[len(records) // 2 :]).seq
            )
            session_history.undo_messages(cursor, undo, at=1.0)
        elif action == "fork" and len(known) < 5:
            fork = ForkEffect(
                of=session_id, session_id=SessionId(f"f{step}"), title="", principal=None
            )
            session_history.fork_session(cursor, fork, route=ROUTE, at=1.0)
            known.append(fork.session_id)
        for each in known:
            check_context(cursor, each)
        compacted += sessions.context(cursor, session_id)[0] > 0
    assert compacted > 20


def test_a_store_of_the_version_before_gets_the_same_contexts(tmp_path: Path) -> None:
    db = apsw.Connection(str(tmp_path / "state.db"))
    *before, migration = load_migrations()[:24]
    for each in before:
        apply_migration(db, each)
    cursor = db.cursor()
    gone = open_session(cursor, "taken back")
    cut = open_session(cursor, "undone in between")
    empty = open_session(cursor, "covers nothing")
    for _ in range(5):
        for session_id in (gone, cut, empty):
            say(cursor, session_id)
    session_history.undo_messages(cursor, UndoEffect(session_id=cut, from_seq=4), at=1.0)
    for _ in range(5):
        say(cursor, cut)
    for session_id, covers in ((cut, 6), (empty, 0)):
        seq = transcript.next_seq(cursor, session_id)
        cursor.execute(
            "INSERT INTO messages (session_id, seq, created_at, body) VALUES (?, ?, 1, ?)",
            (session_id, seq, rows.encode_json(CompactionMessage(text="", covers=covers))),
        )
        cursor.execute("INSERT INTO compactions VALUES (?, ?, ?)", (session_id, seq, covers))
    cursor.execute("INSERT INTO compactions VALUES (?, 9, 8)", (gone,))
    apply_migration(db, migration)
    for session_id in (gone, cut, empty):
        check_context(cursor, session_id)
    assert [record.seq for record in sessions.context(cursor, cut)[1]] == [9, 10, 11]
    compact(cursor, cut, covers=8)
    check_context(cursor, cut)


def test_a_context_costs_what_follows_the_summary(tmp_path: Path) -> None:
    steps = []
    for size in (300, 3000):
        path = tmp_path / f"{size}.db"
        db = open_writer(path, vfs=None)
        session_id = open_session(cursor := db.cursor(), "s")
        for _ in range(size):
            say(cursor, session_id)
        compact(cursor, session_id, covers=size - 20)
        db.close()
        steps.append(_count_steps(path, session_id))
    assert steps[1] <= steps[0] * 1.1


def _count_steps(path: Path, session_id: SessionId) -> int:
    db = open_reader(path, vfs=None)
    steps = 0

    def on_progress() -> bool:
        nonlocal steps
        steps += 1
        return False

    db.set_progress_handler(on_progress, 10)
    assert len(sessions.context(db.cursor(), session_id)[1]) == 21
    db.close()
    return steps

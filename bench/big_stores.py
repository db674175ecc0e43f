"""Fills the store of a home with conversations, by SQL: as many sessions, or as long a session, as
a growth curve needs."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from holdfast.store.search.index_file import index_files, last_change, open_index, save_position
from holdfast.store.sqlite.connection import open_writer
from holdfast.store.sqlite.file_check import SEARCH_FILE
from holdfast.store.sqlite.totals import advance_marks
from holdfast.system.paths import Paths

PREFIX = "known."  # of the names of the sessions, as `load.py` has them
EXCHANGES = 2  # of each session
KEPT = 20  # messages of a compacted session that a model still sees
_DAYS = 30 * 86400.0  # over which the conversations are spread
_TOPICS = 997

# Rows as a gateway writes them for exchanges of an API session: `n` is the number of the session,
# `k` that of the exchange, and `at` its time.
_SESSIONS = (
    "WITH RECURSIVE known (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM known WHERE n + 1 < ?1) "
)
_EXCHANGES = (
    "WITH RECURSIVE numbers (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM numbers"
    f" WHERE i + 1 < ?1 * {EXCHANGES}), known (n, k, at) AS (SELECT i / {EXCHANGES},"
    f" i % {EXCHANGES}, ?2 - {_DAYS} + {_DAYS} * (i / {EXCHANGES}) / ?1 + 60 * (i % {EXCHANGES})"
    " FROM numbers) "
)
_ID = "printf('s_%027x', n)"
_TURN = f"printf('turn_%027x', n * {EXCHANGES} + k)"
_ROUTE = f"'api:default:dm:session%2F{PREFIX.replace('.', '%2E')}' || n || ':'"
_QUESTION = (
    f"printf('Item %d.%d: what do we know about topic%d of unique%d?', n, k, n % {_TOPICS}, n)"
)
_ANSWER = (
    "printf('Item %d.%d has been looked at. Three things are known about it, none of them urgent:"
    " it was reported twice, its owner is away until Monday, and the last change is a week old.',"
    " n, k)"
)
_FILL = (
    f"{_SESSIONS} INSERT INTO routes (key, session_id) SELECT {_ROUTE}, {_ID} FROM known",
    f"{_SESSIONS} INSERT INTO sessions (id, route, title, created_at, active_at, principal)"
    f" SELECT {_ID}, {_ROUTE}, printf('Item %d of topic%d', n, n % {_TOPICS}),"
    f" ?2 - {_DAYS} + {_DAYS} * n / ?1, ?2 - {_DAYS} + {_DAYS} * n / ?1 + 60,"
    " 'api:default:owner' FROM known",
    f"{_SESSIONS} INSERT INTO prompts (session_id, text) SELECT {_ID}, ?2 FROM known",
    f"{_EXCHANGES} INSERT INTO messages (session_id, seq, turn_id, created_at, body)"
    f" SELECT {_ID}, 2 * k + 1, {_TURN}, at,"
    f" json_object('type', 'user', 'text', {_QUESTION}) FROM known UNION ALL"
    f" SELECT {_ID}, 2 * k + 2, {_TURN}, at + 1, json_object('type', 'assistant', 'text',"
    f" {_ANSWER}, 'model', 'instant') FROM known ORDER BY 1, 2",
    f"{_EXCHANGES} INSERT INTO turns (id, session_id, state, input_tokens, output_tokens,"
    f" started_at, ended_at, asked_by, inbox_ids) SELECT {_TURN}, {_ID}, 'answered', 900, 60, at,"
    f" at + 1, 'operator', json_array(n * {EXCHANGES} + k + 1) FROM known",
    f"{_EXCHANGES} INSERT INTO steps (turn_id, seq, session_id, kind, message_seq, input_tokens,"
    f" output_tokens, started_at, finished_at) SELECT {_TURN}, 1, {_ID}, 'model', 2 * k + 2, 900,"
    " 60, at + 1, at + 1 FROM known",
    f"{_EXCHANGES} INSERT INTO inbox (id, platform, account, event_id, route, principal, state,"
    f" session_id, turn_id, listed, accepted_at, ended_at, body) SELECT n * {EXCHANGES} + k + 1,"
    f" 'api', 'default', printf('session/{PREFIX}%d/m_%d', n, k), {_ROUTE}, 'api:default:owner',"
    f" 'answered', {_ID}, {_TURN}, 1, at, at + 1, json_object('source', json_object('platform',"
    f" 'api', 'chat_id', '{PREFIX}' || n, 'user_id', 'owner'), 'event_id',"
    f" printf('session/{PREFIX}%d/m_%d', n, k), 'message_id', 'm_' || k, 'text', {_QUESTION})"
    " FROM known",
    f"{_EXCHANGES} INSERT INTO outbox (seq, id, address, kind, session_id, turn_id, inbox_id,"
    f" state, created_at, updated_at) SELECT n * {EXCHANGES} + k + 1,"
    f" printf('dlv_%027x', n * {EXCHANGES} + k), json_object('platform', 'api', 'account',"
    f" 'default', 'chat_id', 'session/{PREFIX}' || n),"
    f" 'reply', {_ID}, {_TURN}, n * {EXCHANGES} + k + 1, 'sent', at + 1, at + 1 FROM known",
)
_INDEX = (
    "INSERT INTO entries (session_id, seq, created_at)"
    " SELECT session_id, seq, created_at FROM state.messages ORDER BY session_id, seq",
    "INSERT INTO words (rowid, said, done) SELECT e.id, json_extract(m.body, '$.text'), '' FROM"
    " entries e JOIN state.messages m ON m.session_id = e.session_id AND m.seq = e.seq",
    "INSERT INTO places SELECT session_id, max(seq), created_at || ':' || length(body)"
    " FROM state.messages GROUP BY session_id",
)


def fill_sessions(home: Path, *, sessions: int) -> None:
    """So many sessions of two exchanges, with everything that a gateway stores for them. The home
    must be stopped, and is filled once."""
    now = time.time()
    prompt = "You are a capable assistant. " * 50
    with _bulk_write(Paths(home).db) as db:
        for statement in _FILL:
            given = (sessions, prompt if "INTO prompts" in statement else now)
            db.execute(statement, given[: 2 if "?2" in statement else 1])
    _fill_index(home)


def fill_history(home: Path, *, messages: int, compacted: bool) -> None:
    """One session, `known.0`, with so many messages. `compacted`: a summary covers all but the
    last few."""
    fill_sessions(home, sessions=1)
    with _bulk_write(Paths(home).db) as db:
        db.execute("DELETE FROM messages; DELETE FROM turns; DELETE FROM steps")
        db.execute(
            "INSERT INTO messages (session_id, seq, turn_id, created_at, body)"
            " WITH RECURSIVE numbers (value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM numbers"
            " WHERE value < ?1) SELECT printf('s_%027x', 0), value,"
            " printf('turn_%027x', value / 2), ?2 + value,"
            " iif(value % 2, json_object('type', 'user', 'text', 'Message ' || value),"
            " json_object('type', 'assistant', 'text', 'Reply ' || value, 'model', 'instant'))"
            " FROM numbers",
            (messages, time.time() - _DAYS),
        )
        db.execute(
            "INSERT INTO turns (id, session_id, state, input_tokens, output_tokens, started_at,"
            " ended_at) SELECT turn_id, session_id, 'answered', 900, 60, min(created_at),"
            " max(created_at) FROM messages GROUP BY turn_id"
        )
        db.execute(
            "INSERT INTO steps (turn_id, seq, session_id, kind, message_seq, started_at,"
            " finished_at) SELECT turn_id, 1, session_id, 'model', seq, created_at, created_at"
            " FROM messages WHERE seq % 2 = 0"
        )
        if compacted and messages > KEPT:
            covers = messages - KEPT
            db.execute(
                "INSERT INTO messages SELECT session_id, seq + 1, turn_id, created_at, json_object("
                "'type', 'compaction', 'text', 'What was said before.', 'covers', ?1)"
                " FROM messages ORDER BY seq DESC LIMIT 1",
                (covers,),
            )
            db.execute(
                "INSERT INTO compactions SELECT session_id, max(seq), ?1, ?1 FROM messages",
                (covers,),
            )
    for path in index_files(home / SEARCH_FILE):
        path.unlink(missing_ok=True)
    _fill_index(home)


@contextmanager
def _bulk_write(path: Path) -> Iterator[apsw.Connection]:
    """Without a journal: a store that could not be filled is filled again from the start."""
    db = open_writer(path, vfs=None)
    try:
        db.pragma("journal_mode", "off")
        db.pragma("synchronous", "off")
        with db:
            yield db
        advance_marks(db)  # as a gateway does after every thousand writes
        db.pragma("journal_mode", "wal")
    finally:
        db.close()


def _fill_index(home: Path) -> None:
    db = open_index(home / SEARCH_FILE, state=Paths(home).db, vfs=None)
    try:
        with db:
            for statement in _INDEX:
                db.execute(statement)
            save_position(db.cursor(), last_change(db.cursor()))
    finally:
        db.close()

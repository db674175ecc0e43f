"""Tests of the deletion of a session: rows in every table, the index, the WAL, its subagents."""

from functools import partial
from pathlib import Path
from typing import Any

import apsw
from tests.support.gateway_harness import Call, GatewayHarness

from holdfast.core.ids import SessionId
from holdfast.core.ports.store_commands import DeleteSession
from holdfast.core.ports.store_queries import (
    GetInboxRow,
    GetSearchStatus,
    GetSession,
)
from holdfast.core.sessions.search import SearchQuery

WORD = "quahogwhelk"
OTHER_WORD = "periwinkle"


async def session_containing(
    harness: GatewayHarness, call: Call, word: str, chat: str
) -> SessionId:
    """Run a turn that has the word in everything it writes; return its session."""
    harness.model.say([call("safe", f'{{"for": "{word}"}}')], f"{word} was looked for")
    accepted = await harness.accept(f"look for {word}", chat=chat)
    await harness.end_of(accepted)
    row = await harness.store.read(GetInboxRow(inbox_id=accepted.row.id))
    assert row is not None and row.session_id is not None
    return row.session_id


def insert_rows(cursor: apsw.Cursor, session_id: SessionId, word: str) -> list[str]:
    """Insert a row into every table with a session id; return the names of the tables."""
    found = cursor.execute(
        "SELECT DISTINCT t.name FROM sqlite_schema t, pragma_table_info(t.name) c"
        " WHERE t.type = 'table' AND c.name = 'session_id' ORDER BY t.name"
    ).fetchall()
    tables = [str(row[0]) for row in found]
    for table in tables:
        columns = cursor.execute("SELECT name, type FROM pragma_table_info(?)", (table,)).fetchall()
        values = [_value(table, str(name), str(kind), session_id, word) for name, kind in columns]
        placeholders = ", ".join("?" * len(values))
        cursor.execute(f"INSERT OR REPLACE INTO {table} VALUES ({placeholders})", values)
    return tables


def _value(table: str, name: str, kind: str, session_id: SessionId, word: str) -> Any:
    special = {
        "session_id": session_id,
        "turn_id": None if table in ("outbox", "inbox") else f"t_{word}",
        "inbox_id": None if table == "outbox" else 999,
        "state": {"outbox": "sent", "inbox": "answered"}.get(table, word),
        "scope": "session",
        "ended_at": 5.0,
        "seq": 99,
        "delivery_id": f"{word} outbox id",
        "inbox_ids": None,
        "listed": None,
    }
    if table == "turns" and name == "id":
        return f"t_{word}"
    if name in special:
        return special[name]
    return {"TEXT": f"{word} {table} {name}", "INTEGER": 99, "REAL": 5.0}.get(kind)


def count_rows(cursor: apsw.Cursor, *, table: str, session_id: SessionId) -> Any:
    query = f"SELECT count(*) FROM {table} WHERE session_id = ?"
    return cursor.execute(query, (session_id,)).get


def bytes_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


async def test_no_word_of_a_deleted_session_is_left_in_any_file(
    harness: GatewayHarness, call: Call
) -> None:
    session = await session_containing(harness, call, WORD, "one")
    remaining = await session_containing(harness, call, OTHER_WORD, "two")
    tables = await harness.store._submit(lambda cursor: insert_rows(cursor, session, WORD))
    assert {"messages", "approvals", "children", "compactions", "busy"} <= set(tables)
    assert await harness.store.read(SearchQuery(words=WORD))
    assert WORD.encode() in bytes_of(harness.path.parent)

    gateway = harness.gateway
    await gateway.delete_session(session)

    for table in tables:
        count = await harness.store._submit(partial(count_rows, table=table, session_id=session))
        assert count == 0, table
    assert WORD.encode() not in bytes_of(harness.path.parent)
    assert await harness.store.read(SearchQuery(words=WORD)) == []
    assert WORD.encode() not in bytes_of(harness.path.parent)
    assert OTHER_WORD.encode() in bytes_of(harness.path.parent)
    assert len(await harness.store.read(SearchQuery(words=OTHER_WORD))) == 3
    assert await harness.store.read(GetSession(session_id=remaining)) is not None
    assert harness.runners.ended.count(session) >= 1


async def test_subagent_sessions_are_deleted_with_their_parent(
    harness: GatewayHarness, call: Call
) -> None:
    parent = await session_containing(harness, call, OTHER_WORD, "one")
    subagent = await session_containing(harness, call, WORD, "two")

    def insert_subagent(cursor: apsw.Cursor) -> None:
        body = SUBAGENT_ROW.replace("CHILD", subagent).replace("PARENT", parent)
        cursor.execute(
            "INSERT INTO children (session_id, parent_id, inbox_id, created_at, body)"
            " VALUES (?, ?, 1, 1.0, ?)",
            (subagent, parent, body),
        )

    await harness.store._submit(insert_subagent)
    gateway = harness.gateway
    await gateway.delete_session(parent)
    assert await harness.store.read(GetSession(session_id=subagent)) is None
    assert WORD.encode() not in bytes_of(harness.path.parent)


async def test_a_deletion_interrupted_before_the_index_update_is_completed_at_start(
    harness: GatewayHarness, call: Call
) -> None:
    session = await session_containing(harness, call, WORD, "one")
    assert await harness.store.read(SearchQuery(words=WORD))
    await harness.store.write(DeleteSession(session_id=session))
    await harness.stop()
    await harness.start()
    assert await harness.store.read(SearchQuery(words=WORD)) == []
    state = await harness.store.read(GetSearchStatus())
    assert (state.messages, state.behind) == (0, 0)


SUBAGENT_ROW = (
    '{"session_id":"CHILD","parent":"PARENT","call_id":"c","kind":"background","principal":"p",'
    '"title":"t","depth":1,"max_steps":1,"toolsets":[],"bench":"PARENT",'
    '"chat":{"platform":"api","chat_id":"one","user_id":"owner"},"message_id":"m"}'
)

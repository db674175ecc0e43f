"""The audit: a row in the commit of what it tells of, chained to the row before it."""

from collections.abc import Callable, Mapping
from itertools import takewhile
from typing import Any, TypeVar

import apsw
import msgspec

from holdfast.core.ids import InboxId
from holdfast.core.messages.inbox import Inbound
from holdfast.core.people.audit import (
    GATEWAY,
    UNKNOWN,
    Act,
    AuditKind,
    Link,
    actor_named,
    actor_of,
    chained,
    digest_of,
    shortened,
)

T = TypeVar("T")

_ENOUGH = 65_536  # characters of a word that are looked through for secrets: one is shorter
_LONGEST_NAME = 1000  # characters; what people and programs are called is theirs to choose
_AT_ONCE = 500  # rows of one pruning: nobody else's write waits long for it
_inbound = msgspec.json.Decoder(Inbound)
_encode = msgspec.json.Encoder().encode


def record(cursor: apsw.Cursor, act: Act) -> None:
    """The row is durable together with what it tells of, or neither is."""
    last = newest(cursor)
    seq, facts = last.seq + 1, _encode(act.facts).decode()
    words = _keep_words(cursor, seq, act) if act.words else None
    row = (
        seq,
        float(act.at),
        act.kind.value,
        actor_named(act.actor)[:_LONGEST_NAME],
        act.session_id,
        act.turn_id,
        act.subject[:_LONGEST_NAME],
        act.outcome,
        facts,
        words,
    )
    cursor.execute(
        "INSERT INTO audit (seq, at, kind, actor, session, turn, subject, outcome, facts, words,"
        " hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*row, chained(last.hash, *row)),
    )


def newest(cursor: apsw.Cursor) -> Link:
    """The row that the next one is chained to; also where it was forgotten since."""
    found = cursor.execute("SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1").fetchone()
    return pruned(cursor) if found is None else Link(seq=found[0], hash=found[1])


def pruned(cursor: apsw.Cursor) -> Link:
    found = cursor.execute("SELECT seq, hash FROM audit_pruned").fetchone()
    return Link(seq=0, hash=b"") if found is None else Link(seq=found[0], hash=found[1])


def acted(cursor: apsw.Cursor, *, work: Callable[[apsw.Cursor], T], act: Act) -> T:
    """Do the work, and leave its row. What says that it has changed nothing leaves none."""
    result = work(cursor)
    if result is not False:
        record(cursor, act)
    return result


def asker(cursor: apsw.Cursor, inbox_id: InboxId) -> tuple[str, str]:
    """Who a message is by, and what it says."""
    body = cursor.execute("SELECT body FROM inbox WHERE id = ?", (inbox_id,)).get
    if body is None:
        return UNKNOWN, ""
    inbound = _inbound.decode(body)
    return actor_of(inbound), inbound.text


def prune(cursor: apsw.Cursor, *, before: float, at: float) -> int:
    """Forget some rows from before then, and say so in a row; 0: there are none left. That row
    is chained to the last of them, also where none is between."""
    found: list[Any] = cursor.execute(
        "SELECT seq, hash, at FROM audit ORDER BY seq LIMIT ?", (_AT_ONCE,)
    ).fetchall()
    # In their order, up to the first that is younger: a clock that was set back leaves no gap.
    old = list(takewhile(lambda row: row[2] < before, found))
    if not old:
        return 0
    last = Link(seq=old[-1][0], hash=old[-1][1])
    cursor.execute(
        "INSERT INTO audit_pruned (one, seq, hash) VALUES (1, ?, ?)"
        " ON CONFLICT (one) DO UPDATE SET seq = excluded.seq, hash = excluded.hash",
        (last.seq, last.hash),
    )
    cursor.execute("DELETE FROM audit_words WHERE seq <= ?", (last.seq,))
    cursor.execute("DELETE FROM audit WHERE seq <= ?", (last.seq,))
    facts = {"rows": len(old), "to": last.seq}
    record(cursor, Act(kind=AuditKind.AUDIT_PRUNED, actor=GATEWAY, at=at, facts=facts))
    return len(old)


def _keep_words(cursor: apsw.Cursor, seq: int, act: Act) -> str:
    """The words are kept beside their row; the row has their digest."""
    body = _encode(_fitting(cursor, act.words)).decode()
    (salt,) = cursor.execute("SELECT lower(hex(randomblob(16)))").fetchall()[0]
    cursor.execute(
        "INSERT INTO audit_words (seq, session_id, salt, body) VALUES (?, ?, ?, ?)",
        (seq, act.session_id, salt, body),
    )
    return digest_of(str(salt), body)


def _fitting(cursor: apsw.Cursor, words: Mapping[str, str]) -> dict[str, str]:
    """Without secrets first, and then cut short: half a secret is still one."""
    return {
        name: shortened(_redacted(cursor, text[:_ENOUGH]), length=len(text))
        for name, text in words.items()
    }


def _redacted(cursor: apsw.Cursor, text: str) -> str:
    """By a function that whoever opened the connection has given it: only they know secrets."""
    return str(cursor.execute("SELECT holdfast_redacted(?)", (text,)).get)

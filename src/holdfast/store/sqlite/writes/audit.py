"""The audit: a row in the commit of what it tells of, chained to the row before it."""

from collections.abc import Callable, Mapping
from itertools import takewhile
from typing import Any, TypeVar

import apsw
import msgspec

from holdfast.core.ids import InboxId
from holdfast.core.messages.inbox import Inbound
from holdfast.core.people.audit import (
    GATEWAY_ACTOR,
    UNKNOWN_ACTOR,
    AuditChainLink,
    AuditEntry,
    AuditKind,
    actor_of,
    actor_of_principal,
    chain_hash,
    salted_digest,
    truncate_text,
)

T = TypeVar("T")

_MAX_SCANNED = 65_536  # characters of a word that are looked through for secrets: one is shorter
_MAX_NAME = 1000  # characters; what people and programs are called is theirs to choose
_PRUNE_BATCH = 500  # rows of one pruning: nobody else's write waits long for it
_inbound_decoder = msgspec.json.Decoder(Inbound)
_encode_json = msgspec.json.Encoder().encode


def record(cursor: apsw.Cursor, act: AuditEntry) -> None:
    """The row is durable together with what it tells of, or neither is."""
    last = last_link(cursor)
    seq, facts = last.seq + 1, _encode_json(act.facts).decode()
    words = _save_words(cursor, seq, act) if act.words else None
    row = (
        seq,
        float(act.at),
        act.kind.value,
        actor_of_principal(act.actor)[:_MAX_NAME],
        act.session_id,
        act.turn_id,
        act.subject[:_MAX_NAME],
        act.outcome,
        facts,
        words,
    )
    cursor.execute(
        "INSERT INTO audit (seq, at, kind, actor, session, turn, subject, outcome, facts, words,"
        " hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*row, chain_hash(last.hash, *row)),
    )


def last_link(cursor: apsw.Cursor) -> AuditChainLink:
    """The row that the next one is chained to; also where it was forgotten since."""
    found = cursor.execute("SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1").fetchone()
    return pruned_link(cursor) if found is None else AuditChainLink(seq=found[0], hash=found[1])


def pruned_link(cursor: apsw.Cursor) -> AuditChainLink:
    found = cursor.execute("SELECT seq, hash FROM audit_pruned").fetchone()
    return (
        AuditChainLink(seq=0, hash=b"")
        if found is None
        else AuditChainLink(seq=found[0], hash=found[1])
    )


def do_audited(cursor: apsw.Cursor, *, work: Callable[[apsw.Cursor], T], act: AuditEntry) -> T:
    """Do the work, and leave its row. What says that it has changed nothing leaves none."""
    result = work(cursor)
    if result is not False:
        record(cursor, act)
    return result


def message_author(cursor: apsw.Cursor, inbox_id: InboxId) -> tuple[str, str]:
    """Who a message is by, and what it says."""
    body = cursor.execute("SELECT body FROM inbox WHERE id = ?", (inbox_id,)).get
    if body is None:
        return UNKNOWN_ACTOR, ""
    inbound = _inbound_decoder.decode(body)
    return actor_of(inbound), inbound.text


def prune(cursor: apsw.Cursor, *, before: float, at: float) -> int:
    """Forget some rows from before then, and say so in a row; 0: there are none left. That row
    is chained to the last of them, also where none is between."""
    found: list[Any] = cursor.execute(
        "SELECT seq, hash, at FROM audit ORDER BY seq LIMIT ?", (_PRUNE_BATCH,)
    ).fetchall()
    # In their order, up to the first that is younger: a clock that was set back leaves no gap.
    old = list(takewhile(lambda row: row[2] < before, found))
    if not old:
        return 0
    last = AuditChainLink(seq=old[-1][0], hash=old[-1][1])
    cursor.execute(
        "INSERT INTO audit_pruned (one, seq, hash) VALUES (1, ?, ?)"
        " ON CONFLICT (one) DO UPDATE SET seq = excluded.seq, hash = excluded.hash",
        (last.seq, last.hash),
    )
    cursor.execute("DELETE FROM audit_words WHERE seq <= ?", (last.seq,))
    cursor.execute("DELETE FROM audit WHERE seq <= ?", (last.seq,))
    facts = {"rows": len(old), "to": last.seq}
    record(cursor, AuditEntry(kind=AuditKind.AUDIT_PRUNED, actor=GATEWAY_ACTOR, at=at, facts=facts))
    return len(old)


def _save_words(cursor: apsw.Cursor, seq: int, act: AuditEntry) -> str:
    """The words are kept beside their row; the row has their digest."""
    body = _encode_json(_redact_words(cursor, act.words)).decode()
    (salt,) = cursor.execute("SELECT lower(hex(randomblob(16)))").fetchall()[0]
    cursor.execute(
        "INSERT INTO audit_words (seq, session_id, salt, body) VALUES (?, ?, ?, ?)",
        (seq, act.session_id, salt, body),
    )
    return salted_digest(str(salt), body)


def _redact_words(cursor: apsw.Cursor, words: Mapping[str, str]) -> dict[str, str]:
    """Without secrets first, and then cut short: half a secret is still one."""
    return {
        name: truncate_text(_redact(cursor, text[:_MAX_SCANNED]), length=len(text))
        for name, text in words.items()
    }


def _redact(cursor: apsw.Cursor, text: str) -> str:
    """By a function that whoever opened the connection has given it: only they know secrets."""
    return str(cursor.execute("SELECT holdfast_redacted(?)", (text,)).get)

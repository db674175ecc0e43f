"""Queries of the audit: rows by filter, and the check that the hash chain is intact."""

from typing import Any

import apsw
import msgspec

from holdfast.core.people.audit import (
    AuditChainLink,
    AuditFilter,
    AuditKind,
    AuditRow,
    chain_hash,
    salted_digest,
)
from holdfast.store.sqlite.writes.audit_log import pruned_link

_COLUMNS = "seq, at, kind, actor, session, turn, subject, outcome, facts, words, hash"
_AFTER_ANY_KIND = "\x7f"  # behind every character that a kind may have


class ChainCheck(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of the chain: how far it was followed, and what was found on the way."""

    last: AuditChainLink
    rows: int
    forgotten: int
    broken: tuple[str, ...]


def list_rows(cursor: apsw.Cursor, *, where: AuditFilter, limit: int) -> list[AuditRow]:
    """The rows, the newest first; with `after`, those that follow it, in their order."""
    conditions, bindings = _conditions(where)
    order = "DESC" if where.after is None else "ASC"
    found = cursor.execute(
        f"SELECT {', '.join(f'a.{name}' for name in _COLUMNS.split(', '))}, w.body"
        " FROM audit a LEFT JOIN audit_words w ON w.seq = a.seq"
        f" WHERE {' AND '.join(conditions)} ORDER BY a.seq {order} LIMIT ?",
        (*bindings, limit),
    )
    return [_decode_row(row) for row in found]


def needs_full_scan(where: AuditFilter) -> bool:
    """Whether the query may have to read every row, because no index fits its filter."""
    named = where.session or where.turn
    several = bool(where.kind) and _single_kind(where.kind) is None
    return bool(where.text or where.actor or where.since is not None or several) and not named


def _single_kind(kind: str) -> str | None:
    """The only kind with that prefix; None: there are several, or none."""
    known = [each.value for each in AuditKind if each.value.startswith(f"{kind}.")]
    return kind if "." in kind else known[0] if len(known) == 1 else None


def _conditions(where: AuditFilter) -> tuple[list[str], list[Any]]:
    kind, text, one = where.kind, _ascii_lower(where.text), _single_kind(where.kind)
    # A plus keeps an index out of it: that of a session leads to fewer rows, and of several kinds
    # all would have to be sorted before the first is known.
    by_kind = "+a.kind" if where.session or where.turn else "a.kind"
    asked: list[tuple[bool, str, tuple[Any, ...]]] = [
        (True, "a.seq > ?", (where.after or 0,)),
        (where.before is not None, "a.seq < ?", (where.before,)),
        (where.since is not None, "a.at >= ?", (where.since,)),
        (bool(kind) and one is not None, f"{by_kind} = ?", (one,)),
        (
            bool(kind) and one is None,
            "+a.kind BETWEEN ? AND ?",
            (f"{kind}.", f"{kind}.{_AFTER_ANY_KIND}"),
        ),
        (bool(where.session), "a.session = ?", (where.session,)),
        (bool(where.turn), "a.turn = ?", (where.turn,)),
        (bool(where.actor), "instr(lower(a.actor), ?)", (_ascii_lower(where.actor),)),
        (
            bool(text),
            "instr(lower(a.kind || ' ' || a.actor || ' ' || a.subject || ' ' || a.outcome || ' '"
            " || a.facts || ' ' || coalesce(w.body, '')), ?)",
            (text,),
        ),
    ]
    chosen = [(condition, values) for applies, condition, values in asked if applies]
    return [each for each, _ in chosen], [value for _, values in chosen for value in values]


def _ascii_lower(text: str) -> str:
    """Lowercases ASCII letters only, as SQLite's `lower` does."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in text)


def _decode_row(row: tuple[Any, ...]) -> AuditRow:
    body = row[11]
    return AuditRow(
        seq=row[0],
        at=row[1],
        kind=row[2],
        actor=row[3],
        session_id=row[4],
        turn_id=row[5],
        subject=row[6],
        outcome=row[7],
        facts=msgspec.json.decode(row[8]),
        words=None if body is None else msgspec.json.decode(body),
        forgotten=body is None and row[9] is not None,
        hash=row[10].hex(),
    )


def verify_chain(cursor: apsw.Cursor, *, behind: AuditChainLink, limit: int) -> ChainCheck:
    """Follows the chain after a row, over at most so many rows. Rows that were pruned since that
    row was read are no gap."""
    behind = max(behind, pruned_link(cursor), key=lambda link: link.seq)
    found = cursor.execute(
        f"SELECT {', '.join(f'a.{name}' for name in _COLUMNS.split(', '))}, w.salt, w.body"
        " FROM audit a LEFT JOIN audit_words w ON w.seq = a.seq"
        " WHERE a.seq > ? ORDER BY a.seq LIMIT ?",
        (behind.seq, limit),
    )
    last, count, forgotten, broken = behind, 0, 0, []
    for row in found:
        broken += _chain_problems(row, last)
        forgotten += row[9] is not None and row[12] is None
        last, count = AuditChainLink(seq=row[0], hash=row[10]), count + 1
    return ChainCheck(last=last, rows=count, forgotten=forgotten, broken=tuple(broken))


def unrecorded_pruning(cursor: apsw.Cursor) -> list[str]:
    """Rows that were removed without a row about it, so not by the pruning of old rows."""
    pruned_seq = pruned_link(cursor).seq
    recorded = cursor.execute(
        "SELECT CASE WHEN json_valid(facts) THEN json_extract(facts, '$.to') END FROM audit"
        " WHERE kind = ? ORDER BY seq DESC LIMIT 1",
        (AuditKind.AUDIT_PRUNED.value,),
    ).get
    return (
        []
        if pruned_seq == (recorded or 0)
        else [f"rows up to {pruned_seq} are gone, and no row tells of it"]
    )


def _chain_problems(row: tuple[Any, ...], before: AuditChainLink) -> list[str]:
    faults = []
    if row[0] != before.seq + 1:
        faults.append(f"rows {before.seq + 1} to {row[0] - 1} are missing")
    elif chain_hash(before.hash, *row[:10]) != row[10]:
        faults.append(f"row {row[0]} was changed after it was written, or the row before it was")
    if row[12] is not None and (row[9] is None or salted_digest(row[11], row[12]) != row[9]):
        faults.append(f"the words of row {row[0]} are not as they were written")
    return faults

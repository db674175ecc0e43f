"""Configurations: those that were in force, each kept once, in order, and never changed."""

from typing import Any

import apsw
import msgspec

from holdfast.core.config.kept_configuration import (
    ConfigurationSource,
    KeptConfiguration,
    NewConfiguration,
    without_secrets,
)
from holdfast.core.people.approval import OPERATOR
from holdfast.core.people.audit import GATEWAY, Act, AuditKind
from holdfast.store.sqlite.writes import audit

_ROW = "number, at, by, source, text, changed, signature"
_UNASKED = (ConfigurationSource.START, ConfigurationSource.FILE)  # nobody told the gateway to
_keys = msgspec.json.Decoder(tuple[str, ...]).decode


def keep(cursor: apsw.Cursor, *, new: NewConfiguration) -> int:
    """Its number; one that is as the last is that one, and no row is written."""
    text = without_secrets(new.text)
    known = last(cursor)
    if known is not None and (known.text, known.signature) == (text, new.signature):
        return known.number
    changed = msgspec.json.encode(new.changed).decode()
    ((number,),) = cursor.execute(
        "INSERT INTO configurations (at, by, source, text, changed, signature)"
        " VALUES (?, ?, ?, ?, ?, ?) RETURNING number",
        (new.at, new.by, new.source, text, changed, new.signature),
    ).fetchall()
    audit.record(cursor, _act(new, number=str(number)))
    return int(str(number))


def _act(new: NewConfiguration, *, number: str) -> Act:
    return Act(
        kind=AuditKind.CONFIGURATION_CHANGED,
        actor=GATEWAY if new.source in _UNASKED else OPERATOR,
        at=new.at,
        subject=number,
        facts={"source": new.source.value, "by": new.by, "keys": ", ".join(new.changed)},
    )


def last(cursor: apsw.Cursor) -> KeptConfiguration | None:
    return next(iter(page(cursor, before=None, limit=1)), None)


def page(cursor: apsw.Cursor, *, before: int | None, limit: int) -> list[KeptConfiguration]:
    """The newest first, or those before a number."""
    found = cursor.execute(
        f"SELECT {_ROW} FROM configurations WHERE ?1 IS NULL OR number < ?1"
        " ORDER BY number DESC LIMIT ?2",
        (before, limit),
    )
    return [_kept(row) for row in found]


def one(cursor: apsw.Cursor, *, number: int) -> KeptConfiguration | None:
    row = cursor.execute(
        f"SELECT {_ROW} FROM configurations WHERE number = ?", (number,)
    ).fetchone()
    return None if row is None else _kept(row)


def _kept(row: tuple[Any, ...]) -> KeptConfiguration:
    number, at, by, source, text, changed, signature = row
    return KeptConfiguration(
        number=number,
        at=at,
        by=by,
        source=ConfigurationSource(source),
        text=text,
        changed=_keys(changed),
        signature=signature,
    )

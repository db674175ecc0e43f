"""Configurations: those that were in force, each kept once, in order, and never changed."""

from typing import Any

import apsw
import msgspec

from holdfast.core.config.kept_configuration import (
    ConfigSource,
    ConfigVersion,
    NewConfigVersion,
    mask_secrets,
)
from holdfast.core.people.approval import OPERATOR
from holdfast.core.people.audit import GATEWAY_ACTOR, AuditEntry, AuditKind
from holdfast.store.sqlite.writes import audit

_CONFIGURATION_COLUMNS = "number, at, by, source, text, changed, signature"
_AUTOMATIC_SOURCES = (ConfigSource.START, ConfigSource.FILE)  # nobody told the gateway to
_decode_keys = msgspec.json.Decoder(tuple[str, ...]).decode


def save_configuration(cursor: apsw.Cursor, *, new: NewConfigVersion) -> int:
    """Its number; one that is as the last is that one, and no row is written."""
    text = mask_secrets(new.text)
    known = last_configuration(cursor)
    if known is not None and (known.text, known.signature) == (text, new.signature):
        return known.number
    changed = msgspec.json.encode(new.changed).decode()
    ((number,),) = cursor.execute(
        "INSERT INTO configurations (at, by, source, text, changed, signature)"
        " VALUES (?, ?, ?, ?, ?, ?) RETURNING number",
        (new.at, new.by, new.source, text, changed, new.signature),
    ).fetchall()
    audit.record(cursor, _audit_entry(new, number=str(number)))
    return int(str(number))


def _audit_entry(new: NewConfigVersion, *, number: str) -> AuditEntry:
    return AuditEntry(
        kind=AuditKind.CONFIGURATION_CHANGED,
        actor=GATEWAY_ACTOR if new.source in _AUTOMATIC_SOURCES else OPERATOR,
        at=new.at,
        subject=number,
        facts={"source": new.source.value, "by": new.by, "keys": ", ".join(new.changed)},
    )


def last_configuration(cursor: apsw.Cursor) -> ConfigVersion | None:
    return next(iter(list_configurations(cursor, before=None, limit=1)), None)


def list_configurations(
    cursor: apsw.Cursor, *, before: int | None, limit: int
) -> list[ConfigVersion]:
    """The newest first, or those before a number."""
    found = cursor.execute(
        f"SELECT {_CONFIGURATION_COLUMNS} FROM configurations WHERE ?1 IS NULL OR number < ?1"
        " ORDER BY number DESC LIMIT ?2",
        (before, limit),
    )
    return [_decode_configuration(row) for row in found]


def read_configuration(cursor: apsw.Cursor, *, number: int) -> ConfigVersion | None:
    row = cursor.execute(
        f"SELECT {_CONFIGURATION_COLUMNS} FROM configurations WHERE number = ?", (number,)
    ).fetchone()
    return None if row is None else _decode_configuration(row)


def _decode_configuration(row: tuple[Any, ...]) -> ConfigVersion:
    number, at, by, source, text, changed, signature = row
    return ConfigVersion(
        number=number,
        at=at,
        by=by,
        source=ConfigSource(source),
        text=text,
        changed=_decode_keys(changed),
        signature=signature,
    )

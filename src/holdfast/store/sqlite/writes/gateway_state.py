"""Rows that belong to the gateway and to no session: configurations, per-minute statistics, meta
values, quiet chats, runners and their processes."""

from typing import Any

import apsw
import msgspec

from holdfast.core.config.versions import (
    ConfigSource,
    ConfigVersion,
    NewConfigVersion,
    mask_secrets,
)
from holdfast.core.ids import PrincipalId, SessionId
from holdfast.core.messages.outbox import QuietChat
from holdfast.core.ops.stats import MinuteStats
from holdfast.core.people.approval import OPERATOR
from holdfast.core.people.audit import GATEWAY_ACTOR, AuditEntry, AuditKind
from holdfast.core.sessions.session import ProcessRow, RunnerRow
from holdfast.store.sqlite import rows
from holdfast.store.sqlite.writes import audit_log

_CONFIGURATION_COLUMNS = "number, at, by, source, text, changed, signature"
_AUTOMATIC_SOURCES = (ConfigSource.START, ConfigSource.FILE)  # not requested by a person
_decode_keys = msgspec.json.Decoder(tuple[str, ...]).decode
_decode_minute = msgspec.json.Decoder(MinuteStats).decode


def save_configuration(cursor: apsw.Cursor, *, new: NewConfigVersion) -> int:
    """Returns the number of the version. If it equals the last one, no row is written."""
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
    audit_log.record(cursor, _audit_entry(new, number=str(number)))
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


def add_minute_stats(cursor: apsw.Cursor, *, minute: MinuteStats, since: int) -> None:
    """Added to what an earlier process saved for the same minute. Deletes rows before `since`."""
    known = read_minute_stats(cursor, since=minute.at, until=minute.at)
    total = known[0] + minute if known else minute
    cursor.execute(
        "INSERT INTO minutes (at, body) VALUES (?, ?)"
        " ON CONFLICT DO UPDATE SET body = excluded.body",
        (minute.at, msgspec.json.encode(total).decode()),
    )
    cursor.execute("DELETE FROM minutes WHERE at < ?", (since,))


def read_minute_stats(cursor: apsw.Cursor, *, since: int, until: int = 2**62) -> list[MinuteStats]:
    found = cursor.execute(
        "SELECT body FROM minutes WHERE at BETWEEN ? AND ? ORDER BY at", (since, until)
    )
    return [_decode_minute(str(row[0])) for row in found]


def set_meta(cursor: apsw.Cursor, *, key: str, value: str) -> None:
    cursor.execute(
        "INSERT INTO meta (key, value) VALUES (?, ?)"
        " ON CONFLICT DO UPDATE SET value = excluded.value",
        (key, value),
    )


def set_quiet_chat(cursor: apsw.Cursor, chat: QuietChat) -> None:
    key = (chat.platform, chat.account, chat.chat_id)
    if chat.quiet is None:
        cursor.execute(
            "DELETE FROM quiet_chats WHERE platform = ? AND account = ? AND chat_id = ?", key
        )
        return
    cursor.execute(
        "INSERT OR REPLACE INTO quiet_chats (platform, account, chat_id, quiet, set_by, at)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (*key, int(chat.quiet), chat.set_by, chat.at),
    )


def quiet_chats(cursor: apsw.Cursor) -> list[QuietChat]:
    found = cursor.execute("SELECT platform, account, chat_id, quiet, set_by, at FROM quiet_chats")
    return [
        QuietChat(
            platform=row[0],
            account=row[1],
            chat_id=row[2],
            quiet=bool(row[3]),
            set_by=PrincipalId(row[4]),
            at=row[5],
        )
        for row in found
    ]


def save_runner(cursor: apsw.Cursor, runner: RunnerRow) -> None:
    cursor.execute(
        f"INSERT OR REPLACE INTO runners ({rows.RUNNER_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)",
        (
            runner.session_id,
            runner.pid,
            runner.start_time,
            runner.outer_pid,
            runner.sandboxed,
            runner.started_at,
        ),
    )


def end_runner(cursor: apsw.Cursor, session_id: SessionId) -> None:
    cursor.execute("DELETE FROM runners WHERE session_id = ?", (session_id,))


def save_process(cursor: apsw.Cursor, process: ProcessRow) -> None:
    cursor.execute(
        f"INSERT OR REPLACE INTO processes ({rows.PROCESS_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            process.session_id,
            process.id,
            process.command,
            process.started_at,
            process.ended_at,
            process.exit_code,
            process.note,
        ),
    )

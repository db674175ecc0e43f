"""Pairing: refused messages of unknown senders, their pairing requests, and the people who were
paired."""

from typing import TypeVar

import apsw
import msgspec

from holdfast.core.errors import StoreError
from holdfast.core.messages.inbox import Accepted, InboxEnd, InboxState
from holdfast.core.messages.outbox import Address
from holdfast.core.people.pairing import (
    PairedUser,
    PairingChange,
    PairingKind,
    PairingRequest,
    Pairings,
    RefusedMessage,
    WrongCodes,
)
from holdfast.store.sqlite import rows
from holdfast.store.sqlite.writes import audit_log, inbox, outbox

_Row = TypeVar("_Row", PairingRequest, PairedUser)

_USER_ROLE = "user"
_REQUEST_COLUMNS = "principal, address, user_id, user_name, salt, digest, asked_at, expires_at"
_PERSON_COLUMNS = "principal, address, user_id, user_name, since, let_in_by"
_address_decoder = msgspec.json.Decoder(Address)


def refuse_message(cursor: apsw.Cursor, *, away: RefusedMessage) -> Accepted:
    """Records a refused message. A repeated event writes nothing: the first one was answered."""
    accepted = inbox.accept_message(
        cursor, inbound=away.inbound, route=away.route, principal=away.principal, at=away.at
    )
    if accepted.duplicate:
        return accepted
    row = accepted.row
    refused = InboxEnd(inbox_id=row.id, state=InboxState.REFUSED, reason=away.reason)
    inbox.end_row(cursor, refused, at=away.at)
    deliveries = tuple(msgspec.structs.replace(new, inbox_id=row.id) for new in away.deliveries)
    outbox.add_deliveries(cursor, deliveries, at=away.at)
    if away.request is not None:
        _save_request(cursor, away.request)
        audit_log.record_unknown_sender(cursor, away)
    return accepted


def _save_request(cursor: apsw.Cursor, request: PairingRequest) -> None:
    cursor.execute("DELETE FROM pairing_requests WHERE expires_at <= ?", (request.asked_at,))
    cursor.execute(
        "INSERT OR REPLACE INTO pairing_requests (principal, address, user_id, user_name, salt,"
        " digest, asked_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            request.principal,
            rows.encode_json(request.address),
            request.user_id,
            request.user_name,
            request.salt,
            request.digest,
            request.asked_at,
            request.expires_at,
        ),
    )


def change_pairing(cursor: apsw.Cursor, *, change: PairingChange) -> None:
    match change.kind:
        case PairingKind.APPROVE:
            _approve_person(cursor, change)
        case PairingKind.DENY:
            cursor.execute(
                "UPDATE pairing_requests SET digest = x'' WHERE principal = ?", (change.principal,)
            )
            _require_change(cursor, "request")
        case PairingKind.REVOKE:
            cursor.execute("DELETE FROM principals WHERE principal = ?", (change.principal,))
            _require_change(cursor, "person")
    if change.kind in (PairingKind.APPROVE, PairingKind.WRONG):
        cursor.execute(
            "INSERT OR REPLACE INTO pairing_tries (one, wrong, locked_until) VALUES (1, ?, ?)",
            (change.wrong.count, change.wrong.locked_until),
        )
    outbox.add_deliveries(cursor, change.deliveries, at=change.at)
    audit_log.record_pairing(cursor, change)


def _approve_person(cursor: apsw.Cursor, change: PairingChange) -> None:
    person = change.user
    assert person is not None, "an approval names a person"
    cursor.execute(
        "DELETE FROM pairing_requests WHERE principal = ? AND digest <> x''", (person.principal,)
    )
    _require_change(cursor, "request")
    cursor.execute(
        "INSERT OR REPLACE INTO principals"
        " (principal, role, address, user_id, user_name, since, let_in_by)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            person.principal,
            _USER_ROLE,
            rows.encode_json(person.address),
            person.user_id,
            person.user_name,
            person.since,
            person.let_in_by,
        ),
    )


def read_pairings(cursor: apsw.Cursor) -> Pairings:
    requests = cursor.execute(
        f"SELECT {_REQUEST_COLUMNS} FROM pairing_requests ORDER BY asked_at"
    ).fetchall()
    people = cursor.execute(f"SELECT {_PERSON_COLUMNS} FROM principals ORDER BY since").fetchall()
    wrong = cursor.execute("SELECT wrong, locked_until FROM pairing_tries").fetchone()
    return Pairings(
        requests=tuple(_decode_row(row, _REQUEST_COLUMNS, PairingRequest) for row in requests),
        users=tuple(_decode_row(row, _PERSON_COLUMNS, PairedUser) for row in people),
        wrong=WrongCodes(count=wrong[0], locked_until=wrong[1]) if wrong else WrongCodes(),
    )


def _decode_row(row: tuple[object, ...], columns: str, kind: type[_Row]) -> _Row:
    fields = dict(zip(columns.split(", "), row, strict=True))
    fields["address"] = _address_decoder.decode(str(fields["address"]))
    return msgspec.convert(fields, kind)


def _require_change(cursor: apsw.Cursor, what: str) -> None:
    if not cursor.connection.changes():
        raise StoreError("This {what} no longer exists. List them again.", what=what)

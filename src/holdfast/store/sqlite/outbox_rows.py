"""Rows of the outbox and of the parts of a delivery, and the structs they are."""

import msgspec

from holdfast.core.ids import DeliveryId
from holdfast.core.messages.message import AssistantMessage
from holdfast.core.messages.outbox import (
    Address,
    Button,
    DeliveryKind,
    DeliveryPart,
    DeliveryRow,
    DeliveryState,
    PendingFile,
)
from holdfast.store.sqlite import rows
from holdfast.store.sqlite.rows import Row

_address_decoder = msgspec.json.Decoder(Address)
_buttons_decoder = msgspec.json.Decoder(tuple[Button, ...])
_file_decoder = msgspec.json.Decoder(PendingFile)

# The seventeenth is the body of the assistant message that a delivery without a text refers to.
DELIVERY_COLUMNS = """seq, id, address, kind, text, session_id, turn_id, inbox_id, state, attempts,
    doubtful, resends, platform_message_id, error, expires_at, created_at,
    CASE WHEN text IS NULL THEN (
        SELECT m.body FROM steps p
        JOIN messages m ON m.session_id = p.session_id AND m.seq = p.message_seq
        WHERE p.turn_id = outbox.turn_id AND p.kind = 'model'
        ORDER BY p.seq DESC LIMIT 1
    ) END, choices, file, updated_at"""


def decode_delivery(row: Row) -> DeliveryRow:
    return DeliveryRow(
        seq=row[0],
        id=DeliveryId(row[1]),
        address=_address_decoder.decode(row[2]),
        kind=DeliveryKind(row[3]),
        text=_reply_text(row[16]) if row[4] is None else row[4],
        session_id=row[5],
        turn_id=row[6],
        inbox_id=row[7],
        state=DeliveryState(row[8]),
        attempts=row[9],
        outcome_unknown=bool(row[10]),
        resends=row[11],
        platform_message_id=row[12],
        error=row[13],
        expires_at=row[14],
        created_at=row[15],
        buttons=() if row[17] is None else _buttons_decoder.decode(row[17]),
        file=None if row[18] is None else _file_decoder.decode(row[18]),
        updated_at=row[19],
    )


def decode_part(row: Row) -> DeliveryPart:
    return DeliveryPart(
        number=row[0],
        state=DeliveryState(row[1]),
        final=bool(row[2]),
        outcome_unknown=bool(row[3]),
        resends=row[4],
        platform_message_id=row[5],
    )


def _reply_text(body: str | None) -> str:
    message = None if body is None else rows.decode_message(body)
    return message.text if isinstance(message, AssistantMessage) else ""

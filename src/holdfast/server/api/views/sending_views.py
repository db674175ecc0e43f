"""The views of messages sent on purpose: what `/api/v1/send` and `/deliveries` say and take."""

from typing import Annotated

import msgspec

from holdfast.core.messages.outbox import DeliveryRow, DeliveryState
from holdfast.gateway.notify.chat_addresses import format_chat

LONGEST_TEXT = 100_000  # characters; it is cut into as many messages as its platform needs


class SendParams(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`to`: platform:chat, or platform:chat/thread. `account`: where the platform has several.
    `file`: what `POST /outgoing` called it; the text stands under it. The same `key` is sent
    once, however often it is asked for."""

    to: Annotated[str, msgspec.Meta(min_length=1, max_length=600)]
    text: Annotated[str, msgspec.Meta(max_length=LONGEST_TEXT)] = ""
    account: Annotated[str, msgspec.Meta(max_length=100)] = ""
    thread: Annotated[str, msgspec.Meta(max_length=500)] = ""
    file: Annotated[str, msgspec.Meta(max_length=100)] = ""
    key: Annotated[str, msgspec.Meta(max_length=100, pattern="^[A-Za-z0-9_-]*$")] = ""


class OutgoingFileView(msgspec.Struct, frozen=True, kw_only=True):
    file: str
    name: str
    size: int


class DeliveryView(msgspec.Struct, frozen=True, kw_only=True):
    """`message_id`: the platform's own, once it has said it."""

    id: str
    to: str
    account: str
    state: DeliveryState
    attempts: int
    error: str
    message_id: str | None
    file: str | None
    created_at: float


def delivery_view(row: DeliveryRow) -> DeliveryView:
    return DeliveryView(
        id=row.id,
        to=format_chat(row.address),
        account=row.address.account,
        state=row.state,
        attempts=row.attempts,
        error=row.error,
        message_id=row.platform_message_id,
        file=None if row.file is None else row.file.path.rpartition("/")[2],
        created_at=row.created_at,
    )

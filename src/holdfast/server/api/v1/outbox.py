"""The two boxes over HTTP: what is owed to chats and what came of it, and what was accepted."""

from typing import Annotated, Literal

import msgspec
from aiohttp import web

from holdfast.core.ids import DeliveryId
from holdfast.core.messages.inbox import InboxState
from holdfast.core.messages.outbox import DeliveryRow, DeliveryState
from holdfast.gateway.outbound.resend import NotResent, resend, why_not
from holdfast.server.api.endpoint import Call, NoQuery
from holdfast.server.api.errors import conflict, not_found
from holdfast.server.api.room import Room
from holdfast.server.api.views.outbox_views import (
    InboxLine,
    InboxList,
    Outlook,
    OwedList,
    OwedView,
    owed_view,
)

Limit = Annotated[int, msgspec.Meta(ge=1, le=200)]
Number = Annotated[int, msgspec.Meta(ge=1, le=2**53)]


class OutboxQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`state`: only those that stand so; `unsent`: all that have not arrived. `platform`: only
    those to its chats. `before`: those that were owed before that `seq`."""

    state: Literal["", "unsent", "streaming", "pending", "sending", "sent", "failed", "unknown"] = (
        ""
    )
    platform: Annotated[str, msgspec.Meta(max_length=100)] = ""
    before: Number | None = None
    limit: Limit = 50


class InboxQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`state`: only those that stand so; without it, those that have not ended."""

    state: Literal[
        "", "queued", "running", "answered", "merged", "superseded", "refused", "failed"
    ] = ""
    offset: Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)] = 0
    limit: Limit = 50


async def list_outbox(room: Room, call: Call[OutboxQuery, None]) -> web.Response:
    asked = call.query
    unsent = asked.state == "unsent"
    rows = await room.store.outbox(
        state=DeliveryState(asked.state) if asked.state and not unsent else None,
        unsent=unsent,
        platform=asked.platform,
        before=asked.before,
        limit=asked.limit + 1,
    )
    counts = await room.store.outbox_ledger()
    views = [shown_delivery(room, row) for row in rows[: asked.limit]]
    return room.say(OwedList(deliveries=views, more=len(rows) > asked.limit, counts=dict(counts)))


async def retry_delivery(room: Room, call: Call[NoQuery, None]) -> web.Response:
    delivery_id = DeliveryId(call.part("id"))
    row = await room.store.delivery(delivery_id)
    if row is None:
        raise not_found(f"there is no delivery {delivery_id!r}, or it was forgotten since.")
    try:
        owed = await resend(room.gateway.house, room.gateway.delivery, row)
    except NotResent as why:
        raise conflict(
            f"delivery {delivery_id} is not sent again: {why}", code="not_sent"
        ) from None
    return room.say(shown_delivery(room, owed), status=202)


def shown_delivery(room: Room, row: DeliveryRow) -> OwedView:
    """With what is to come of it, by whom it is owed."""
    house, delivery = room.gateway.house, room.gateway.delivery
    platform = house.doors.find(row.address)
    outlook = Outlook(
        prospect=delivery.prospect(row),
        not_again=why_not(house, delivery, row) or "",
        settles=platform is not None and platform.capabilities.settles_doubt,
    )
    return owed_view(row, outlook)


async def list_inbox(room: Room, call: Call[InboxQuery, None]) -> web.Response:
    asked = call.query
    state = InboxState(asked.state) if asked.state else None
    rows = await room.store.inbox(state=state, offset=asked.offset, limit=asked.limit + 1)
    lines = [InboxLine(**msgspec.structs.asdict(row)) for row in rows[: asked.limit]]
    return room.say(InboxList(messages=lines, more=len(rows) > asked.limit))

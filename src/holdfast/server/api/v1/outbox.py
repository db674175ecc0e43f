"""The two boxes over HTTP: what is owed to chats and what came of it, and what was accepted."""

from typing import Annotated, Literal

import msgspec
from aiohttp import web

from holdfast.core.ids import DeliveryId
from holdfast.core.messages.inbox import InboxState
from holdfast.core.messages.outbox import DeliveryRow, DeliveryState
from holdfast.gateway.outbound.resend import NotResent, resend, resend_refusal
from holdfast.server.api.endpoint import ApiCall, NoQuery
from holdfast.server.api.errors import conflict, not_found
from holdfast.server.api.room import ApiContext
from holdfast.server.api.views.outbox_views import (
    DeliveryDetail,
    DeliveryList,
    DeliveryOutlook,
    InboxEntry,
    InboxList,
    delivery_detail_view,
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


async def list_outbox(context: ApiContext, call: ApiCall[OutboxQuery, None]) -> web.Response:
    asked = call.query
    unsent = asked.state == "unsent"
    rows = await context.store.outbox(
        state=DeliveryState(asked.state) if asked.state and not unsent else None,
        unsent=unsent,
        platform=asked.platform,
        before=asked.before,
        limit=asked.limit + 1,
    )
    counts = await context.store.outbox_counts()
    views = [delivery_detail(context, row) for row in rows[: asked.limit]]
    return context.respond(
        DeliveryList(deliveries=views, more=len(rows) > asked.limit, counts=dict(counts))
    )


async def retry_delivery(context: ApiContext, call: ApiCall[NoQuery, None]) -> web.Response:
    delivery_id = DeliveryId(call.path_param("id"))
    row = await context.store.delivery(delivery_id)
    if row is None:
        raise not_found(f"there is no delivery {delivery_id!r}, or it was forgotten since.")
    try:
        owed = await resend(context.gateway.services, context.gateway.outbox, row)
    except NotResent as why:
        raise conflict(
            f"delivery {delivery_id} is not sent again: {why}", code="not_sent"
        ) from None
    return context.respond(delivery_detail(context, owed), status=202)


def delivery_detail(context: ApiContext, row: DeliveryRow) -> DeliveryDetail:
    """With what is to come of it, by whom it is owed."""
    house, delivery = context.gateway.services, context.gateway.outbox
    platform = house.platforms.find(row.address)
    outlook = DeliveryOutlook(
        status=delivery.status_of(row),
        resend_refusal=resend_refusal(house, delivery, row) or "",
        resolves_unknown=platform is not None and platform.capabilities.can_resolve_unknown,
    )
    return delivery_detail_view(row, outlook)


async def list_inbox(context: ApiContext, call: ApiCall[InboxQuery, None]) -> web.Response:
    asked = call.query
    state = InboxState(asked.state) if asked.state else None
    rows = await context.store.inbox(state=state, offset=asked.offset, limit=asked.limit + 1)
    lines = [InboxEntry(**msgspec.structs.asdict(row)) for row in rows[: asked.limit]]
    return context.respond(InboxList(messages=lines, more=len(rows) > asked.limit))

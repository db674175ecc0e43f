"""The ends of processes of this gateway over HTTP: a page of its history."""

from typing import Annotated

import msgspec
from aiohttp import web

from holdfast.core.turns.stop import StopRow
from holdfast.server.api.endpoint import ApiCall
from holdfast.server.api.room import ApiContext


class RestartsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`before`: the `id` of one; those that were asked for before it."""

    before: Annotated[str, msgspec.Meta(max_length=100)] = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] = 20


class RestartList(msgspec.Struct, frozen=True, kw_only=True):
    """The newest first. One without `ready_at` is under way, or nobody came after it."""

    restarts: list[StopRow]
    more: bool


async def list_restarts(context: ApiContext, call: ApiCall[RestartsQuery, None]) -> web.Response:
    """Before one that is forgotten there is nothing: the oldest are forgotten first."""
    asked = call.query
    found = await context.store.last_stops(limit=asked.limit + 1, before=asked.before or None)
    return context.respond(
        RestartList(restarts=found[: asked.limit], more=len(found) > asked.limit)
    )

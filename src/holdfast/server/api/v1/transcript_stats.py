"""Transcript statistics over HTTP: usage and cost of a range of records, session summaries."""

import logging
from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec
from aiohttp import web

from holdfast.core.errors import StoreError
from holdfast.core.ids import SessionId
from holdfast.core.messages.outbox import DeliveryKind, DeliveryRow, DeliveryState
from holdfast.core.ports.store_commands import CountModelUsage
from holdfast.core.ports.store_queries import (
    GetSessionUsageByModel,
    GetTranscriptStats,
    ListSessionPreviews,
)
from holdfast.core.sessions.session import SessionRow
from holdfast.core.turns.pricing import Prices, find_price, total_cost
from holdfast.core.turns.stop import TurnExitReason
from holdfast.core.turns.subagent import platform_label
from holdfast.core.turns.timeline import ReplyStats, SessionPreview, TranscriptStats, TurnOutline
from holdfast.core.turns.turn import TurnRowState, Usage
from holdfast.server.api.context import ApiContext
from holdfast.server.api.endpoint import ApiCall, Endpoint
from holdfast.server.api.errors import bad_request
from holdfast.server.api.views.sessions import SessionSummaryView, SessionView

log = logging.getLogger(__name__)

_MAX_UNCOUNTED = 200  # messages of a session that are read each time its price is shown


def usage_cost(usage_by_model: Mapping[str, Usage], prices: Prices) -> float | None:
    """None: some model has no price.

    Usage unnamed the agent's own requests (a summary, a described image) is stored without its
    model, and is counted for the model with the most input.
    """
    unnamed, named = (
        usage_by_model.get(""),
        {model: usage for model, usage in usage_by_model.items() if model},
    )
    if unnamed is None or not named:
        return total_cost(usage_by_model, prices)
    most = max(named, key=lambda model: named[model].input_tokens)
    return total_cost({**named, most: named[most] + unnamed}, prices)


class ReplyStatsView(msgspec.Struct, frozen=True, kw_only=True):
    """Time and usage of a model reply; `record` is its seq. `cost` null: no price is set."""

    record: int
    model: str
    began_at: float
    ended_at: float
    usage: Usage
    cost: float | None


class DeliveryOutcomeView(msgspec.Struct, frozen=True, kw_only=True):
    """The delivery of an answer. `outcome_unknown`: it may have arrived."""

    id: str
    kind: DeliveryKind
    platform: str
    state: DeliveryState
    outcome_unknown: bool
    attempts: int
    error: str
    updated_at: float


class TurnStatsView(msgspec.Struct, frozen=True, kw_only=True):
    """A whole turn, also its records outside of the range. `resumed`: in how many later processes
    it continued. `exit_reason`: how an earlier process left it."""

    id: str
    state: TurnRowState
    started_at: float
    ended_at: float | None
    steps: int
    usage: Usage
    cost: float | None
    resumed: int
    exit_reason: TurnExitReason | None
    deliveries: list[DeliveryOutcomeView]


class TranscriptStatsView(msgspec.Struct, frozen=True, kw_only=True):
    """`turns`: those with records in the range, the oldest first."""

    replies: list[ReplyStatsView]
    turns: list[TurnStatsView]


MAX_RECORDS = 256  # records of one request

Seq = Annotated[int, msgspec.Meta(ge=1, le=2**62)]


class TranscriptStatsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of the records `first` to `last`. `turns` false: only the replies."""

    first: Seq
    last: Seq
    turns: bool = True


async def read_transcript_stats(
    context: ApiContext, call: ApiCall[TranscriptStatsQuery, None]
) -> web.Response:
    row, asked = await context.find_session(call.path_param("id")), call.query
    if not 0 <= asked.last - asked.first < MAX_RECORDS:
        raise bad_request(
            "last: first to last must be 1 to {limit} records. Ask for fewer.",
            limit=MAX_RECORDS,
            param="last",
        )
    prices = context.gateway.settings.prices
    found = await context.store.read(
        GetTranscriptStats(
            session_id=row.id,
            first=asked.first,
            last=asked.last,
            priced=bool(prices) and asked.turns,
        )
    )
    return context.respond(
        TranscriptStatsView(
            replies=[_reply_stats(each, prices) for each in found.replies],
            turns=[_turn_stats(each, found, prices) for each in found.turns] if asked.turns else [],
        )
    )


async def with_summaries(context: ApiContext, rows: Sequence[SessionRow]) -> list[SessionView]:
    """Without prices no step is read."""
    previews = {
        each.session_id: each
        for each in await context.store.read(
            ListSessionPreviews(session_ids=[row.id for row in rows])
        )
    }
    return [
        msgspec.structs.replace(
            context.session_view(row), summary=await _summary_view(context, row, previews[row.id])
        )
        for row in rows
    ]


async def _summary_view(
    context: ApiContext, row: SessionRow, summary: SessionPreview
) -> SessionSummaryView:
    prices = context.gateway.settings.prices
    lane = context.gateway.lanes.get(row.id)
    return SessionSummaryView(
        owner=row.principal,
        last_text=summary.last_text,
        last_role=summary.last_role,
        usage=summary.usage,
        cost=await _session_cost(context, row.id, prices) if prices else None,
        queued=len(lane.waiting_messages) if lane else 0,
    )


async def _session_cost(context: ApiContext, session_id: SessionId, prices: Prices) -> float | None:
    used = await context.store.read(GetSessionUsageByModel(session_id=session_id))
    if used.uncounted > _MAX_UNCOUNTED:
        try:
            await context.store.write(CountModelUsage(session_id=session_id))
        except StoreError as error:  # the price is known all the same
            log.warning(
                "Could not store the usage by model of session %s: %s",
                session_id,
                error,
                extra={"action": "model_usage", "session": session_id},
            )
    return usage_cost(used.by_model, prices)


def _reply_stats(reply: ReplyStats, prices: Prices) -> ReplyStatsView:
    price = find_price(reply.model, prices)
    return ReplyStatsView(
        record=reply.record,
        model=reply.model,
        began_at=reply.began_at,
        ended_at=reply.ended_at,
        usage=reply.usage,
        cost=None if price is None else price.cost_of(reply.usage),
    )


def _turn_stats(summary: TurnOutline, stats: TranscriptStats, prices: Prices) -> TurnStatsView:
    turn = summary.turn
    used = stats.usage_by_model.get(turn.id)
    return TurnStatsView(
        id=turn.id,
        state=turn.state,
        started_at=turn.started_at,
        ended_at=turn.ended_at,
        steps=summary.steps,
        usage=summary.usage,
        cost=None if used is None else usage_cost(used, prices),
        resumed=summary.resumed,
        exit_reason=summary.exit_reason,
        deliveries=[_delivery_outcome(row) for row in stats.deliveries if row.turn_id == turn.id],
    )


def _delivery_outcome(row: DeliveryRow) -> DeliveryOutcomeView:
    return DeliveryOutcomeView(
        id=row.id,
        kind=row.kind,
        platform=platform_label(row.address.platform),
        state=row.state,
        outcome_unknown=row.outcome_unknown,
        attempts=row.attempts,
        error=row.error,
        updated_at=row.updated_at,
    )


_SESSION = "/sessions/{id}"

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path=f"{_SESSION}/stats",
        summary="Usage, time, cost and deliveries of a range of records.",
        handler=read_transcript_stats,
        read_only=True,
        query=TranscriptStatsQuery,
        response_type=TranscriptStatsView,
    ),
)

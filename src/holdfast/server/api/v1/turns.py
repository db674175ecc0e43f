"""Turns over HTTP: lists, and the timeline of one turn with the downtimes of the gateway."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Literal

import msgspec
from aiohttp import web

from holdfast.core.ids import SessionId, TurnId
from holdfast.core.messages.inbox import InboxState
from holdfast.core.messages.source import parse_route
from holdfast.core.messages.transcript import CallRecovery, ToolOutcome
from holdfast.core.people.approval import Approval, ApprovalState
from holdfast.core.ports.store_queries import (
    GetTurnDetails,
    GetTurnUsageByModel,
    ListTurns,
)
from holdfast.core.turns.pricing import Prices, find_price
from holdfast.core.turns.stop import StopKind, StopRow, TurnExitReason
from holdfast.core.turns.subagent import platform_label
from holdfast.core.turns.timeline import StepSummary, TurnDetails, TurnInput, TurnOutline, TurnQuery
from holdfast.core.turns.turn import NO_USAGE, StepKind, TurnRowState, Usage
from holdfast.core.turns.turn_state import LaneState
from holdfast.server.api.context import ApiContext
from holdfast.server.api.endpoint import ApiCall, Endpoint, Reach
from holdfast.server.api.errors import not_found
from holdfast.server.api.v1.outbox import delivery_detail
from holdfast.server.api.v1.transcript_stats import usage_cost
from holdfast.server.api.views.deliveries import DeliveryDetail


class TurnSummaryView(msgspec.Struct, frozen=True, kw_only=True):
    """A whole turn. `cost`: null where a model has no price. `resumed`: in how many later processes
    it continued. `exit_reason`: how an earlier process left it."""

    id: str
    session_id: str
    state: TurnRowState
    reason: str
    started_at: float
    ended_at: float | None
    steps: int
    usage: Usage
    cost: float | None
    resumed: int
    exit_reason: TurnExitReason | None
    waiting_for_approval: bool  # a person must decide


class TurnListItem(TurnSummaryView, frozen=True, kw_only=True):
    """A turn in a list of all sessions, with its session."""

    title: str
    platform: str


class RecentTurns(msgspec.Struct, frozen=True, kw_only=True):
    """The newest first, or the slowest of the newest. `more`: `before` the last has the next."""

    turns: list[TurnListItem]
    more: bool


class TurnList(msgspec.Struct, frozen=True, kw_only=True):
    """The newest first."""

    turns: list[TurnSummaryView]
    more: bool


class TurnInputView(msgspec.Struct, frozen=True, kw_only=True):
    """A message that the turn took: it waited from `accepted_at` to `taken_at`. `steered`: it
    came while the turn ran."""

    id: int
    principal: str
    state: InboxState
    accepted_at: float
    taken_at: float
    steered: bool


class TimelineSpanKind(StrEnum):
    MODEL = "model"
    TOOL = "tool"
    APPROVAL = "approval"  # waits for a person
    STEER = "steer"
    NOTE = "note"
    COMPACTION = "compaction"
    DRAIN = "drain"  # waits at a step boundary while its process stops
    DOWNTIME = "downtime"  # no gateway process ran


class TurnExitState(StrEnum):
    """How a process left the turn when it ended."""

    INTERRUPTED = "interrupted"  # in the middle of a step
    PARKED = "parked"  # between two steps
    WAITING = "waiting"  # for a person


class TimelineSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A span of a turn. `ended_at` null: it is still open. `name`: of the model or the tool, or why
    the process ended. `summary`: of a call, in one line. `step` and `record`: its seq among the
    steps, and in the transcript.

    A call that was started by one process and finished by another has a `recovery`, or the outcome
    `unknown`. An interrupted request to a model has the outcome `cancelled`, and one that made its
    turn fail `error`.
    """

    kind: TimelineSpanKind
    started_at: float
    ended_at: float | None
    name: str = ""
    summary: str = ""
    step: int | None = None
    record: int | None = None
    usage: Usage | None = None
    cost: float | None = None
    call_id: str | None = None
    outcome: ToolOutcome | None = None
    exit_code: int | None = None  # of a command
    recovery: CallRecovery | None = None
    approval: str | None = None
    decision: ApprovalState | None = None
    by: str = ""  # who decided, or who asked the gateway to go
    exit_state: TurnExitState | None = None


class TimelineView(msgspec.Struct, frozen=True, kw_only=True):
    """Where `more` is true, `after` the last step of these has the next spans; the turn, its
    messages and its deliveries come with every page. `previous` and `next`: the turns beside it in
    its session."""

    turn: TurnSummaryView
    inputs: list[TurnInputView]
    spans: list[TimelineSpan]
    deliveries: list[DeliveryDetail]
    more: bool
    previous: str | None = None
    next: str | None = None


class Downtime(msgspec.Struct, frozen=True, kw_only=True):
    stop: StopRow
    since: float
    until: float | None  # None: no process has continued yet
    exit_state: TurnExitState


def find_downtimes(timeline: TurnDetails) -> list[Downtime]:
    """Those that began within the steps of this page, in order."""
    until = timeline.steps[-1].finished_at if timeline.more and timeline.steps else None
    found = [_downtime(timeline, stop) for stop in timeline.stops]
    return [
        each
        for each in found
        if timeline.since <= each.since and (until is None or each.since < until)
    ]


def _downtime(timeline: TurnDetails, stop: StopRow) -> Downtime:
    """A crash is detected by the next process; it happened after the last activity."""
    detected_at = stop.stopped_at or stop.order.at
    since = detected_at
    if stop.order.kind is StopKind.CRASH:
        since = max(
            (at for at in _activity_times(timeline) if at <= detected_at), default=timeline.since
        )
    # A turn is resumed before its process is ready.
    activity = [at for at in _activity_times(timeline) if at > detected_at]
    back = [*activity, *([stop.ready_at] if stop.ready_at is not None else [])]
    return Downtime(
        stop=stop,
        since=since,
        until=min(back, default=None),
        exit_state=_exit_state(timeline, stop, since),
    )


def _activity_times(timeline: TurnDetails) -> list[float]:
    times = [timeline.since]
    for step in timeline.steps:
        times += [step.started_at, step.finished_at or step.started_at]
    return times


def _exit_state(timeline: TurnDetails, stop: StopRow, since: float) -> TurnExitState:
    waits = [
        asked
        for asked in timeline.approvals
        if asked.asked_at <= since and (asked.ended_at is None or asked.ended_at > since)
    ]
    if waits and not call_in_progress(timeline, since):
        return TurnExitState.WAITING
    if stop.order.kind is StopKind.CRASH:
        return TurnExitState.INTERRUPTED
    following = next(
        (s for s in timeline.steps if _last_activity(s) > max(since, stop.order.at)), None
    )
    if following is None:
        return _exit_state_by_mark(timeline, stop)
    noted = following.kind is StepKind.NOTE and following.usage == NO_USAGE
    settled = following.kind is StepKind.TOOL and following.started_at <= since
    return TurnExitState.INTERRUPTED if noted or settled else TurnExitState.PARKED


def _exit_state_by_mark(timeline: TurnDetails, stop: StopRow) -> TurnExitState:
    """Without later activity: the exit reason of the turn says it, else the stop row."""
    outline = timeline.outline
    if outline.turn.state is TurnRowState.OPEN and outline.exit_reason is not None:
        return (
            TurnExitState.PARKED
            if outline.exit_reason is TurnExitReason.PARKED
            else TurnExitState.INTERRUPTED
        )
    return (
        TurnExitState.PARKED if stop.parked and not stop.interrupted else TurnExitState.INTERRUPTED
    )


def call_in_progress(timeline: TurnDetails, at: float) -> bool:
    """Whether a tool call was running then."""
    return any(
        step.kind is StepKind.TOOL
        and step.started_at <= at
        and (step.finished_at is None or step.finished_at > at)
        for step in timeline.steps
    )


def _last_activity(step: StepSummary) -> float:
    return step.started_at if step.finished_at is None else step.finished_at


_MAX_COMMAND = 200  # characters of a command that waits for approval


def build_spans(timeline: TurnDetails, *, prices: Prices, running: bool) -> list[TimelineSpan]:
    """`running`: a process works on the turn now, so the time after the last step is a request to
    the model, unless a call runs or an approval is pending."""
    downtimes = find_downtimes(timeline)
    interrupted = [each for each in downtimes if each.exit_state is TurnExitState.INTERRUPTED]
    lost = [each for each in interrupted if not call_in_progress(timeline, each.since)]
    spans: list[TimelineSpan] = []
    free = timeline.since  # since when nothing of the turn runs
    for step in timeline.steps:
        begun = _step_start(step, free, downtimes)
        spans += _lost_requests(step, free, lost)
        spans.append(_step_span(step, begun, prices))
        free = max(free, step.finished_at or free)
    spans += [_approval_span(each) for each in timeline.approvals if _on_this_page(timeline, each)]
    spans += [_downtime_span(each) for each in downtimes]
    spans += [span for each in downtimes for span in _drain_spans(timeline, each)]
    begun = max([free, *(each.until for each in downtimes if each.until is not None)])
    spans += _unanswered_request(timeline, begun)
    if running and not timeline.more and all(span.ended_at is not None for span in spans):
        spans.append(TimelineSpan(kind=TimelineSpanKind.MODEL, started_at=begun, ended_at=None))
    return sorted(spans, key=lambda span: span.started_at)


def _step_start(step: StepSummary, free: float, downtimes: Sequence[Downtime]) -> float:
    """Only the end of a model reply is stored: the request began when everything before it was
    done. The same holds for a step that wrote a summary or described an image."""
    if step.kind is not StepKind.MODEL and not step.usage.output_tokens:
        return step.started_at
    back = [
        each.until for each in downtimes if each.until is not None and each.until <= step.started_at
    ]
    return min(step.started_at, max([free, *back]))


def _lost_requests(
    step: StepSummary, free: float, downtimes: Sequence[Downtime]
) -> list[TimelineSpan]:
    """The request to the model that was open when the process ended, and has no reply."""
    return [
        TimelineSpan(
            kind=TimelineSpanKind.MODEL,
            started_at=free,
            ended_at=each.since,
            outcome=ToolOutcome.CANCELLED,
        )
        for each in downtimes
        if free < each.since <= step.started_at
    ]


def _unanswered_request(timeline: TurnDetails, begun: float) -> list[TimelineSpan]:
    """The request that was open when the turn ended, or that made it fail. A turn that ended in a
    call has the result of that call from the same write; one that waited has its approval."""
    turn = timeline.outline.turn
    ended_at = turn.ended_at
    if timeline.more or ended_at is None or turn.state is TurnRowState.ANSWERED:
        return []
    waited = any(each.ended_at is None or each.ended_at >= ended_at for each in timeline.approvals)
    if waited or begun >= ended_at:
        return []
    outcome = ToolOutcome.ERROR if turn.state is TurnRowState.FAILED else ToolOutcome.CANCELLED
    return [
        TimelineSpan(
            kind=TimelineSpanKind.MODEL, started_at=begun, ended_at=ended_at, outcome=outcome
        )
    ]


def _step_span(step: StepSummary, begun: float, prices: Prices) -> TimelineSpan:
    price = find_price(step.model, prices) if step.model else None
    used = step.usage.input_tokens or step.usage.output_tokens
    return TimelineSpan(
        kind=TimelineSpanKind(step.kind.value),
        started_at=begun,
        ended_at=step.finished_at,
        name=step.model or step.tool,
        summary=step.summary,
        step=step.seq,
        record=step.message_seq,
        usage=step.usage if used else None,
        cost=None if price is None else price.cost_of(step.usage),
        call_id=step.call_id,
        outcome=step.outcome,
        exit_code=step.exit_code,
        recovery=step.recovery,
    )


def _approval_span(asked: Approval) -> TimelineSpan:
    return TimelineSpan(
        kind=TimelineSpanKind.APPROVAL,
        started_at=asked.asked_at,
        ended_at=asked.ended_at,
        name=asked.tool,
        summary=asked.command.partition("\n")[0][:_MAX_COMMAND],
        call_id=asked.call_id,
        approval=asked.id,
        decision=None if asked.pending else asked.state,
        by=asked.by,
    )


def _drain_spans(timeline: TurnDetails, downtime: Downtime) -> list[TimelineSpan]:
    """A parked turn waited at its step boundary, from the stop order or the end of its last step,
    until its process ended."""
    ends = [step.finished_at for step in timeline.steps if step.finished_at is not None]
    begun = max([downtime.stop.order.at, *(at for at in ends if at <= downtime.since)])
    if (
        downtime.exit_state is not TurnExitState.PARKED
        or call_in_progress(timeline, downtime.since)
        or begun >= downtime.since
    ):
        return []
    return [TimelineSpan(kind=TimelineSpanKind.DRAIN, started_at=begun, ended_at=downtime.since)]


def _downtime_span(downtime: Downtime) -> TimelineSpan:
    return TimelineSpan(
        kind=TimelineSpanKind.DOWNTIME,
        started_at=downtime.since,
        ended_at=downtime.until,
        name=downtime.stop.order.kind.value,
        by=downtime.stop.order.by.value,
        exit_state=downtime.exit_state,
    )


def _on_this_page(timeline: TurnDetails, asked: Approval) -> bool:
    """Whether it was asked among the steps of this page."""
    until = timeline.steps[-1].finished_at if timeline.more and timeline.steps else None
    return timeline.since <= asked.asked_at and (until is None or asked.asked_at < until)


Limit = Annotated[int, msgspec.Meta(ge=1, le=100)]
Steps = Annotated[int, msgspec.Meta(ge=1, le=1000)]
Seq = Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)]
Name = Annotated[str, msgspec.Meta(max_length=200)]


class TurnsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`before`: only turns that began before that one."""

    limit: Limit = 20
    before: Name = ""


class AllTurnsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`before`: only turns that are older than that one. `order`: `slowest` has, of the newest,
    those first that took longest."""

    limit: Limit = 20
    before: Name = ""
    state: Literal["", "open", "answered", "interrupted", "superseded", "failed"] = ""
    order: Literal["newest", "slowest"] = "newest"


class TimelineQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`after`: only what follows that step."""

    after: Seq = 0
    limit: Steps = 500


async def list_turns(context: ApiContext, call: ApiCall[TurnsQuery, None]) -> web.Response:
    row, asked = await context.find_session(call.path_param("id")), call.query
    before = TurnId(asked.before) if asked.before else None
    found = await context.store.read(
        ListTurns(session_id=row.id, limit=asked.limit + 1, before=before)
    )
    lines = [await _summary_view(context, outline) for outline in found[: asked.limit]]
    return context.respond(TurnList(turns=lines, more=len(found) > asked.limit))


async def list_all_turns(context: ApiContext, call: ApiCall[AllTurnsQuery, None]) -> web.Response:
    asked = call.query
    choice = TurnQuery(
        limit=asked.limit + 1,
        state=TurnRowState(asked.state) if asked.state else None,
        before=TurnId(asked.before) if asked.before else None,
        slowest=asked.order == "slowest",
    )
    found = await context.store.read(choice)
    lines = [await _list_item(context, outline) for outline in found[: asked.limit]]
    return context.respond(RecentTurns(turns=lines, more=len(found) > asked.limit))


async def read_turn(context: ApiContext, call: ApiCall[TimelineQuery, None]) -> web.Response:
    turn_id, asked = TurnId(call.path_param("id")), call.query
    details = await context.store.read(
        GetTurnDetails(turn_id=turn_id, after=asked.after, limit=asked.limit)
    )
    if details is None:
        raise not_found(
            "There is no turn {turn!r}; GET /api/v1/sessions/ID/turns lists them.", turn=turn_id
        )
    prices = context.gateway.settings.prices
    view = TimelineView(
        turn=await _summary_view(context, details.outline),
        inputs=[_turn_input(details, message) for message in details.inputs],
        spans=build_spans(details, prices=prices, running=_is_running(context, details)),
        deliveries=[delivery_detail(context, row) for row in details.deliveries],
        more=details.more,
        previous=details.previous,
        next=details.next,
    )
    return context.respond(view)


def _is_running(context: ApiContext, timeline: TurnDetails) -> bool:
    turn = timeline.outline.turn
    lane = context.gateway.lanes.get(turn.session_id)
    if lane is None or lane.state is not LaneState.RUNNING or lane.running_turn is None:
        return False
    return turn.ended_at is None and lane.running_turn.turn_id == turn.id


async def _list_item(context: ApiContext, summary: TurnOutline) -> TurnListItem:
    line = await _summary_view(context, summary)
    row = await context.shared_reads.session(summary.turn.session_id)
    platform = "" if row is None else platform_label(parse_route(row.route)[0])
    title = "" if row is None else row.title
    return TurnListItem(title=title, platform=platform, **msgspec.structs.asdict(line))


async def _summary_view(context: ApiContext, summary: TurnOutline) -> TurnSummaryView:
    turn = summary.turn
    return TurnSummaryView(
        id=turn.id,
        session_id=turn.session_id,
        state=turn.state,
        reason=turn.reason,
        started_at=turn.started_at,
        ended_at=turn.ended_at,
        steps=summary.steps,
        usage=summary.usage,
        cost=await _cost(context, turn.id),
        resumed=summary.resumed,
        exit_reason=summary.exit_reason,
        waiting_for_approval=turn.ended_at is None
        and _lane_state(context, turn.session_id) is LaneState.WAITING,
    )


def _lane_state(context: ApiContext, session_id: SessionId) -> LaneState | None:
    lane = context.gateway.lanes.get(session_id)
    return None if lane is None else lane.state


async def _cost(context: ApiContext, turn_id: TurnId) -> float | None:
    """Without prices no step is read."""
    prices = context.gateway.settings.prices
    return (
        usage_cost(await context.store.read(GetTurnUsageByModel(turn_id=turn_id)), prices)
        if prices
        else None
    )


def _turn_input(timeline: TurnDetails, message: TurnInput) -> TurnInputView:
    """A message that ended before its turn was a steer: it was taken when it ended."""
    turn = timeline.outline.turn
    steered = message.ended_at is not None and message.ended_at != turn.ended_at
    taken_at = message.ended_at if steered and message.ended_at else turn.started_at
    return TurnInputView(
        id=message.id,
        principal=message.principal,
        state=message.state,
        accepted_at=message.accepted_at,
        taken_at=taken_at,
        steered=steered,
    )


_SESSION = "/sessions/{id}"

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path=f"{_SESSION}/turns",
        summary="The turns of a conversation, the newest first.",
        handler=list_turns,
        read_only=True,
        reach=Reach.SESSION,
        query=TurnsQuery,
        response_type=TurnList,
    ),
    Endpoint(
        method="GET",
        path="/turns",
        summary="The turns of all conversations: the newest, those of a state, or the slowest.",
        handler=list_all_turns,
        read_only=True,
        query=AllTurnsQuery,
        response_type=RecentTurns,
    ),
    Endpoint(
        method="GET",
        path="/turns/{id}",
        summary="The timeline of a turn: its work, its waits and its interruptions.",
        handler=read_turn,
        read_only=True,
        query=TimelineQuery,
        response_type=TimelineView,
    ),
)

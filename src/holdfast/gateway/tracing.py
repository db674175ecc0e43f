"""OpenTelemetry spans of a message: acceptance, wait, turn with model and tool calls, delivery.

The root span of a trace is the acceptance, and all others are below it: also the trace of a message
whose process was killed shows where it began.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from holdfast.core.ids import CallId, DeliveryId, InboxId, SessionId, TurnId
from holdfast.core.messages.events import ToolEnded, ToolStarted, TurnEvent
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.outbox import Address, DeliveryState
from holdfast.core.messages.transcript import StopReason, ToolOutcome
from holdfast.core.ops.tracing import (
    AttributeValue,
    SpanContext,
    SpanExporter,
    SpanKind,
    TraceSpan,
    is_sampled,
    root_span_context,
    span_id_of,
)
from holdfast.core.people.approval import Approval
from holdfast.core.ports.command import Committed
from holdfast.core.ports.runtime import Clock, IdFactory
from holdfast.core.turns.model import Completed, ModelChoice
from holdfast.core.turns.subagent import platform_label
from holdfast.core.turns.turn import EndTurn, TurnRowState, Usage
from holdfast.gateway.committed import accepted_message
from holdfast.gateway.redaction import Redaction

_FAILED = frozenset({ToolOutcome.ERROR, ToolOutcome.UNKNOWN})
_FINISH_REASONS = {  # as OpenTelemetry's conventions name them
    StopReason.END: "stop",
    StopReason.TOOL_CALLS: "tool_call",
    StopReason.LENGTH: "length",
    StopReason.FILTERED: "content_filter",
    StopReason.STOPPED: "stop",
}
_MAX_NAME = 100


class TracedDelivery(Protocol):
    """The part of a queued delivery that its spans show."""

    @property
    def id(self) -> DeliveryId: ...
    @property
    def inbox_id(self) -> InboxId | None: ...
    @property
    def address(self) -> Address: ...
    @property
    def outcome_unknown(self) -> bool: ...


class MessageTracer:
    """Exports a span when what it describes is over. Owns since when each delivery is attempted."""

    def __init__(
        self,
        spans: SpanExporter,
        *,
        key: str,
        ratio: float,
        model: ModelChoice,
        clock: Clock,
        new_id: IdFactory,
        redact: Redaction,
    ) -> None:
        self.model = model
        self.redact = redact
        self.clock = clock
        self._spans = spans
        self._key = key
        self._ratio = ratio
        self._new_id = new_id
        self._tried_since: dict[DeliveryId, float] = {}

    def set_model(self, model: ModelChoice) -> None:
        """The model that spans name from now on, where a reply names none."""
        self.model = model

    def root_span(self, inbox_id: InboxId) -> SpanContext:
        return root_span_context(inbox_id, key=self._key)

    def child_span(self, inbox_id: InboxId) -> SpanContext:
        """The context for a new span in the trace of that message."""
        return SpanContext(self.root_span(inbox_id).trace_id, span_id_of(self._new_id("span")))

    def record(self, span: TraceSpan) -> None:
        if is_sampled(span.context.trace_id, ratio=self._ratio):
            self._spans.export(span)

    def on_committed(self, event: Committed) -> None:
        """A message was accepted."""
        if (accepted := accepted_message(event)) is None:
            return
        row = accepted.row
        source = row.inbound.source
        self.record(
            TraceSpan(
                context=self.root_span(row.id),
                parent=None,
                name=f"accept {platform_label(source.platform)}",
                kind=SpanKind.CONSUMER,
                began_at=row.accepted_at,
                ended_at=self.clock.now(),
                attributes={
                    "holdfast.inbox.id": row.id,
                    "holdfast.platform": platform_label(source.platform),
                    "holdfast.account": source.account,
                },
            )
        )

    def record_wait(self, rows: Sequence[InboxRow], *, until: float) -> None:
        """These messages have come to their turn."""
        for row in rows:
            self._record_child(row.id, "wait", began_at=row.accepted_at, ended_at=until)

    def record_approval_waits(self, inbox_id: InboxId, approvals: Sequence[Approval]) -> None:
        """A turn continues after these approvals have ended."""
        now = self.clock.now()
        for approval in approvals:
            attributes: dict[str, AttributeValue] = {
                "holdfast.approval.id": approval.id,
                "holdfast.approval.state": approval.state.value,
                "gen_ai.tool.name": approval.tool,
                "gen_ai.tool.call.id": approval.call_id,
            }
            self._record_child(
                inbox_id,
                "wait for approval",
                began_at=approval.asked_at,
                ended_at=approval.ended_at or now,
                attributes=attributes,
            )

    def delivery_queued(self, delivery: TracedDelivery) -> None:
        self._tried_since[delivery.id] = self.clock.now()

    def record_attempt(self, delivery: TracedDelivery, state: DeliveryState) -> None:
        """An attempt has ended in this state."""
        now = self.clock.now()
        since = self._tried_since.get(delivery.id, now)
        self._tried_since[delivery.id] = now
        if delivery.inbox_id is None:
            return
        self._record_child(
            delivery.inbox_id,
            f"deliver {platform_label(delivery.address.platform)}",
            kind=SpanKind.PRODUCER,
            began_at=since,
            ended_at=now,
            attributes={
                "holdfast.delivery.id": delivery.id,
                "holdfast.delivery.state": state.value,
                "holdfast.delivery.outcome_unknown": delivery.outcome_unknown,
                "holdfast.platform": platform_label(delivery.address.platform),
                "holdfast.account": delivery.address.account,
            },
            error="" if state is DeliveryState.SENT else state.value,
        )

    def delivery_done(self, delivery_id: DeliveryId) -> None:
        """There are no more attempts."""
        self._tried_since.pop(delivery_id, None)

    def _record_child(
        self,
        inbox_id: InboxId,
        name: str,
        *,
        began_at: float,
        ended_at: float,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Mapping[str, AttributeValue] | None = None,
        error: str = "",
    ) -> None:
        self.record(
            TraceSpan(
                context=self.child_span(inbox_id),
                parent=self.root_span(inbox_id).span_id,
                name=name,
                kind=kind,
                began_at=began_at,
                ended_at=ended_at,
                attributes=attributes or {},
                error=error,
            )
        )


class TurnTrace:
    """The trace of one turn in this process: one span with its model calls and tools below it. Owns
    the model call and the tools that run.

    It belongs to the trace of the message that the turn answers; merged messages are linked.
    """

    def __init__(
        self,
        tracer: MessageTracer,
        rows: Sequence[InboxRow],
        *,
        session_id: SessionId,
        turn_id: TurnId,
        resumed: bool,
    ) -> None:
        self._tracer = tracer
        self._rows = rows
        self._span_context = tracer.child_span(rows[-1].id)
        self._began_at = tracer.clock.now()
        self._session_id = session_id
        self._turn_id = turn_id
        self._resumed = resumed
        self._model_called_at: float | None = None
        self._tools: dict[CallId, tuple[str, float]] = {}
        self._closed = False

    def model_call_started(self) -> None:
        """The model is asked; a call that has not come back by then has failed."""
        self._fail_model_call("failed")
        self._model_called_at = self._tracer.clock.now()

    def model_call_completed(self, completed: Completed) -> None:
        message = completed.message
        reason = StopReason.TOOL_CALLS if message.calls else message.stop
        attributes = {
            **self._model_attributes(message.model),
            **_usage_attributes(completed.usage),
            "gen_ai.response.model": message.model or self._tracer.model.name,
            "gen_ai.response.finish_reasons": (_FINISH_REASONS[reason],),
        }
        self._model_call(attributes)

    def record_approval_waits(self, approvals: Sequence[Approval]) -> None:
        """The turn continues after it has waited for these."""
        self._tracer.record_approval_waits(self._rows[-1].id, approvals)

    def on_event(self, event: TurnEvent) -> None:
        if isinstance(event, ToolStarted):
            # A model may call what is not there by any name it likes.
            name = self._tracer.redact(event.name)[:_MAX_NAME]
            self._tools[event.call_id] = name, self._tracer.clock.now()
        elif isinstance(event, ToolEnded):
            self._tool_call(event.call_id, event.outcome.value, failed=event.outcome in _FAILED)

    def turn_ended(self, end: EndTurn) -> None:
        """That is durable."""
        failed = end.state is TurnRowState.FAILED
        self._close(
            end.state.value,
            ended_at=end.at,
            error=end.state.value if failed else "",
            usage=end.usage,
        )

    def turn_left(self, state: str) -> None:
        """This process runs no more of it."""
        self._close(state, ended_at=self._tracer.clock.now())

    def _close(
        self, state: str, *, ended_at: float, error: str = "", usage: Usage | None = None
    ) -> None:
        if self._closed:
            return
        self._closed = True
        self._fail_model_call(state)
        for call_id in list(self._tools):
            self._tool_call(call_id, state, failed=True)
        first, *merged = reversed(self._rows)
        self._tracer.record(
            TraceSpan(
                context=self._span_context,
                parent=self._tracer.root_span(first.id).span_id,
                name="invoke_agent holdfast",
                began_at=self._began_at,
                ended_at=ended_at,
                attributes={
                    "gen_ai.operation.name": "invoke_agent",
                    "gen_ai.agent.name": "holdfast",
                    "gen_ai.provider.name": self._tracer.model.provider,
                    "gen_ai.conversation.id": self._session_id,
                    "holdfast.turn.id": self._turn_id,
                    "holdfast.turn.state": state,
                    "holdfast.turn.resumed": self._resumed,
                    **(_usage_attributes(usage) if usage is not None else {}),
                },
                links=tuple(self._tracer.root_span(row.id) for row in merged),
                error=error,
            )
        )

    def _fail_model_call(self, why: str) -> None:
        if self._model_called_at is not None:
            self._model_call(self._model_attributes(""), error=why)

    def _model_call(self, attributes: Mapping[str, AttributeValue], *, error: str = "") -> None:
        now = self._tracer.clock.now()
        began_at, self._model_called_at = self._model_called_at, None
        name = f"chat {attributes['gen_ai.request.model']}"
        began_at = now if began_at is None else began_at
        self._record_span(name, attributes, kind=SpanKind.CLIENT, began_at=began_at, error=error)

    def _model_attributes(self, name: str) -> dict[str, AttributeValue]:
        return {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": self._tracer.model.provider,
            "gen_ai.request.model": name or self._tracer.model.name,
            "gen_ai.conversation.id": self._session_id,
        }

    def _tool_call(self, call_id: CallId, outcome: str, *, failed: bool) -> None:
        begun = self._tools.pop(call_id, None)
        if begun is None:
            return  # it was refused, and never ran
        name, began_at = begun
        attributes: dict[str, AttributeValue] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": call_id,
            "gen_ai.tool.type": "function",
            "holdfast.tool.outcome": outcome,
        }
        error = outcome if failed else ""
        self._record_span(f"execute_tool {name}", attributes, began_at=began_at, error=error)

    def _record_span(
        self,
        name: str,
        attributes: Mapping[str, AttributeValue],
        *,
        began_at: float,
        error: str,
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> None:
        self._tracer.record(
            TraceSpan(
                context=self._tracer.child_span(self._rows[-1].id),
                parent=self._span_context.span_id,
                name=name,
                kind=kind,
                began_at=began_at,
                ended_at=self._tracer.clock.now(),
                attributes=attributes,
                error=error,
            )
        )


def _usage_attributes(usage: Usage) -> dict[str, AttributeValue]:
    return {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
    }

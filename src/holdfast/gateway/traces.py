"""Traces: what happens to a message becomes spans, from its acceptance to its receipt."""

from collections.abc import Mapping, Sequence

from holdfast.core.ids import DeliveryId, InboxId
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.outbox import DeliveryState
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
from holdfast.core.ports.protocols import Clock, IdFactory
from holdfast.core.turns.model import ModelChoice
from holdfast.gateway.outbound.parcel import QueuedDelivery
from holdfast.gateway.redaction import Redaction


class MessageTracer:
    """Owns since when each delivery is tried; a span is made when what it tells of is over.

    The first span of a trace is the acceptance, and all others are below it: whoever reads the
    trace of a message that was cut has at least where it began.
    """

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

    def root_span(self, inbox_id: InboxId) -> SpanContext:
        return root_span_context(inbox_id, key=self._key)

    def child_span(self, inbox_id: InboxId) -> SpanContext:
        """The place of a span to be, in the trace of that message."""
        return SpanContext(self.root_span(inbox_id).trace_id, span_id_of(self._new_id("span")))

    def record(self, span: TraceSpan) -> None:
        if is_sampled(span.context.trace_id, ratio=self._ratio):
            self._spans.export(span)

    def record_accepted(self, row: InboxRow) -> None:
        """Its row is durable."""
        source = row.inbound.source
        self.record(
            TraceSpan(
                context=self.root_span(row.id),
                parent=None,
                name=f"accept {source.platform}",
                kind=SpanKind.CONSUMER,
                began_at=row.accepted_at,
                ended_at=self.clock.now(),
                attributes={
                    "holdfast.inbox.id": row.id,
                    "holdfast.platform": source.platform,
                    "holdfast.account": source.account,
                },
            )
        )

    def record_wait(self, rows: Sequence[InboxRow], *, until: float) -> None:
        """These messages have come to their turn."""
        for row in rows:
            self._record_child(row.id, "wait", began_at=row.accepted_at, ended_at=until)

    def record_approval_waits(self, inbox_id: InboxId, approvals: Sequence[Approval]) -> None:
        """A turn goes on, since these have ended."""
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

    def delivery_queued(self, delivery: QueuedDelivery) -> None:
        self._tried_since[delivery.id] = self.clock.now()

    def record_attempt(self, delivery: QueuedDelivery, state: DeliveryState) -> None:
        """An attempt is over, and this is known of it."""
        now = self.clock.now()
        since = self._tried_since.get(delivery.id, now)
        self._tried_since[delivery.id] = now
        if delivery.inbox_id is None:
            return
        self._record_child(
            delivery.inbox_id,
            f"deliver {delivery.address.platform}",
            kind=SpanKind.PRODUCER,
            began_at=since,
            ended_at=now,
            attributes={
                "holdfast.delivery.id": delivery.id,
                "holdfast.delivery.state": state.value,
                "holdfast.delivery.doubtful": delivery.outcome_unknown,
                "holdfast.platform": delivery.address.platform,
                "holdfast.account": delivery.address.account,
            },
            error="" if state is DeliveryState.SENT else state.value,
        )

    def delivery_done(self, delivery_id: DeliveryId) -> None:
        """It is tried no more."""
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
        place = self.child_span(inbox_id)
        self.record(
            TraceSpan(
                context=place,
                parent=self.root_span(inbox_id).span_id,
                name=name,
                kind=kind,
                began_at=began_at,
                ended_at=ended_at,
                attributes=attributes or {},
                error=error,
            )
        )

"""Traces: what happens to a message becomes spans, from its acceptance to its receipt."""

from collections.abc import Mapping, Sequence

from holdfast.core.ids import DeliveryId, InboxId
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.outbox import DeliveryState
from holdfast.core.ops.tracing import (
    Span,
    SpanKind,
    SpanPlace,
    Spans,
    Value,
    is_sampled,
    root_of,
    span_id,
)
from holdfast.core.people.approval import Approval
from holdfast.core.ports.protocols import Clock, NewId
from holdfast.core.turns.model import ModelChoice
from holdfast.gateway.outbound.parcel import Parcel
from holdfast.gateway.redaction import Redaction


class Traces:
    """Owns since when each delivery is tried; a span is made when what it tells of is over.

    The first span of a trace is the acceptance, and all others are below it: whoever reads the
    trace of a message that was cut has at least where it began.
    """

    def __init__(
        self,
        spans: Spans,
        *,
        key: str,
        ratio: float,
        model: ModelChoice,
        clock: Clock,
        new_id: NewId,
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

    def root(self, inbox_id: InboxId) -> SpanPlace:
        return root_of(inbox_id, key=self._key)

    def below(self, inbox_id: InboxId) -> SpanPlace:
        """The place of a span to be, in the trace of that message."""
        return SpanPlace(self.root(inbox_id).trace, span_id(self._new_id("span")))

    def tell(self, span: Span) -> None:
        if is_sampled(span.place.trace, ratio=self._ratio):
            self._spans.take(span)

    def accepted(self, row: InboxRow) -> None:
        """Its row is durable."""
        source = row.inbound.source
        self.tell(
            Span(
                place=self.root(row.id),
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

    def waited(self, rows: Sequence[InboxRow], *, until: float) -> None:
        """These messages have come to their turn."""
        for row in rows:
            self._below(row.id, "wait", began_at=row.accepted_at, ended_at=until)

    def waited_for_people(self, inbox_id: InboxId, approvals: Sequence[Approval]) -> None:
        """A turn goes on, since these have ended."""
        now = self.clock.now()
        for approval in approvals:
            attributes: dict[str, Value] = {
                "holdfast.approval.id": approval.id,
                "holdfast.approval.state": approval.state.value,
                "gen_ai.tool.name": approval.tool,
                "gen_ai.tool.call.id": approval.call_id,
            }
            self._below(
                inbox_id,
                "wait for approval",
                began_at=approval.asked_at,
                ended_at=approval.ended_at or now,
                attributes=attributes,
            )

    def owed(self, parcel: Parcel) -> None:
        self._tried_since[parcel.id] = self.clock.now()

    def settled(self, parcel: Parcel, state: DeliveryState) -> None:
        """An attempt is over, and this is known of it."""
        now = self.clock.now()
        since = self._tried_since.get(parcel.id, now)
        self._tried_since[parcel.id] = now
        if parcel.inbox_id is None:
            return
        self._below(
            parcel.inbox_id,
            f"deliver {parcel.address.platform}",
            kind=SpanKind.PRODUCER,
            began_at=since,
            ended_at=now,
            attributes={
                "holdfast.delivery.id": parcel.id,
                "holdfast.delivery.state": state.value,
                "holdfast.delivery.doubtful": parcel.doubtful,
                "holdfast.platform": parcel.address.platform,
                "holdfast.account": parcel.address.account,
            },
            error="" if state is DeliveryState.SENT else state.value,
        )

    def over(self, delivery_id: DeliveryId) -> None:
        """It is tried no more."""
        self._tried_since.pop(delivery_id, None)

    def _below(
        self,
        inbox_id: InboxId,
        name: str,
        *,
        began_at: float,
        ended_at: float,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Mapping[str, Value] | None = None,
        error: str = "",
    ) -> None:
        place = self.below(inbox_id)
        self.tell(
            Span(
                place=place,
                parent=self.root(inbox_id).span,
                name=name,
                kind=kind,
                began_at=began_at,
                ended_at=ended_at,
                attributes=attributes or {},
                error=error,
            )
        )

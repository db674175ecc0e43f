"""Traces: the way of a message as spans, independent of any wire format."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from hashlib import sha256
from typing import Protocol

import msgspec

from holdfast.core.ids import InboxId

AttributeValue = str | bool | int | float | Sequence[str]


class SpanKind(StrEnum):
    CONSUMER = "consumer"  # receives a message
    PRODUCER = "producer"  # sends a message
    CLIENT = "client"  # makes a request
    INTERNAL = "internal"


class SpanContext(msgspec.Struct, frozen=True, gc=False):
    """The ids of a span and of its trace."""

    trace_id: int  # 128 bits
    span_id: int  # 64 bits


class TraceSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A finished span. `error` is the kind of failure, "" on success. It never contains text that a
    person, a model or a tool wrote."""

    context: SpanContext
    parent: int | None  # None: the first of its trace
    name: str
    kind: SpanKind = SpanKind.INTERNAL
    began_at: float
    ended_at: float
    attributes: Mapping[str, AttributeValue]
    links: tuple[SpanContext, ...] = ()
    error: str = ""


class SpanExporter(Protocol):
    """Receives finished spans."""

    def export(self, span: TraceSpan) -> None:
        """Export a span. Never waits and never raises; a span that cannot be exported is
        dropped."""
        ...


def root_span_context(inbox_id: InboxId, *, key: str) -> SpanContext:
    """The first span of a message's trace. Every process of a gateway computes the same ids, so
    that work after a restart joins the trace. `key` distinguishes gateways."""
    digest = sha256(f"{key}:{inbox_id}".encode()).digest()
    return SpanContext(_number(digest[:16]), _number(digest[16:24]))


def span_id_of(name: str) -> int:
    """The span id of a name, which must be unique."""
    return _number(sha256(name.encode()).digest()[:8])


def is_sampled(trace: int, *, ratio: float) -> bool:
    """Decided by the trace id alone, so that all spans of a trace are kept or none, in every
    process."""
    return (trace & (2**64 - 1)) < ratio * 2**64


def _number(digest: bytes) -> int:
    return int.from_bytes(digest, "big") or 1  # zero means "none" in the wire format

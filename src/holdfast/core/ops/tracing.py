"""Traces: the path of a message as spans, independent of any wire format."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from hashlib import sha256
from typing import Protocol

import msgspec

from holdfast.core.ids import InboxId

AttributeValue = str | bool | int | float | Sequence[str]


class SpanKind(StrEnum):
    CONSUMER = "consumer"  # takes a message in
    PRODUCER = "producer"  # hands one out
    CLIENT = "client"  # asks somebody else
    INTERNAL = "internal"


class SpanContext(msgspec.Struct, frozen=True, gc=False):
    """Which span of which trace."""

    trace_id: int  # of 128 bits
    span_id: int  # of 64


class TraceSpan(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is over. `error`: the kind of failure; "": it went well. Text that a person,
    a model or a tool wrote is never in it."""

    context: SpanContext
    parent: int | None  # None: it is the first of its trace
    name: str
    kind: SpanKind = SpanKind.INTERNAL
    began_at: float
    ended_at: float
    attributes: Mapping[str, AttributeValue]
    links: tuple[SpanContext, ...] = ()
    error: str = ""


class SpanExporter(Protocol):
    """Where spans go."""

    def export(self, span: TraceSpan) -> None:
        """Never waits and never raises; what cannot be kept is dropped."""
        ...


def root_span_context(inbox_id: InboxId, *, key: str) -> SpanContext:
    """The first span of a message's trace, which every process of a gateway names alike: what goes
    on after a restart joins it. `key` tells gateways apart."""
    digest = sha256(f"{key}:{inbox_id}".encode()).digest()
    return SpanContext(_number(digest[:16]), _number(digest[16:24]))


def span_id_of(name: str) -> int:
    """For a span whose name is given to no other."""
    return _number(sha256(name.encode()).digest()[:8])


def is_sampled(trace: int, *, ratio: float) -> bool:
    """By the trace alone, so that all of a trace is kept or none, whoever asks and when."""
    return (trace & (2**64 - 1)) < ratio * 2**64


def _number(digest: bytes) -> int:
    return int.from_bytes(digest, "big") or 1  # zero means "none" where these are sent

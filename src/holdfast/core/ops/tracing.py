"""Tracing: the way of a message as spans, in nobody's wire format."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from hashlib import sha256
from typing import Protocol

import msgspec

from holdfast.core.ids import InboxId

Value = str | bool | int | float | Sequence[str]


class SpanKind(StrEnum):
    CONSUMER = "consumer"  # takes a message in
    PRODUCER = "producer"  # hands one out
    CLIENT = "client"  # asks somebody else
    INTERNAL = "internal"


class SpanPlace(msgspec.Struct, frozen=True, gc=False):
    """Which span of which trace."""

    trace: int  # of 128 bits
    span: int  # of 64


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is over. `error`: the kind of failure; "": it went well. Text that a person,
    a model or a tool wrote is never in it."""

    place: SpanPlace
    parent: int | None  # None: it is the first of its trace
    name: str
    kind: SpanKind = SpanKind.INTERNAL
    began_at: float
    ended_at: float
    attributes: Mapping[str, Value]
    links: tuple[SpanPlace, ...] = ()
    error: str = ""


class Spans(Protocol):
    """Where spans go."""

    def take(self, span: Span) -> None:
        """Never waits and never raises; what cannot be kept is dropped."""
        ...


def root_of(inbox_id: InboxId, *, key: str) -> SpanPlace:
    """The first span of a message's trace, which every process of a gateway names alike: what goes
    on after a restart joins it. `key` tells gateways apart."""
    digest = sha256(f"{key}:{inbox_id}".encode()).digest()
    return SpanPlace(_number(digest[:16]), _number(digest[16:24]))


def span_id(name: str) -> int:
    """For a span whose name is given to no other."""
    return _number(sha256(name.encode()).digest()[:8])


def is_sampled(trace: int, *, ratio: float) -> bool:
    """By the trace alone, so that all of a trace is kept or none, whoever asks and when."""
    return (trace & (2**64 - 1)) < ratio * 2**64


def _number(digest: bytes) -> int:
    return int.from_bytes(digest, "big") or 1  # zero means "none" where these are sent

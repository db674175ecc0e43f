"""The shapes of charts, as `/api/v1` gives them."""

import msgspec

from holdfast.core.turns.turn import Usage


class DurationView(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds that something took."""

    mean: float
    worst: float


class ChartPoint(msgspec.Struct, frozen=True, kw_only=True):
    """What happened in one stretch of time. `cost` is null where a model has no price; `lag` and
    `memory` are the worst of it, and 0 where nobody looked."""

    at: int
    accepted: int
    turns: int
    failed: int
    first_token: DurationView | None
    duration: DurationView | None
    usage: Usage
    cost: float | None
    hits: int
    misses: int
    lag: float
    memory: int


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """`per`: seconds of one point; a stretch in which the gateway did not run has none."""

    span: str
    since: int
    until: float
    bucket_seconds: int
    points: list[ChartPoint]

"""Statistics of a gateway: sums per minute for charts, histograms, and process totals."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

import msgspec

from holdfast.core.turns.turn import NO_USAGE, TurnRowState, Usage

MINUTE_SECONDS = 60


class DurationSum(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The sum of several durations, in seconds."""

    count: int = 0
    total: float = 0.0
    worst: float = 0.0

    @property
    def mean(self) -> float | None:
        return self.total / self.count if self.count else None

    def __add__(self, other: "DurationSum") -> "DurationSum":
        return DurationSum(
            count=self.count + other.count,
            total=self.total + other.total,
            worst=max(self.worst, other.worst),
        )


NO_DURATIONS = DurationSum()


class MinuteStats(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Sums of one minute, or of several that were added. `lag` and `memory` are maxima; 0: not
    measured."""

    at: int  # its start
    accepted: int = 0
    turns: int = 0  # ended turns
    failed: int = 0  # of those
    # From the start of a turn to its first token, and to its end if it was answered. Stored as
    # `first`, `whole` and `used`.
    first_token: DurationSum = msgspec.field(name="first", default=NO_DURATIONS)
    duration: DurationSum = msgspec.field(name="whole", default=NO_DURATIONS)
    usage_by_model: Mapping[str, Usage] = msgspec.field(name="used", default_factory=dict)
    hits: int = 0  # turns that found their agent in the cache
    misses: int = 0
    lag: float = 0.0  # of the event loop
    memory: int = 0  # resident bytes

    @property
    def idle(self) -> bool:
        """Whether nothing happened that a chart shows."""
        return not (self.accepted or self.turns)

    def __add__(self, other: "MinuteStats") -> "MinuteStats":
        return MinuteStats(
            at=min(self.at, other.at),
            accepted=self.accepted + other.accepted,
            turns=self.turns + other.turns,
            failed=self.failed + other.failed,
            first_token=self.first_token + other.first_token,
            duration=self.duration + other.duration,
            usage_by_model=sum_usage((self.usage_by_model, other.usage_by_model)),
            hits=self.hits + other.hits,
            misses=self.misses + other.misses,
            lag=max(self.lag, other.lag),
            memory=max(self.memory, other.memory),
        )


def sum_usage(usages: Iterable[Mapping[str, Usage]]) -> dict[str, Usage]:
    total: dict[str, Usage] = {}
    for by_model in usages:
        for model, usage in by_model.items():
            total[model] = total.get(model, NO_USAGE) + usage
    return total


def aggregate_minutes(minutes: Iterable[MinuteStats], *, per: int) -> Iterator[MinuteStats]:
    """Sums over `per` seconds each, of minutes in order. Empty periods are left out."""
    for start, group in groupby(minutes, key=lambda minute: minute.at - minute.at % per):
        total = MinuteStats(at=start)
        for minute in group:
            total += minute
        yield msgspec.structs.replace(total, at=start)


# Seconds: from a cached answer to half an hour of an agent's work.
BUCKET_BOUNDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)


class HistogramSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """`cumulative_counts`: how many took no longer than each of `BUCKET_BOUNDS`; `count`: all."""

    cumulative_counts: tuple[int, ...]
    count: int
    total: float  # seconds of them all


class Histogram:
    """Owns the counts since its creation. `add` is called in every turn; it costs one search among
    eleven bounds and two additions."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BUCKET_BOUNDS) + 1)
        self._total = 0.0

    def add(self, seconds: float) -> None:
        self._counts[bisect_left(BUCKET_BOUNDS, seconds)] += 1
        self._total += seconds

    def snapshot(self) -> HistogramSnapshot:
        counts = [sum(self._counts[: index + 1]) for index in range(len(BUCKET_BOUNDS))]
        return HistogramSnapshot(
            cumulative_counts=tuple(counts), count=sum(self._counts), total=self._total
        )


OTHER_MODELS = "(others)"


class ProcessTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Totals of a process since its start. `turns_by_state` has every end state of a turn,
    including those with a count of 0."""

    turns_by_state: Mapping[TurnRowState, int]
    first_token: HistogramSnapshot  # from the start of a turn
    duration: HistogramSnapshot  # of answered turns
    usage_by_model: Mapping[str, Usage]

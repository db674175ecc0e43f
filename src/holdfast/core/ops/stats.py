"""Statistics of a gateway: sums per minute for charts, histograms, and process totals."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

import msgspec

from holdfast.core.turns.turn import NO_USAGE, TurnState, Usage

MINUTE_SECONDS = 60


class DurationSum(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """How long something took, several times over, in seconds."""

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
    """Sums of one minute, or of several that were joined. `lag` and `memory` are the worst in it;
    0: nobody looked."""

    at: int  # when it began
    accepted: int = 0
    turns: int = 0  # that ended
    failed: int = 0  # of those
    # From the start of a turn to its first token, and to its end if it was answered. Stored as
    # `first`, `whole` and `used`.
    first_token: DurationSum = msgspec.field(name="first", default=NO_DURATIONS)
    duration: DurationSum = msgspec.field(name="whole", default=NO_DURATIONS)
    usage_by_model: Mapping[str, Usage] = msgspec.field(name="used", default_factory=dict)
    hits: int = 0  # turns that found their agent in the cache
    misses: int = 0
    lag: float = 0.0  # of the event loop
    memory: int = 0  # bytes that were resident

    @property
    def idle(self) -> bool:
        """Nothing happened in it that anybody would look for."""
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
    whole: dict[str, Usage] = {}
    for each in usages:
        for model, usage in each.items():
            whole[model] = whole.get(model, NO_USAGE) + usage
    return whole


def aggregate_minutes(minutes: Iterable[MinuteStats], *, per: int) -> Iterator[MinuteStats]:
    """Sums of `per` seconds each, of minutes that come in order. What has none is left out."""
    for start, group in groupby(minutes, key=lambda minute: minute.at - minute.at % per):
        whole = MinuteStats(at=start)
        for minute in group:
            whole += minute
        yield msgspec.structs.replace(whole, at=start)


# Seconds. From what a cache answers at once to what an agent works at for half an hour.
BUCKET_BOUNDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)


class HistogramSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """`within`: how many took no longer than each of `BOUNDS`; `count` has the others too."""

    cumulative_counts: tuple[int, ...]
    count: int
    total: float  # seconds of them all


class Histogram:
    """Owns the counts since it was made. To count one is a search among eleven bounds and two
    additions: this is on the way of every turn."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BUCKET_BOUNDS) + 1)
        self._total = 0.0

    def add(self, seconds: float) -> None:
        self._counts[bisect_left(BUCKET_BOUNDS, seconds)] += 1
        self._total += seconds

    def snapshot(self) -> HistogramSnapshot:
        within = [sum(self._counts[: place + 1]) for place in range(len(BUCKET_BOUNDS))]
        return HistogramSnapshot(
            cumulative_counts=tuple(within), count=sum(self._counts), total=self._total
        )


OTHER_MODELS = "(others)"


class ProcessTotals(msgspec.Struct, frozen=True, kw_only=True):
    """`ends` has every state that a turn can end in, also those that none has."""

    turns_by_state: Mapping[TurnState, int]
    first_token: HistogramSnapshot  # from the beginning of a turn to its first word
    duration: HistogramSnapshot  # from the beginning to the end of turns that were answered
    usage_by_model: Mapping[str, Usage]  # by model

"""Minutes: what a gateway did and how it was, one small sum for each, to be charted."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

import msgspec

from holdfast.core.turns.turn import NO_USAGE, Usage

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
    first_token: DurationSum = NO_DURATIONS  # from the beginning of a turn to the first word of it
    duration: DurationSum = (
        NO_DURATIONS  # from the beginning to the end of turns that were answered
    )
    usage_by_model: Mapping[str, Usage] = {}  # by model
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

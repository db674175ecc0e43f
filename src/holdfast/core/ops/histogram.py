"""A histogram: how long something took, many times over, by bounds that never change."""

from bisect import bisect_left

import msgspec

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

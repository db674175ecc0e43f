"""The pace: what the minutes of the last hour come to, in the few figures that fit on a line."""

from collections.abc import Sequence

from holdfast.core.ops.facts import HourStats
from holdfast.core.ops.minute import MINUTE_SECONDS, NO_DURATIONS, MinuteStats, sum_usage
from holdfast.core.turns.pricing import Prices, total_cost
from holdfast.core.turns.turn import NO_USAGE

HOUR = 60 * MINUTE_SECONDS


def hour_stats(minutes: Sequence[MinuteStats], *, now: float, prices: Prices) -> HourStats:
    """Of the minutes that ended within the last hour and the present one, in any order. The same
    minute may come twice: a restart divides it between two lives."""
    last = int(now) // MINUTE_SECONDS
    turns = [0] * (HOUR // MINUTE_SECONDS)
    for minute in minutes:
        back = last - minute.at // MINUTE_SECONDS
        if 0 <= back < len(turns):
            turns[-1 - back] += minute.turns
    first = sum((minute.first_token for minute in minutes), NO_DURATIONS)
    whole = sum((minute.duration for minute in minutes), NO_DURATIONS)
    used = sum_usage(minute.usage_by_model for minute in minutes)
    tokens = sum(used.values(), NO_USAGE)
    return HourStats(
        turns=tuple(turns),
        failed=sum(minute.failed for minute in minutes),
        first_token_mean=first.mean,
        first_token_worst=first.worst,
        duration_mean=whole.mean,
        duration_worst=whole.worst,
        input_tokens=tokens.input_tokens,
        cached_tokens=tokens.cached_tokens,
        output_tokens=tokens.output_tokens,
        cost=total_cost(used, prices),
    )

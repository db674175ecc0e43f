"""The pace: what the minutes of the last hour come to, in the few figures that fit on a line."""

from collections.abc import Sequence

from holdfast.core.ops.facts import PaceFacts
from holdfast.core.ops.minute import MINUTE, NONE, Minute, joined_usage
from holdfast.core.turns.pricing import Prices, cost
from holdfast.core.turns.turn import NO_USAGE

HOUR = 60 * MINUTE


def pace(minutes: Sequence[Minute], *, now: float, prices: Prices) -> PaceFacts:
    """Of the minutes that ended within the last hour and the present one, in any order. The same
    minute may come twice: a restart divides it between two lives."""
    last = int(now) // MINUTE
    turns = [0] * (HOUR // MINUTE)
    for minute in minutes:
        back = last - minute.at // MINUTE
        if 0 <= back < len(turns):
            turns[-1 - back] += minute.turns
    first = sum((minute.first for minute in minutes), NONE)
    whole = sum((minute.whole for minute in minutes), NONE)
    used = joined_usage(minute.used for minute in minutes)
    tokens = sum(used.values(), NO_USAGE)
    return PaceFacts(
        turns=tuple(turns),
        failed=sum(minute.failed for minute in minutes),
        first=first.mean,
        first_worst=first.worst,
        whole=whole.mean,
        whole_worst=whole.worst,
        input_tokens=tokens.input_tokens,
        cached_tokens=tokens.cached_tokens,
        output_tokens=tokens.output_tokens,
        cost=cost(used, prices),
    )

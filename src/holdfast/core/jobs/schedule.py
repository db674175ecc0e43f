"""When a job is due: by cron expression, by interval or at a date, in a time zone."""

from collections.abc import Iterator
from datetime import datetime, tzinfo
from itertools import islice, pairwise

import msgspec

from holdfast.core.errors import HoldfastError

_FIRST_WINDOW_SECONDS = (
    256  # seconds that are looked at first, where only the last due times are wanted
)
_MAX_DUE_TIMES = 100  # due times, among which the shortest gap is looked for
_MAX_GAP_SECONDS = 3 * 86400  # and they need not be looked for longer than this


class InvalidSchedule(HoldfastError):
    """Words that say no time; the text says what was understood of them."""


class Schedule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One of `cron`, `every` and `at` is set. Due times are whole seconds since the epoch."""

    text: str = msgspec.field(name="words")  # as it was asked for; stored as `words`
    cron: str = ""  # five fields
    every: int = 0  # seconds, counted from `start`
    start: int = 0
    at: int | None = None  # once
    zone: str = ""  # what a cron expression is read in; "": the machine's

    @property
    def description(self) -> str:
        """The words, and what they were taken for where they do not say it themselves."""
        if not self.cron:
            return self.text
        known = (self.cron, self.zone or "local time")
        more = [each for each in known if each.lower() not in self.text.lower()]
        return f"{self.text} ({', '.join(more)})" if more else self.text


def next_due(schedule: Schedule, after: float, zone: tzinfo) -> int | None:
    """The first due time later than `after`; None: there is none."""
    return next(_due_after(schedule, after, zone), None)


def first_due_times(schedule: Schedule, after: float, zone: tzinfo, *, limit: int) -> list[int]:
    return list(islice(_due_after(schedule, after, zone), limit))


def due_times(
    schedule: Schedule, *, first: int, until: float, limit: int, zone: tzinfo
) -> tuple[list[int], bool]:
    """The last `most` due times from `first`, which is one, to `until`; and whether there were
    more before those.

    Looked for backwards in growing windows: after a year of silence nobody wants to count every
    minute of it.
    """
    window = _FIRST_WINDOW_SECONDS
    while True:
        begin = max(first, int(until) - window)
        found = list(_until(_due_after(schedule, begin - 1, zone), until))
        if begin == first or len(found) > limit:
            return found[-limit:], len(found) > limit
        window *= 4


def shortest_gap(schedule: Schedule, after: float, zone: tzinfo) -> float | None:
    """Seconds between two due times that follow each other; None: days, or it is due once."""
    due = _due_after(schedule, after, zone)
    first = next(due, None)
    if first is None:
        return None
    times = [first, *islice(_until(due, first + _MAX_GAP_SECONDS), _MAX_DUE_TIMES)]
    return min((late - early for early, late in pairwise(times)), default=None)


def _until(times: Iterator[int], until: float) -> Iterator[int]:
    for at in times:
        if at > until:
            return
        yield at


def _due_after(schedule: Schedule, after: float, zone: tzinfo) -> Iterator[int]:
    if schedule.cron:
        yield from _cron_after(schedule.cron, after, zone)
    elif schedule.every:
        number = max(0, int((after - schedule.start) // schedule.every) + 1)
        while True:
            yield schedule.start + number * schedule.every
            number += 1
    elif schedule.at is not None and schedule.at > after:
        yield schedule.at


def _cron_after(expression: str, after: float, zone: tzinfo) -> Iterator[int]:
    """An hour that is there twice counts once for what names its hour, and one that is missing
    moves such a job to the first minute there is; what is due every hour goes by real time."""
    from cronsim import CronSim  # noqa: PLC0415 - most gateways have no job

    for moment in CronSim(expression, datetime.fromtimestamp(after, zone)):
        at = int(moment.timestamp())
        # In the second of two equal hours the expression would name a time of the first one.
        if at > after:
            yield at


def normalise_cron(expression: str) -> str:
    """The expression in five fields. Raises `InvalidSchedule` where it is none."""
    from cronsim import CronSim, CronSimError  # noqa: PLC0415 - most gateways have no job

    fields = expression.split()
    if len(fields) != 5:
        raise InvalidSchedule(
            f"a cron expression has five fields (minute hour day month weekday), and this has "
            f"{len(fields)}: {expression}"
        )
    try:
        CronSim(expression, datetime(2000, 1, 1))
    except CronSimError as error:
        raise InvalidSchedule(f"{expression!r} is no cron expression: {error}".lower()) from None
    return " ".join(fields)

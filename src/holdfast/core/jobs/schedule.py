"""When a job is due: by cron expression, by interval or at a date, in a time zone."""

from collections.abc import Iterator
from datetime import datetime, tzinfo
from itertools import islice, pairwise

import msgspec

from holdfast.core.errors import HoldfastError
from holdfast.core.text.translation import _

_FIRST_WINDOW_SECONDS = 256  # of the first search for the last due times
_MAX_DUE_TIMES = 100  # among which the shortest gap is searched
_MAX_GAP_SECONDS = 3 * 86400  # the search for it ends after this time


class JobError(HoldfastError):
    """An error in what a person or an agent wants of jobs. `hints` are further sentences."""

    def __init__(self, message: str, /, *hints: str, **values: object) -> None:
        super().__init__(message, **values)
        self._hints = tuple(filter(None, hints))

    def __str__(self) -> str:
        return " ".join([super().__str__(), *self._hints])

    def for_person(self) -> str:
        return " ".join([super().for_person(), *map(_, self._hints)])


class InvalidSchedule(JobError):
    """A schedule that cannot be understood; the text says what was understood."""


class Schedule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One of `cron`, `every` and `at` is set. Due times are whole seconds since the epoch."""

    text: str = msgspec.field(name="words")  # as it was requested; stored as `words`
    cron: str = ""  # five fields
    every: int = 0  # seconds, counted from `start`
    start: int = 0
    at: int | None = None  # once
    zone: str = ""  # the time zone of a cron expression; "": the machine's

    @property
    def description(self) -> str:
        """The requested text, with the cron expression and time zone that it does not contain, in
        the language of the context."""
        if not self.cron:
            return self.text
        known = (self.cron, self.zone or _("local time"))
        more = [each for each in known if each.lower() not in self.text.lower()]
        return f"{self.text} ({', '.join(more)})" if more else self.text


def next_due(schedule: Schedule, after: float, zone: tzinfo) -> int | None:
    """The first due time after `after`; None: there is none."""
    return next(_due_after(schedule, after, zone), None)


def first_due_times(schedule: Schedule, after: float, zone: tzinfo, *, limit: int) -> list[int]:
    return list(islice(_due_after(schedule, after, zone), limit))


def due_times(
    schedule: Schedule, *, first: int, until: float, limit: int, zone: tzinfo
) -> tuple[list[int], bool]:
    """The last `limit` due times from `first`, which is one, to `until`; and whether there were
    more before those.

    Searched backwards in growing windows, so that a long pause of a frequent job is not counted
    minute by minute.
    """
    window = _FIRST_WINDOW_SECONDS
    while True:
        begin = max(first, int(until) - window)
        found = list(_until(_due_after(schedule, begin - 1, zone), until))
        if begin == first or len(found) > limit:
            return found[-limit:], len(found) > limit
        window *= 4


def shortest_gap(schedule: Schedule, after: float, zone: tzinfo) -> float | None:
    """The least seconds between two consecutive due times; None: days, or it is due once."""
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
    """When the clock is set back, a job at a fixed hour is due once in the repeated hour. When it
    is set forward, a job in the skipped hour is due at the next existing minute. Hourly jobs follow
    real time."""
    from cronsim import CronSim  # noqa: PLC0415 - most gateways have no job

    for moment in CronSim(expression, datetime.fromtimestamp(after, zone)):
        at = int(moment.timestamp())
        # In the second of two equal hours the expression would name a time of the first one.
        if at > after:
            yield at


def normalise_cron(expression: str) -> str:
    """The expression in five fields. Raises `InvalidSchedule` if it is not valid."""
    from cronsim import CronSim, CronSimError  # noqa: PLC0415 - most gateways have no job

    fields = expression.split()
    if len(fields) != 5:
        raise InvalidSchedule(
            "A cron expression has five fields (minute hour day month weekday); this one has "
            "{count}: {expression}",
            count=len(fields),
            expression=expression,
        )
    try:
        CronSim(expression, datetime(2000, 1, 1))
    except CronSimError as error:
        raise InvalidSchedule(
            "{expression!r} is not a valid cron expression: {error}",
            expression=expression.lower(),
            error=str(error).lower(),
        ) from None
    return " ".join(fields)

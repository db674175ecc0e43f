"""Times as people write them: a small grammar, from words to a schedule."""

import re
from datetime import datetime, timedelta, tzinfo

from holdfast.core.jobs.schedule import BadSchedule, Schedule, check_cron
from holdfast.core.jobs.time_words import (
    EXAMPLES,
    LONGEST,
    TIME,
    UNITS,
    Words,
    take_duration,
    take_time,
)

_ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_DAY_NAMES = r"(?:sun|mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?)(?:days?)?"
_ADVERBS = {"hourly": "hour", "daily": "day", "weekly": "week", "monthly": "month"}

_ZONE = re.compile(r"\s+in\s+([A-Z][\w+-]*(?:/[\w+-]+)+|UTC)\s*$")
_CRON = re.compile(r"[\d*][\d*/,-]*(?:\s+[\w*/,#-]+){4}")
_STARS = re.compile(r"[\d*/,#-]+(?:\s+[\d*/,#-]+)+")  # no words at all: cron was meant
_AND = re.compile(r"\s*(?:,\s*and|,|and|&)\s*")
_DATE = re.compile(r"(?:at |on )?(\d{4})-(\d{1,2})-(\d{1,2})(?:t|\s+at\s+|\s+)?")
_MONTH_DAY = re.compile(r"(?:the )?(?:(\d{1,2})(?:st|nd|rd|th)?|(last day))\b")


def split_zone(text: str) -> tuple[str, str]:
    """The words without the time zone that they end with, and its name; "": none."""
    found = _ZONE.search(text)
    return (text[: found.start()], found[1]) if found else (text, "")


def parse_schedule(text: str, *, now: float, zone: tzinfo, zone_name: str) -> Schedule:
    """Raises `BadSchedule`, which says what was understood."""
    words, said = Words(text), " ".join(text.split())
    if not words.text:
        raise BadSchedule(f"It is not said when. {EXAMPLES}")
    if (cron := _cron(words)) is not None:
        return Schedule(words=said, cron=cron, zone=zone_name)
    if words.take(r"in\b"):
        return Schedule(words=said, at=int(now) + take_duration(words), zone=zone_name)
    if words.take(r"(?:every|each)\b") or words.rest.split()[0] in _ADVERBS:
        return _recurring(words, said, now=now, zone_name=zone_name)
    if days := _days(words, plural=True):
        return Schedule(words=said, cron=_at_times(words, days=days), zone=zone_name)
    at = _moment(words, now=now, zone=zone)
    if at <= now:
        raise BadSchedule(f"“{said}” is past. {EXAMPLES}")
    if at > now + LONGEST:
        raise BadSchedule(f"“{said}” is more than ten years away.")
    return Schedule(words=said, at=at, zone=zone_name)


def _cron(words: Words) -> str | None:
    if words.text.startswith("@"):
        if words.text in _ALIASES:
            return _ALIASES[words.text]
        raise words.lost(f"There are {', '.join(_ALIASES)}.")
    meant = _CRON.fullmatch(words.text) or ("*" in words.text and _STARS.fullmatch(words.text))
    return check_cron(words.text) if meant else None


def _recurring(words: Words, said: str, *, now: float, zone_name: str) -> Schedule:
    """Behind the word "every", or at an adverb that stands for it."""
    adverb = words.take("|".join(_ADVERBS))
    if days := _days(words):
        return Schedule(words=said, cron=_at_times(words, days=days), zone=zone_name)
    unit = _ADVERBS[adverb[0]] if adverb else _single(words)
    if unit is None:
        every = take_duration(words)
        return Schedule(words=said, every=every, start=int(now), zone=zone_name)
    if not words.rest and unit != "month":
        seconds = UNITS[unit[0]]
        return Schedule(words=said, every=seconds, start=int(now), zone=zone_name)
    return Schedule(words=said, cron=_of_unit(words, unit), zone=zone_name)


def _single(words: Words) -> str | None:
    found = words.take(r"(minute|hour|day|week|month)\b")
    return found[1] if found else None


def _of_unit(words: Words, unit: str) -> str:
    """What stands behind "every hour", "every day", "every week" or "every month"."""
    if unit == "hour":
        minute = words.take(r"at (?:minute )?:?([0-5]?\d)$")
        if minute is None:
            raise words.lost("Say at which minute: every hour at :15.")
        return f"{int(minute[1])} * * * *"
    if unit == "month":
        return _at_times(words, month_days=_month_days(words))
    if unit == "week":
        return _at_times(words, days=_week_days(words))
    if unit == "day":
        return _at_times(words)
    raise words.lost()


def _week_days(words: Words) -> str:
    words.take(r"on\b")
    if days := _days(words):
        return days
    raise words.lost("Say on which day: every week on monday at 9.")


def _month_days(words: Words) -> str:
    words.take(r"on\b")
    days: list[str] = []
    while (found := words.take(_MONTH_DAY)) is not None:
        days.append("L" if found[2] else str(int(found[1])))
        if not words.take(_AND):
            break
    if not days or any(day != "L" and not 1 <= int(day) <= 31 for day in days):
        raise words.lost("Say on which day: every month on the 1st at 9, or on the last day.")
    return ",".join(days)


def _days(words: Words, *, plural: bool = False) -> str:
    """The days of the week as cron writes them; "": no day stands here. `plural`: only those
    that mean every one of them ("mondays")."""
    if words.take(r"weekdays\b" if plural else r"weekdays?\b"):
        return "1-5"
    if words.take(r"weekends\b" if plural else r"weekends?\b"):
        return "0,6"
    days: list[str] = []
    while (found := words.take(rf"({_DAY_NAMES})\b")) is not None:
        if plural and not found[1].endswith("days"):
            words.place = 0
            return ""
        days.append(str(_DAYS.index(found[1][:3])))
        if not words.take(_AND):
            break
    return ",".join(days)


def _at_times(words: Words, *, days: str = "*", month_days: str = "*") -> str:
    """The cron expression of "at 9", or of "at 9, 12 and 18"."""
    words.take(r"at\b")
    times = [take_time(words)]
    while words.take(_AND):
        times.append(take_time(words))
    if words.rest:
        raise words.lost()
    minutes = {minute for _, minute in times}
    if len(minutes) > 1:
        raise words.lost("Several times of one job need the same minute; make two jobs of it.")
    hours = ",".join(str(hour) for hour in sorted({hour for hour, _ in times}))
    return check_cron(f"{minutes.pop()} {hours} {month_days} * {days}")


def _moment(words: Words, *, now: float, zone: tzinfo) -> int:
    """A point in time that comes once."""
    today = datetime.fromtimestamp(now, zone)
    if date := words.take(_DATE):
        year, month, day = map(int, date.groups())
        return _moment_of(words, (year, month, day), zone)
    if named := words.take(r"(?:on )?(today|tomorrow)\b"):
        day_ = today + timedelta(days=named[1] == "tomorrow")
        words.take(r"at\b")
        return _moment_of(words, (day_.year, day_.month, day_.day), zone)
    if named := words.take(rf"(?:on )?({_DAY_NAMES})\b"):
        ahead = (_DAYS.index(named[1][:3]) - today.isoweekday()) % 7
        return _next_such(words, today, ahead=ahead, step=7, zone=zone)
    words.take(r"at\b")
    if not TIME.match(words.rest):
        raise words.lost()
    return _next_such(words, today, ahead=0, step=1, zone=zone)


def _next_such(words: Words, today: datetime, *, ahead: int, step: int, zone: tzinfo) -> int:
    words.take(r"at\b")
    place = words.place
    for days in (ahead, ahead + step):
        words.place = place
        day = today + timedelta(days=days)
        at = _moment_of(words, (day.year, day.month, day.day), zone)
        if at > today.timestamp():
            return at
    raise words.lost()


def _moment_of(words: Words, date: tuple[int, int, int], zone: tzinfo) -> int:
    hour, minute = take_time(words)
    offset = words.take(r"(z|[+-]\d{2}:?\d{2})$")
    if words.rest:
        raise words.lost()
    try:
        if offset is not None:
            zone = datetime.strptime(offset[1].upper(), "%z").tzinfo or zone
        return int(datetime(*date, hour, minute, tzinfo=zone).timestamp())
    except (ValueError, OverflowError) as error:
        raise BadSchedule(f"“{words.text}” is no date: {error}. {EXAMPLES}") from None

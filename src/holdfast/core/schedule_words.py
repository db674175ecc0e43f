"""Times as people write them: a small grammar, from words to a schedule."""

import re
from datetime import datetime, timedelta, tzinfo

from holdfast.core.schedule import BadSchedule, Schedule, check_cron

EXAMPLES = (
    'Write for example "every weekday at 9", "every 10 minutes", "every month on the 1st at 8:30", '
    '"tomorrow at 18:00", "in 2 hours", "2026-12-01 09:00" or a cron expression "0 9 * * 1-5".'
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
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_LONGEST = 3650 * 86400
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_DAY_NAMES = r"(?:sun|mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?)(?:days?)?"
_ADVERBS = {"hourly": "hour", "daily": "day", "weekly": "week", "monthly": "month"}

_ZONE = re.compile(r"\s+in\s+([A-Z][\w+-]*(?:/[\w+-]+)+|UTC)\s*$")
_CRON = re.compile(r"[\d*][\d*/,-]*(?:\s+[\w*/,#-]+){4}")
_PART = re.compile(
    r"(?P<number>\d{1,6}|an?|half an)\s*"
    r"(?P<unit>s|m|h|d|w)(?:ec(?:ond)?s?|in(?:ute)?s?|(?:ou)?rs?|ays?|eeks?)?\b(?:\s*(?:,|and)\s*)?"
)
_TIME = re.compile(r"(\d{1,2})(?::(\d{2})(?::\d{2})?)?\s*(am|pm)?(?![a-y\d:])|noon\b|midnight\b")
_AND = re.compile(r"\s*(?:,\s*and|,|and|&)\s*")
_DATE = re.compile(r"(?:at |on )?(\d{4})-(\d{1,2})-(\d{1,2})(?:t|\s+at\s+|\s+)?")
_MONTH_DAY = re.compile(r"(?:the )?(?:(\d{1,2})(?:st|nd|rd|th)?|(last day))\b")


class _Words:
    """Owns how far a text is understood."""

    def __init__(self, text: str) -> None:
        self.text = " ".join(text.lower().split())
        self.place = 0

    @property
    def rest(self) -> str:
        return self.text[self.place :]

    def take(self, pattern: str | re.Pattern[str]) -> re.Match[str] | None:
        """What stands next, if it is that; with the spaces behind it."""
        found = re.compile(pattern).match(self.text, self.place)
        if found is not None:
            self.place = len(self.text) - len(self.text[found.end() :].lstrip())
        return found

    def lost(self, wanted: str = "") -> BadSchedule:
        understood = self.text[: self.place].strip()
        if not understood:
            told = f"I do not understand “{self.rest}”."
        elif self.rest:
            told = f"I understood “{understood}”, but not “{self.rest}”."
        else:
            told = f"I understood “{understood}”, and there it ends."
        return BadSchedule(" ".join(filter(None, (told, wanted, EXAMPLES))))


def split_zone(text: str) -> tuple[str, str]:
    """The words without the time zone that they end with, and its name; "": none."""
    found = _ZONE.search(text)
    return (text[: found.start()], found[1]) if found else (text, "")


def parse_schedule(text: str, *, now: float, zone: tzinfo, zone_name: str) -> Schedule:
    """Raises `BadSchedule`, which says what was understood."""
    words, said = _Words(text), " ".join(text.split())
    if not words.text:
        raise BadSchedule(f"It is not said when. {EXAMPLES}")
    if (cron := _cron(words)) is not None:
        return Schedule(words=said, cron=cron, zone=zone_name)
    if words.take(r"in\b"):
        return Schedule(words=said, at=int(now) + _duration(words), zone=zone_name)
    if words.take(r"(?:every|each)\b") or words.rest.split()[0] in _ADVERBS:
        return _recurring(words, said, now=now, zone_name=zone_name)
    if days := _days(words, plural=True):
        return Schedule(words=said, cron=_at_times(words, days=days), zone=zone_name)
    at = _moment(words, now=now, zone=zone)
    if at <= now:
        raise BadSchedule(f"“{said}” is past. {EXAMPLES}")
    return Schedule(words=said, at=at, zone=zone_name)


def parse_duration(text: str) -> int:
    """Seconds; "90m", "1 hour 30 minutes", "2d"."""
    return _duration(_Words(text))


def _cron(words: _Words) -> str | None:
    if words.text.startswith("@"):
        if words.text in _ALIASES:
            return _ALIASES[words.text]
        raise words.lost(f"There are {', '.join(_ALIASES)}.")
    return check_cron(words.text) if _CRON.fullmatch(words.text) else None


def _duration(words: _Words) -> int:
    total = 0.0
    while words.rest:
        part = words.take(_PART)
        if part is None:
            raise words.lost("A span of time is a number and a unit: 20 minutes, 2 hours, 3 days.")
        total += _span(part)
    if total < 1:
        raise words.lost("Say how long: 20 minutes, 2 hours, 3 days.")
    if total > _LONGEST:
        raise BadSchedule(f"“{words.text}” is more than ten years.")
    return int(total)


def _span(part: re.Match[str]) -> float:
    number = {"a": 1.0, "an": 1.0, "half an": 0.5}.get(part["number"])
    return (float(part["number"]) if number is None else number) * _UNITS[part["unit"]]


def _recurring(words: _Words, said: str, *, now: float, zone_name: str) -> Schedule:
    """Behind the word "every", or at an adverb that stands for it."""
    adverb = words.take("|".join(_ADVERBS))
    if days := _days(words):
        return Schedule(words=said, cron=_at_times(words, days=days), zone=zone_name)
    unit = _ADVERBS[adverb[0]] if adverb else _single(words)
    if unit is None:
        every = _duration(words)
        return Schedule(words=said, every=every, start=int(now), zone=zone_name)
    if not words.rest and unit != "month":
        seconds = _UNITS[unit[0]]
        return Schedule(words=said, every=seconds, start=int(now), zone=zone_name)
    return Schedule(words=said, cron=_of_unit(words, unit), zone=zone_name)


def _single(words: _Words) -> str | None:
    found = words.take(r"(minute|hour|day|week|month)\b")
    return found[1] if found else None


def _of_unit(words: _Words, unit: str) -> str:
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


def _week_days(words: _Words) -> str:
    words.take(r"on\b")
    if days := _days(words):
        return days
    raise words.lost("Say on which day: every week on monday at 9.")


def _month_days(words: _Words) -> str:
    words.take(r"on\b")
    days: list[str] = []
    while (found := words.take(_MONTH_DAY)) is not None:
        days.append("L" if found[2] else str(int(found[1])))
        if not words.take(_AND):
            break
    if not days or any(day != "L" and not 1 <= int(day) <= 31 for day in days):
        raise words.lost("Say on which day: every month on the 1st at 9, or on the last day.")
    return ",".join(days)


def _days(words: _Words, *, plural: bool = False) -> str:
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


def _at_times(words: _Words, *, days: str = "*", month_days: str = "*") -> str:
    """The cron expression of "at 9", or of "at 9, 12 and 18"."""
    words.take(r"at\b")
    times = [_time(words)]
    while words.take(_AND):
        times.append(_time(words))
    if words.rest:
        raise words.lost()
    minutes = {minute for _, minute in times}
    if len(minutes) > 1:
        raise words.lost("Several times of one job need the same minute; make two jobs of it.")
    hours = ",".join(str(hour) for hour in sorted({hour for hour, _ in times}))
    return check_cron(f"{minutes.pop()} {hours} {month_days} * {days}")


def _time(words: _Words) -> tuple[int, int]:
    found = words.take(_TIME)
    if found is None:
        raise words.lost("Say at what time: at 9, at 18:30, at 7am, at noon.")
    if found[0] in ("noon", "midnight"):
        return (12 if found[0] == "noon" else 0), 0
    hour, minute, half = int(found[1]), int(found[2] or 0), found[3]
    if half is not None and 1 <= hour <= 12:
        hour = hour % 12 + (12 if half == "pm" else 0)
    elif half is not None:
        hour = 24  # 13pm
    if hour > 23 or minute > 59:
        raise BadSchedule(f"“{found[0].strip()}” is no time of day. {EXAMPLES}")
    return hour, minute


def _moment(words: _Words, *, now: float, zone: tzinfo) -> int:
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
    if not _TIME.match(words.rest):
        raise words.lost()
    return _next_such(words, today, ahead=0, step=1, zone=zone)


def _next_such(words: _Words, today: datetime, *, ahead: int, step: int, zone: tzinfo) -> int:
    words.take(r"at\b")
    place = words.place
    for days in (ahead, ahead + step):
        words.place = place
        day = today + timedelta(days=days)
        at = _moment_of(words, (day.year, day.month, day.day), zone)
        if at > today.timestamp():
            return at
    raise words.lost()


def _moment_of(words: _Words, date: tuple[int, int, int], zone: tzinfo) -> int:
    hour, minute = _time(words)
    offset = words.take(r"(z|[+-]\d{2}:?\d{2})$")
    if words.rest:
        raise words.lost()
    try:
        if offset is not None:
            zone = datetime.strptime(offset[1].upper(), "%z").tzinfo or zone
        return int(datetime(*date, hour, minute, tzinfo=zone).timestamp())
    except ValueError as error:
        raise BadSchedule(f"“{words.text}” is no date: {error}. {EXAMPLES}") from None

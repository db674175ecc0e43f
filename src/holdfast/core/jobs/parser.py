"""Parses what people type about jobs: durations, times and schedules in words, and `/cron add`."""

import re
from datetime import datetime, timedelta, tzinfo
from enum import StrEnum
from typing import TypeVar

from holdfast.core.jobs.job import (
    JobRefused,
    JobRequest,
    MissedRunPolicy,
    OverlapPolicy,
    RunSession,
)
from holdfast.core.jobs.schedule import InvalidSchedule, Schedule, normalise_cron
from holdfast.core.text.translation import N_

SCHEDULE_EXAMPLES = N_(
    'Write for example "every weekday at 9", "every 10 minutes", "every month on the 1st at 8:30", '
    '"tomorrow at 18:00", "in 2 hours", "2026-12-01 09:00" or a cron expression "0 9 * * 1-5".'
)
MAX_DURATION = 3650 * 86400
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_DURATION_PART = re.compile(
    r"(?P<number>\d{1,6}|an?|half an)\s*"
    r"(?P<unit>s|m|h|d|w)(?:ec(?:ond)?s?|in(?:ute)?s?|(?:ou)?rs?|ays?|eeks?)?\b(?:\s*(?:,|and)\s*)?"
)
TIME = re.compile(r"(\d{1,2})(?::(\d{2})(?::\d{2})?)?\s*(am|pm)?(?![a-y\d:])|noon\b|midnight\b")


class TextScanner:
    """Reads a text from left to right. Owns the position up to which it is understood."""

    def __init__(self, text: str) -> None:
        self.text = " ".join(text.lower().split())
        self.position = 0

    @property
    def rest(self) -> str:
        return self.text[self.position :]

    def match(self, pattern: str | re.Pattern[str]) -> re.Match[str] | None:
        """The pattern at the current position, which moves past it and the spaces behind it."""
        found = re.compile(pattern).match(self.text, self.position)
        if found is not None:
            self.position = len(self.text) - len(self.text[found.end() :].lstrip())
        return found

    def error(self, hint: str = "") -> InvalidSchedule:
        """`hint`: a marked sentence on what is expected here."""
        understood, rest = self.text[: self.position].strip(), self.rest
        if not understood:
            return InvalidSchedule(
                "I do not understand “{rest}”.", hint, SCHEDULE_EXAMPLES, rest=rest
            )
        if not rest:
            return InvalidSchedule(
                "I understood “{understood}”, but that is not a schedule yet.",
                hint,
                SCHEDULE_EXAMPLES,
                understood=understood,
            )
        return InvalidSchedule(
            "I understood “{understood}”, but not “{rest}”.",
            hint,
            SCHEDULE_EXAMPLES,
            understood=understood,
            rest=rest,
        )


def parse_duration(text: str) -> int:
    """Seconds; "90m", "1 hour 30 minutes", "2d"."""
    return scan_duration(TextScanner(text))


def scan_duration(scanner: TextScanner) -> int:
    total = 0.0
    while scanner.rest:
        part = scanner.match(_DURATION_PART)
        if part is None:
            raise scanner.error(
                N_("A duration is a number and a unit: 20 minutes, 2 hours, 3 days.")
            )
        total += _part_seconds(part)
    if total < 1:
        raise scanner.error(N_("Give a duration: 20 minutes, 2 hours, 3 days."))
    if total > MAX_DURATION:
        raise InvalidSchedule("“{text}” is more than ten years.", text=scanner.text)
    return int(total)


def _part_seconds(part: re.Match[str]) -> float:
    number = {"a": 1.0, "an": 1.0, "half an": 0.5}.get(part["number"])
    return (float(part["number"]) if number is None else number) * UNITS[part["unit"]]


def scan_time(scanner: TextScanner) -> tuple[int, int]:
    found = scanner.match(TIME)
    if found is None:
        raise scanner.error(N_("Give a time: at 9, at 18:30, at 7am, at noon."))
    if found[0] in ("noon", "midnight"):
        return (12 if found[0] == "noon" else 0), 0
    hour, minute, half = int(found[1]), int(found[2] or 0), found[3]
    if half is not None and 1 <= hour <= 12:
        hour = hour % 12 + (12 if half == "pm" else 0)
    elif half is not None:
        hour = 24  # 13pm
    if hour > 23 or minute > 59:
        raise InvalidSchedule(
            "“{text}” is not a time of day.", SCHEDULE_EXAMPLES, text=found[0].strip()
        )
    return hour, minute


_ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_ALIASES_HINT = N_(
    "Known are @hourly, @daily, @midnight, @weekly, @monthly, @yearly and @annually."
)
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_DAY_NAMES = r"(?:sun|mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?)(?:days?)?"
_ADVERBS = {"hourly": "hour", "daily": "day", "weekly": "week", "monthly": "month"}

_ZONE = re.compile(r"\s+in\s+([A-Z][\w+-]*(?:/[\w+-]+)+|UTC)\s*$")
_CRON = re.compile(r"[\d*][\d*/,-]*(?:\s+[\w*/,#-]+){4}")
_CRON_LIKE = re.compile(r"[\d*/,#-]+(?:\s+[\d*/,#-]+)+")  # no words at all: cron was meant
_AND = re.compile(r"\s*(?:,\s*and|,|and|&)\s*")
_DATE = re.compile(r"(?:at |on )?(\d{4})-(\d{1,2})-(\d{1,2})(?:t|\s+at\s+|\s+)?")
_MONTH_DAY = re.compile(r"(?:the )?(?:(\d{1,2})(?:st|nd|rd|th)?|(last day))\b")


def split_zone(text: str) -> tuple[str, str]:
    """The text without a time zone at its end, and the name of that zone; "": none."""
    found = _ZONE.search(text)
    return (text[: found.start()], found[1]) if found else (text, "")


def parse_schedule(text: str, *, now: float, zone: tzinfo, zone_name: str) -> Schedule:
    """Parse a schedule. Raises `InvalidSchedule`, which says what was understood."""
    words, normalised = TextScanner(text), " ".join(text.split())
    if not words.text:
        raise InvalidSchedule("The time is missing.", SCHEDULE_EXAMPLES)
    if (cron := _scan_cron(words)) is not None:
        return Schedule(text=normalised, cron=cron, zone=zone_name)
    if words.match(r"in\b"):
        return Schedule(text=normalised, at=int(now) + scan_duration(words), zone=zone_name)
    if words.match(r"(?:every|each)\b") or words.rest.split()[0] in _ADVERBS:
        return _scan_recurring(words, normalised, now=now, zone_name=zone_name)
    if days := _scan_days(words, plural=True):
        return Schedule(text=normalised, cron=_scan_times(words, days=days), zone=zone_name)
    at = _scan_point_in_time(words, now=now, zone=zone)
    if at <= now:
        raise InvalidSchedule("“{text}” is in the past.", SCHEDULE_EXAMPLES, text=normalised)
    if at > now + MAX_DURATION:
        raise InvalidSchedule("“{text}” is more than ten years away.", text=normalised)
    return Schedule(text=normalised, at=at, zone=zone_name)


def _scan_cron(scanner: TextScanner) -> str | None:
    if scanner.text.startswith("@"):
        if scanner.text in _ALIASES:
            return _ALIASES[scanner.text]
        raise scanner.error(_ALIASES_HINT)
    meant = _CRON.fullmatch(scanner.text) or (
        "*" in scanner.text and _CRON_LIKE.fullmatch(scanner.text)
    )
    return normalise_cron(scanner.text) if meant else None


def _scan_recurring(scanner: TextScanner, text: str, *, now: float, zone_name: str) -> Schedule:
    """After the word "every", or at an adverb such as "daily"."""
    adverb = scanner.match("|".join(_ADVERBS))
    if days := _scan_days(scanner):
        return Schedule(text=text, cron=_scan_times(scanner, days=days), zone=zone_name)
    unit = _ADVERBS[adverb[0]] if adverb else _scan_unit(scanner)
    if unit is None:
        every = scan_duration(scanner)
        return Schedule(text=text, every=every, start=int(now), zone=zone_name)
    if not scanner.rest and unit != "month":
        seconds = UNITS[unit[0]]
        return Schedule(text=text, every=seconds, start=int(now), zone=zone_name)
    return Schedule(text=text, cron=_scan_after_unit(scanner, unit), zone=zone_name)


def _scan_unit(scanner: TextScanner) -> str | None:
    found = scanner.match(r"(minute|hour|day|week|month)\b")
    return found[1] if found else None


def _scan_after_unit(scanner: TextScanner, unit: str) -> str:
    """The cron expression of what follows "every hour", "every day", "every week" or "every
    month"."""
    if unit == "hour":
        minute = scanner.match(r"at (?:minute )?:?([0-5]?\d)$")
        if minute is None:
            raise scanner.error(N_("Give the minute: every hour at :15."))
        return f"{int(minute[1])} * * * *"
    if unit == "month":
        return _scan_times(scanner, month_days=_scan_month_days(scanner))
    if unit == "week":
        return _scan_times(scanner, days=_scan_week_days(scanner))
    if unit == "day":
        return _scan_times(scanner)
    raise scanner.error()


def _scan_week_days(scanner: TextScanner) -> str:
    scanner.match(r"on\b")
    if days := _scan_days(scanner):
        return days
    raise scanner.error(N_("Give the day: every week on monday at 9."))


def _scan_month_days(scanner: TextScanner) -> str:
    scanner.match(r"on\b")
    days: list[str] = []
    while (found := scanner.match(_MONTH_DAY)) is not None:
        days.append("L" if found[2] else str(int(found[1])))
        if not scanner.match(_AND):
            break
    if not days or any(day != "L" and not 1 <= int(day) <= 31 for day in days):
        raise scanner.error(
            N_("Give the day: every month on the 1st at 9, or on the last day at 9.")
        )
    return ",".join(days)


def _scan_days(scanner: TextScanner, *, plural: bool = False) -> str:
    """The days of the week as cron writes them; "": there is none here. `plural`: only plural names
    ("mondays")."""
    if scanner.match(r"weekdays\b" if plural else r"weekdays?\b"):
        return "1-5"
    if scanner.match(r"weekends\b" if plural else r"weekends?\b"):
        return "0,6"
    days: list[str] = []
    while (found := scanner.match(rf"({_DAY_NAMES})\b")) is not None:
        if plural and not found[1].endswith("days"):
            scanner.position = 0
            return ""
        days.append(str(_DAYS.index(found[1][:3])))
        if not scanner.match(_AND):
            break
    return ",".join(days)


def _scan_times(scanner: TextScanner, *, days: str = "*", month_days: str = "*") -> str:
    """The cron expression of "at 9", or of "at 9, 12 and 18"."""
    scanner.match(r"at\b")
    times = [scan_time(scanner)]
    while scanner.match(_AND):
        times.append(scan_time(scanner))
    if scanner.rest:
        raise scanner.error()
    minutes = {minute for _, minute in times}
    if len(minutes) > 1:
        raise scanner.error(
            N_("Several times of one job need the same minute; create two jobs instead.")
        )
    hours = ",".join(str(hour) for hour in sorted({hour for hour, _ in times}))
    return normalise_cron(f"{minutes.pop()} {hours} {month_days} * {days}")


def _scan_point_in_time(scanner: TextScanner, *, now: float, zone: tzinfo) -> int:
    """A single point in time."""
    today = datetime.fromtimestamp(now, zone)
    if date := scanner.match(_DATE):
        year, month, day = map(int, date.groups())
        return _timestamp_at(scanner, (year, month, day), zone)
    if named := scanner.match(r"(?:on )?(today|tomorrow)\b"):
        day_ = today + timedelta(days=named[1] == "tomorrow")
        scanner.match(r"at\b")
        return _timestamp_at(scanner, (day_.year, day_.month, day_.day), zone)
    if named := scanner.match(rf"(?:on )?({_DAY_NAMES})\b"):
        ahead = (_DAYS.index(named[1][:3]) - today.isoweekday()) % 7
        return _next_matching_day(scanner, today, ahead=ahead, step=7, zone=zone)
    scanner.match(r"at\b")
    if not TIME.match(scanner.rest):
        raise scanner.error()
    return _next_matching_day(scanner, today, ahead=0, step=1, zone=zone)


def _next_matching_day(
    scanner: TextScanner, today: datetime, *, ahead: int, step: int, zone: tzinfo
) -> int:
    scanner.match(r"at\b")
    start = scanner.position
    for days in (ahead, ahead + step):
        scanner.position = start
        day = today + timedelta(days=days)
        at = _timestamp_at(scanner, (day.year, day.month, day.day), zone)
        if at > today.timestamp():
            return at
    raise scanner.error()


def _timestamp_at(scanner: TextScanner, date: tuple[int, int, int], zone: tzinfo) -> int:
    hour, minute = scan_time(scanner)
    offset = scanner.match(r"(z|[+-]\d{2}:?\d{2})$")
    if scanner.rest:
        raise scanner.error()
    try:
        if offset is not None:
            zone = datetime.strptime(offset[1].upper(), "%z").tzinfo or zone
        return int(datetime(*date, hour, minute, tzinfo=zone).timestamp())
    except (ValueError, OverflowError) as error:
        raise InvalidSchedule(
            "“{text}” is not a date: {error}.", SCHEDULE_EXAMPLES, text=scanner.text, error=error
        ) from None


T = TypeVar("T", bound=StrEnum)

JOB_SYNTAX = N_(
    'Write: /cron add "every weekday at 9" Summarise the news. Between the time and the text you '
    "can add options: name=NEWS to=origin|home|nowhere|PLATFORM:CHAT session=fresh|here silent=yes "
    "missed=skip|once|all overlap=skip|queue|replace limit=10m zone=Europe/Berlin."
)
# Phones replace plain quotes by typographic ones.
_QUOTED_TIME = re.compile(
    r"\s*[\"“”„«'\u2018](.+?)[\"“”»'\u2019](?:\s+|$)",
    re.DOTALL,
)
_OPTION = re.compile(r"(name|to|session|silent|missed|overlap|limit|zone)=(\"[^\"]*\"|\S+)\s*")


def parse_job(text: str) -> JobRequest:
    """Raises `JobRefused`, which says what is wrong and shows the syntax."""
    found = _QUOTED_TIME.match(text)
    if found is None:
        raise JobRefused("Put the time in quotes.", JOB_SYNTAX)
    options: dict[str, str] = {}
    position = found.end()
    while (option := _OPTION.match(text, position)) is not None:
        options[option[1]] = option[2].strip('"')
        position = option.end()
    rest = text[position:].strip()
    if not rest:
        raise JobRefused(
            "I understood the time “{time}”, but the task is missing after it.",
            JOB_SYNTAX,
            time=found[1],
        )
    return JobRequest(
        when=found[1],
        text=rest,
        name=options.get("name", ""),
        zone=options.get("zone", ""),
        to=options.get("to", ""),
        runs_in=_enum_option(options, "session", RunSession),
        silent=_silent_option(options),
        missed=_enum_option(options, "missed", MissedRunPolicy) or MissedRunPolicy.ONCE,
        overlap=_enum_option(options, "overlap", OverlapPolicy) or OverlapPolicy.SKIP,
        limit=_limit_option(options),
    )


def _enum_option(options: dict[str, str], name: str, kind: type[T]) -> T | None:
    given = options.get(name)
    if given is None:
        return None
    try:
        return kind(given.lower())
    except ValueError:
        raise JobRefused(
            "{name}={value} is not allowed: {name} is one of {known}.",
            name=name,
            value=given,
            known=", ".join(kind),
        ) from None


def _limit_option(options: dict[str, str]) -> float | None:
    given = options.get("limit")
    if given is None or given == "0":
        return None if given is None else 0.0
    try:
        return parse_duration(given)
    except InvalidSchedule:
        raise JobRefused(
            "limit={value} is not allowed: limit is the longest time that a run may take, as 10m "
            "or 2h; 0 means no limit.",
            value=given,
        ) from None


def _silent_option(options: dict[str, str]) -> bool:
    given = options.get("silent", "no").lower()
    if given not in ("yes", "no"):
        raise JobRefused("silent={value} is not allowed: silent is yes or no.", value=given)
    return given == "yes"

"""Words of time: a text that is understood piece by piece, its times of day and its spans."""

import re

from holdfast.core.jobs.schedule import BadSchedule

EXAMPLES = (
    'Write for example "every weekday at 9", "every 10 minutes", "every month on the 1st at 8:30", '
    '"tomorrow at 18:00", "in 2 hours", "2026-12-01 09:00" or a cron expression "0 9 * * 1-5".'
)
LONGEST = 3650 * 86400
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_PART = re.compile(
    r"(?P<number>\d{1,6}|an?|half an)\s*"
    r"(?P<unit>s|m|h|d|w)(?:ec(?:ond)?s?|in(?:ute)?s?|(?:ou)?rs?|ays?|eeks?)?\b(?:\s*(?:,|and)\s*)?"
)
TIME = re.compile(r"(\d{1,2})(?::(\d{2})(?::\d{2})?)?\s*(am|pm)?(?![a-y\d:])|noon\b|midnight\b")


class Words:
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


def parse_duration(text: str) -> int:
    """Seconds; "90m", "1 hour 30 minutes", "2d"."""
    return take_duration(Words(text))


def take_duration(words: Words) -> int:
    total = 0.0
    while words.rest:
        part = words.take(_PART)
        if part is None:
            raise words.lost("A span of time is a number and a unit: 20 minutes, 2 hours, 3 days.")
        total += _span(part)
    if total < 1:
        raise words.lost("Say how long: 20 minutes, 2 hours, 3 days.")
    if total > LONGEST:
        raise BadSchedule(f"“{words.text}” is more than ten years.")
    return int(total)


def _span(part: re.Match[str]) -> float:
    number = {"a": 1.0, "an": 1.0, "half an": 0.5}.get(part["number"])
    return (float(part["number"]) if number is None else number) * UNITS[part["unit"]]


def take_time(words: Words) -> tuple[int, int]:
    found = words.take(TIME)
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

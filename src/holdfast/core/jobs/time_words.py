"""Words of time: a text that is understood piece by piece, its times of day and its spans."""

import re

from holdfast.core.jobs.schedule import InvalidSchedule

SCHEDULE_EXAMPLES = (
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
    """Owns how far a text is understood."""

    def __init__(self, text: str) -> None:
        self.text = " ".join(text.lower().split())
        self.position = 0

    @property
    def rest(self) -> str:
        return self.text[self.position :]

    def match(self, pattern: str | re.Pattern[str]) -> re.Match[str] | None:
        """What stands next, if it is that; with the spaces behind it."""
        found = re.compile(pattern).match(self.text, self.position)
        if found is not None:
            self.position = len(self.text) - len(self.text[found.end() :].lstrip())
        return found

    def error(self, hint: str = "") -> InvalidSchedule:
        understood = self.text[: self.position].strip()
        if not understood:
            told = f"I do not understand “{self.rest}”."
        elif self.rest:
            told = f"I understood “{understood}”, but not “{self.rest}”."
        else:
            told = f"I understood “{understood}”, and there it ends."
        return InvalidSchedule(" ".join(filter(None, (told, hint, SCHEDULE_EXAMPLES))))


def parse_duration(text: str) -> int:
    """Seconds; "90m", "1 hour 30 minutes", "2d"."""
    return scan_duration(TextScanner(text))


def scan_duration(scanner: TextScanner) -> int:
    total = 0.0
    while scanner.rest:
        part = scanner.match(_DURATION_PART)
        if part is None:
            raise scanner.error(
                "A span of time is a number and a unit: 20 minutes, 2 hours, 3 days."
            )
        total += _part_seconds(part)
    if total < 1:
        raise scanner.error("Say how long: 20 minutes, 2 hours, 3 days.")
    if total > MAX_DURATION:
        raise InvalidSchedule(f"“{scanner.text}” is more than ten years.")
    return int(total)


def _part_seconds(part: re.Match[str]) -> float:
    number = {"a": 1.0, "an": 1.0, "half an": 0.5}.get(part["number"])
    return (float(part["number"]) if number is None else number) * UNITS[part["unit"]]


def scan_time(scanner: TextScanner) -> tuple[int, int]:
    found = scanner.match(TIME)
    if found is None:
        raise scanner.error("Say at what time: at 9, at 18:30, at 7am, at noon.")
    if found[0] in ("noon", "midnight"):
        return (12 if found[0] == "noon" else 0), 0
    hour, minute, half = int(found[1]), int(found[2] or 0), found[3]
    if half is not None and 1 <= hour <= 12:
        hour = hour % 12 + (12 if half == "pm" else 0)
    elif half is not None:
        hour = 24  # 13pm
    if hour > 23 or minute > 59:
        raise InvalidSchedule(f"“{found[0].strip()}” is no time of day. {SCHEDULE_EXAMPLES}")
    return hour, minute

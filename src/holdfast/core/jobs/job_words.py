"""A job as it is typed in a chat: the time in quotes, how it is to be, and what is to be done."""

import re
from enum import StrEnum
from typing import TypeVar

from holdfast.core.jobs.job import JobRefused, Missed, Overlap, RunsIn, WantedJob
from holdfast.core.jobs.schedule import BadSchedule
from holdfast.core.jobs.time_words import parse_duration

T = TypeVar("T", bound=StrEnum)

HOW = (
    'Write: /cron add "every weekday at 9" Summarise the news. Between the time and the text there '
    "may be name=NEWS to=origin|home|nowhere|PLATFORM:CHAT session=fresh|here silent=yes "
    "missed=skip|once|all overlap=skip|queue|replace limit=10m zone=Europe/Berlin."
)
# Phones make of a plain quote what looks better.
_QUOTED = re.compile(
    r"\s*[\"“”„«'\u2018](.+?)[\"“”»'\u2019](?:\s+|$)",
    re.DOTALL,
)
_OPTION = re.compile(r"(name|to|session|silent|missed|overlap|limit|zone)=(\"[^\"]*\"|\S+)\s*")


def parse_job(text: str) -> WantedJob:
    """Raises `JobRefused`, which says what is wrong and how it is written."""
    found = _QUOTED.match(text)
    if found is None:
        raise JobRefused(f"Put the time into quotes. {HOW}")
    options: dict[str, str] = {}
    place = found.end()
    while (option := _OPTION.match(text, place)) is not None:
        options[option[1]] = option[2].strip('"')
        place = option.end()
    rest = text[place:].strip()
    if not rest:
        raise JobRefused(f"I understood the time “{found[1]}”, and then nothing to do. {HOW}")
    return WantedJob(
        when=found[1],
        text=rest,
        name=options.get("name", ""),
        zone=options.get("zone", ""),
        to=options.get("to", ""),
        runs_in=_choice(options, "session", RunsIn),
        silent=_yes(options),
        missed=_choice(options, "missed", Missed) or Missed.ONCE,
        overlap=_choice(options, "overlap", Overlap) or Overlap.SKIP,
        limit=_limit(options),
    )


def _choice(options: dict[str, str], name: str, kind: type[T]) -> T | None:
    given = options.get(name)
    if given is None:
        return None
    try:
        return kind(given.lower())
    except ValueError:
        known = ", ".join(kind)
        raise JobRefused(f"{name}={given} is not known: {name} is one of {known}.") from None


def _limit(options: dict[str, str]) -> float | None:
    given = options.get("limit")
    if given is None or given == "0":
        return None if given is None else 0.0
    try:
        return parse_duration(given)
    except BadSchedule:
        raise JobRefused(
            f"limit={given} is not known: limit is how long a run may take, as 10m or 2h; "
            "0 is without end."
        ) from None


def _yes(options: dict[str, str]) -> bool:
    given = options.get("silent", "no").lower()
    if given not in ("yes", "no"):
        raise JobRefused(f"silent={given} is not known: silent is yes or no.")
    return given == "yes"

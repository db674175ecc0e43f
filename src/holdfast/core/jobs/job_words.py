"""A job as it is typed in a chat: the time in quotes, how it is to be, and what is to be done."""

import re
from enum import StrEnum
from typing import TypeVar

from holdfast.core.jobs.job import (
    JobRefused,
    JobRequest,
    MissedRunPolicy,
    OverlapPolicy,
    RunSession,
)
from holdfast.core.jobs.schedule import InvalidSchedule
from holdfast.core.jobs.time_words import parse_duration

T = TypeVar("T", bound=StrEnum)

JOB_SYNTAX = (
    'Write: /cron add "every weekday at 9" Summarise the news. Between the time and the text there '
    "may be name=NEWS to=origin|home|nowhere|PLATFORM:CHAT session=fresh|here silent=yes "
    "missed=skip|once|all overlap=skip|queue|replace limit=10m zone=Europe/Berlin."
)
# Phones make of a plain quote what looks better.
_QUOTED_TIME = re.compile(
    r"\s*[\"“”„«'\u2018](.+?)[\"“”»'\u2019](?:\s+|$)",
    re.DOTALL,
)
_OPTION = re.compile(r"(name|to|session|silent|missed|overlap|limit|zone)=(\"[^\"]*\"|\S+)\s*")


def parse_job(text: str) -> JobRequest:
    """Raises `JobRefused`, which says what is wrong and how it is written."""
    found = _QUOTED_TIME.match(text)
    if found is None:
        raise JobRefused(f"Put the time into quotes. {JOB_SYNTAX}")
    options: dict[str, str] = {}
    place = found.end()
    while (option := _OPTION.match(text, place)) is not None:
        options[option[1]] = option[2].strip('"')
        place = option.end()
    rest = text[place:].strip()
    if not rest:
        raise JobRefused(
            f"I understood the time “{found[1]}”, and then nothing to do. {JOB_SYNTAX}"
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
        known = ", ".join(kind)
        raise JobRefused(f"{name}={given} is not known: {name} is one of {known}.") from None


def _limit_option(options: dict[str, str]) -> float | None:
    given = options.get("limit")
    if given is None or given == "0":
        return None if given is None else 0.0
    try:
        return parse_duration(given)
    except InvalidSchedule:
        raise JobRefused(
            f"limit={given} is not known: limit is how long a run may take, as 10m or 2h; "
            "0 is without end."
        ) from None


def _silent_option(options: dict[str, str]) -> bool:
    given = options.get("silent", "no").lower()
    if given not in ("yes", "no"):
        raise JobRefused(f"silent={given} is not known: silent is yes or no.")
    return given == "yes"

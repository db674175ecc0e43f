"""Dates, numbers, sizes, durations and money for people, in the language of the context.

English has its own formats, so that it does not load Babel: dates as ISO 8601, which mean the same
to every reader of English, and SI units. Every other language has the formats of the CLDR, by
Babel, which is imported when the first value is formatted in that language.

Not for logs, for texts for a model or for machine-readable output.
"""

from datetime import datetime, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING

from holdfast.core.text.translation import _, _n, current_language

if TYPE_CHECKING:
    from babel import Locale

# Terminals and fonts without these characters are common; a plain space is correct everywhere.
_PLAIN_SPACES = str.maketrans({"\N{NO-BREAK SPACE}": " ", "\N{NARROW NO-BREAK SPACE}": " "})
_DURATION_UNITS = (("day", "d", 86400), ("hour", "h", 3600), ("minute", "min", 60))
_SIZE_UNITS = (("byte", "B"), ("kilobyte", "kB"), ("megabyte", "MB"), ("gigabyte", "GB"))


def format_time(seconds: float | None, zone: tzinfo | None = None) -> str:
    """Date and time, `2026-11-19 03:25:11`; without a zone, in the local one. None is ""."""
    if seconds is None:
        return ""
    at = _datetime(seconds, zone)
    if (locale := _locale()) is None:
        return f"{at:%Y-%m-%d %H:%M:%S}"
    from babel import dates  # noqa: PLC0415 - not for English

    return _plain(dates.format_datetime(at, "medium", locale=locale))


def format_date(seconds: float, zone: tzinfo | None = None) -> str:
    """The day, `2026-11-19`."""
    at = _datetime(seconds, zone)
    if (locale := _locale()) is None:
        return f"{at:%Y-%m-%d}"
    from babel import dates  # noqa: PLC0415 - not for English

    return _plain(dates.format_date(at, "medium", locale=locale))


def format_time_of_day(seconds: float, zone: tzinfo | None = None) -> str:
    """The time without the day, `03:25:11`."""
    at = _datetime(seconds, zone)
    if (locale := _locale()) is None:
        return f"{at:%H:%M:%S}"
    from babel import dates  # noqa: PLC0415 - not for English

    return _plain(dates.format_time(at, "medium", locale=locale))


def format_weekday_time(seconds: float, zone: tzinfo | None = None) -> str:
    """Weekday, date, hour and minute, `Thu 19 Nov 2026 03:25`: for times that are planned."""
    at = _datetime(seconds, zone)
    if (locale := _locale()) is None:
        return f"{_ENGLISH_DAYS[at.weekday()]} {at.day} {_ENGLISH_MONTHS[at.month]} {at:%Y %H:%M}"
    from babel import dates  # noqa: PLC0415 - not for English

    day = dates.format_skeleton("yMMMEd", at, locale=locale)
    return _plain(f"{day} {dates.format_time(at, 'short', locale=locale)}")


def format_duration(seconds: float) -> str:
    """In the largest unit of which there are at least two: `0.3 s`, `10 min`, `2 d`."""
    for unit, symbol, size in _DURATION_UNITS:
        if seconds >= 2 * size:
            return _format_unit(round(seconds / size), f"duration-{unit}", symbol, decimals=0)
    return _format_unit(seconds, "duration-second", "s", decimals=1)


def format_long_duration(seconds: float) -> str:
    """For a sentence: `2 hours`, `10 minutes`, `1 second`; never less than a second."""
    if seconds >= 2 * 3600:
        n = round(seconds / 3600)
        return _n("{n} hour", "{n} hours", n).format(n=n)
    if seconds >= 2 * 60:
        n = round(seconds / 60)
        return _n("{n} minute", "{n} minutes", n).format(n=n)
    n = max(1, round(seconds))
    return _n("{n} second", "{n} seconds", n).format(n=n)


def format_size(bytes_: float) -> str:
    """`512 B`, `1.5 kB`, `20.0 MB`; a kB is 1,000 bytes."""
    power, left = 0, float(bytes_)
    while left >= 1000 and power < len(_SIZE_UNITS) - 1:
        power, left = power + 1, left / 1000
    unit, symbol = _SIZE_UNITS[power]
    return _format_unit(left, f"digital-{unit}", symbol, decimals=1 if power else 0)


def format_count(number: float) -> str:
    """A rounded count: `950`, `12.3 k`, `1.5 M`."""
    if (locale := _locale()) is not None:
        from babel import numbers  # noqa: PLC0415 - not for English

        digits = 1 if number >= 1000 else 0
        return _plain(numbers.format_compact_decimal(number, fraction_digits=digits, locale=locale))
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number:.0f}"


def format_number(number: float, decimals: int = 0) -> str:
    """`12,345`, or with that many decimals."""
    if (locale := _locale()) is None:
        return f"{number:,.{decimals}f}"
    from babel import numbers  # noqa: PLC0415 - not for English

    return _plain(
        numbers.format_decimal(round(number, decimals), _number_pattern(decimals), locale=locale)
    )


def format_percent(share: float) -> str:
    """`63%` for 0.63."""
    if (locale := _locale()) is None:
        return f"{share:.0%}"
    from babel import numbers  # noqa: PLC0415 - not for English

    return _plain(numbers.format_percent(share, locale=locale))


def format_money(amount: float, currency: str) -> str:
    """`$1,234.50` for USD, `EUR 1,234.50` for others; without a currency `1,234.50`."""
    if not currency:
        return format_number(amount, 2)
    if (locale := _locale()) is None:
        sign = "$" if currency == "USD" else f"{currency} "
        return f"{sign}{format_number(amount, 2)}"
    from babel import numbers  # noqa: PLC0415 - not for English

    return _plain(numbers.format_currency(amount, currency, locale=locale))


def format_yes_no(value: bool) -> str:
    return _("yes") if value else _("no")


# Not by `strftime`: its names are in the locale of the process.
_ENGLISH_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_ENGLISH_MONTHS = (
    "",
    *("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
)


def _format_unit(number: float, unit: str, symbol: str, *, decimals: int) -> str:
    if (locale := _locale()) is None:
        return f"{number:.{decimals}f} {symbol}"
    from babel import units  # noqa: PLC0415 - not for English

    pattern = _number_pattern(decimals)
    return _plain(units.format_unit(number, unit, "short", pattern, locale=locale))


def _number_pattern(decimals: int) -> str:
    return "#,##0." + "0" * decimals if decimals else "#,##0"


def _datetime(seconds: float, zone: tzinfo | None) -> datetime:
    # Naive: Babel would convert an aware one to UTC.
    return datetime.fromtimestamp(seconds, zone).replace(tzinfo=None)


def _plain(text: str) -> str:
    return text.translate(_PLAIN_SPACES)


def _locale() -> "Locale | None":
    """None: English, or a language that Babel does not know."""
    language = current_language()
    return None if language == "en" or language.startswith("en-") else _find_locale(language)


@lru_cache
def _find_locale(language: str) -> "Locale | None":
    from babel import Locale, UnknownLocaleError  # noqa: PLC0415 - not for English

    for tag in (language, language.partition("-")[0]):
        try:
            return Locale.parse(tag, sep="-")
        except (UnknownLocaleError, ValueError):
            continue
    return None

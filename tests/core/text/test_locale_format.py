"""Dates, numbers, sizes and durations are formatted in the language of the context."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, timezone

import pytest

from holdfast.core.text import locale_format as fmt
from holdfast.core.text.translation import EnglishCatalogue, use_catalogue

MOMENT = datetime(2026, 11, 19, 15, 4, 5, tzinfo=UTC).timestamp()


@contextmanager
def language(tag: str) -> Iterator[None]:
    catalogue = EnglishCatalogue()
    catalogue.language = tag
    with use_catalogue(catalogue):
        yield


@pytest.mark.parametrize(
    ("tag", "time", "date", "of_day", "weekday"),
    [
        ("en", "2026-11-19 15:04:05", "2026-11-19", "15:04:05", "Thu 19 Nov 2026 15:04"),
        ("de", "19.11.2026, 15:04:05", "19.11.2026", "15:04:05", "Do., 19. Nov. 2026 15:04"),
        (
            "pt-BR",
            "19 de nov. de 2026 15:04:05",
            "19 de nov. de 2026",
            "15:04:05",
            "qui., 19 de nov. de 2026 15:04",
        ),
        (
            "zh-Hans",
            "2026年11月19日 15:04:05",
            "2026年11月19日",
            "15:04:05",
            "2026年11月19日周四 15:04",
        ),
    ],
)
def test_a_date_is_in_the_form_of_the_language(
    tag: str, time: str, date: str, of_day: str, weekday: str
) -> None:
    with language(tag):
        assert fmt.format_time(MOMENT, UTC) == time
        assert fmt.format_date(MOMENT, UTC) == date
        assert fmt.format_time_of_day(MOMENT, UTC) == of_day
        assert fmt.format_weekday_time(MOMENT, UTC) == weekday


def test_a_date_is_in_the_given_time_zone() -> None:
    zone = timezone(timedelta(hours=9))
    assert fmt.format_time(MOMENT, zone) == "2026-11-20 00:04:05"
    with language("de"):
        assert fmt.format_time(MOMENT, zone) == "20.11.2026, 00:04:05"
    assert fmt.format_time(None) == ""


@pytest.mark.parametrize(
    ("seconds", "english", "german"),
    [
        (0.34, "0.3 s", "0,3 Sek."),
        (119, "119.0 s", "119,0 Sek."),
        (600, "10 min", "10 Min."),
        (10_900, "3 h", "3 Std."),
        (200_000, "2 d", "2 Tg."),
    ],
)
def test_a_duration_is_in_a_suitable_unit(seconds: float, english: str, german: str) -> None:
    assert fmt.format_duration(seconds) == english
    with language("de"):
        assert fmt.format_duration(seconds) == german


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "1 second"), (60, "60 seconds"), (120, "2 minutes"), (7200, "2 hours")],
)
def test_a_duration_can_be_part_of_a_sentence(seconds: float, text: str) -> None:
    assert fmt.format_long_duration(seconds) == text


@pytest.mark.parametrize(
    ("size", "english", "french"),
    [
        (512, "512 B", "512 o"),
        (1500, "1.5 kB", "1,5 ko"),
        (20_000_000, "20.0 MB", "20,0 Mo"),
        (5_000_000_000_000, "5000.0 GB", "5 000,0 Go"),
    ],
)
def test_a_size_is_in_a_suitable_unit(size: int, english: str, french: str) -> None:
    assert fmt.format_size(size) == english
    with language("fr"):
        assert fmt.format_size(size) == french


def test_numbers_are_grouped_and_rounded_as_in_the_language() -> None:
    assert [fmt.format_count(n) for n in (950, 12_345, 1_500_000)] == ["950", "12.3 k", "1.5 M"]
    assert [fmt.format_number(12_345), fmt.format_number(1.25, 1)] == ["12,345", "1.2"]
    assert (fmt.format_percent(0.631), fmt.format_money(1234.5, "")) == ("63%", "1,234.50")
    assert [fmt.format_money(1234.5, c) for c in ("USD", "EUR")] == ["$1,234.50", "EUR 1,234.50"]
    with language("fr"):
        assert [fmt.format_count(n) for n in (950, 12_345)] == ["950", "12,3 k"]
        assert [fmt.format_number(12_345), fmt.format_number(1.25, 1)] == ["12 345", "1,2"]
        assert (fmt.format_percent(0.631), fmt.format_money(1234.5, "")) == ("63 %", "1 234,50")
        assert fmt.format_money(1234.5, "EUR") == "1 234,50 €"


def test_an_unknown_language_has_english_formats_and_an_unknown_region_those_of_its_language() -> (
    None
):
    with language("qqx"):
        assert fmt.format_size(1500) == "1.5 kB"
    with language("de-XX"):
        assert fmt.format_size(1500) == "1,5 kB"


def test_english_does_not_load_babel() -> None:
    program = (
        "import sys; from holdfast.core.text import locale_format as fmt;"
        "fmt.format_time(0); fmt.format_size(1); fmt.format_duration(1); fmt.format_percent(1);"
        "assert 'babel' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)

"""The recent log: bounded, in order over restarts, free of secrets, and never blocking."""

import io
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.config.settings import LogSettings
from holdfast.system.logs import RecentLog, RecentLogFilter, RecentLogLine, logging_to

log = logging.getLogger("holdfast.test")
ALL = RecentLogFilter()


@contextmanager
def logged(recent: RecentLog, tmp_path: Path) -> Iterator[Callable[[], None]]:
    """The real log, with this at its end; what is given waits until all is written."""
    with logging_to(
        tmp_path / "g.log", LogSettings(), redact=str, stream=io.StringIO(), recent=recent
    ) as flush:

        def written() -> None:
            assert flush(20.0)

        yield written


def texts(lines: list[RecentLogLine]) -> list[str]:
    return [json.loads(line.text)["message"] for line in lines]


def record(message: str, *, at: float, **extra: Any) -> logging.LogRecord:
    level = extra.pop("level", logging.INFO)
    fields = {"msg": message, "created": at, "levelno": level, "levelname": "INFO", **extra}
    return logging.makeLogRecord(fields)


def test_the_recent_log_has_the_logged_lines_without_secrets(tmp_path: Path) -> None:
    recent = RecentLog(lambda text: text.replace("hunter2", "[secret]"))
    with logged(recent, tmp_path) as written:
        log.info("The word is %s.", "hunter2", extra={"action": "told", "each": ["hunter2"]})
        written()
        [line] = recent.before(None, ALL, limit=10)
    assert "hunter2" not in line.text and json.loads(line.text)["action"] == "told"


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (ALL, ["one", "two", 'say "three"']),
        (RecentLogFilter(level=logging.WARNING), ['say "three"']),
        (RecentLogFilter(session="s_1"), ["one", "two"]),
        (RecentLogFilter(session="s_12"), ["two"]),
        (RecentLogFilter(text='SAY "THREE"'), ['say "three"']),
        (RecentLogFilter(text="s_12"), ["two"]),
        (RecentLogFilter(session="s_1", text="three"), []),
    ],
)
def test_lines_are_found_by_level_session_and_words(
    query: RecentLogFilter, found: list[str]
) -> None:
    recent = RecentLog(str)
    recent.handle(record("one", at=1.0, session="s_1"))
    recent.handle(record("two", at=2.0, session_id="s_12"))
    recent.handle(record('say "three"', at=3.0, level=logging.ERROR))
    assert texts(recent.before(None, query, limit=10)) == found


def test_pages_go_back_without_a_gap_or_a_repeat() -> None:
    recent = RecentLog(str)
    for number in range(7):
        recent.handle(record(str(number), at=5.0))  # all in one millisecond
    pages, before = [], None
    while page := recent.before(before, ALL, limit=3):
        pages.append(texts(page))
        before = page[0].number
    assert pages == [["4", "5", "6"], ["1", "2", "3"], ["0"]]


def test_numbers_grow_over_restarts_and_while_the_clock_is_set_back() -> None:
    before, after = RecentLog(str), RecentLog(str)
    before.handle(record("last words", at=100.0))
    after.handle(record("first words", at=100.5))
    after.handle(record("set back", at=50.0))
    numbers = [line.number for each in (before, after) for line in each.before(None, ALL, limit=9)]
    assert numbers == sorted(set(numbers)) and len(numbers) == 3


def test_a_reader_from_the_previous_process_is_notified_of_missed_lines() -> None:
    before, after = RecentLog(str), RecentLog(str)
    before.handle(record("the last that was read", at=100.0))
    after.handle(record("first words", at=103.0))
    with after.subscribe(ALL, after=before.newest, on_lines=lambda: None) as reader:
        lines, missed = reader.take(limit=9)
        assert missed and texts(lines) == ["first words"]
        assert reader.take(limit=9) == ([], False)


def test_the_recent_log_is_bounded_by_lines_and_by_length() -> None:
    few, short = RecentLog(str, lines=5), RecentLog(str, chars=2_000)
    for number in range(50):
        few.handle(record(str(number), at=number))
        short.handle(record("x" * 300, at=number))
    assert texts(few.before(None, ALL, limit=99)) == ["45", "46", "47", "48", "49"]
    kept = short.before(None, ALL, limit=99)
    assert 0 < sum(len(line.text) for line in kept) <= 2_000


def test_a_slow_reader_is_called_once_and_notified_of_missed_lines() -> None:
    recent, calls = RecentLog(str, lines=5), []
    recent.handle(record("before", at=1.0))
    with recent.subscribe(ALL, after=recent.newest, on_lines=lambda: calls.append(1)) as reader:
        assert reader.take(limit=10) == ([], False)
        for number in range(20):
            recent.handle(record(str(number), at=2.0))
        assert len(calls) == 1, "it knows that there is more"
        lines, missed = reader.take(limit=3)
        assert missed and texts(lines) == ["15", "16", "17"] and reader.notified
        lines, missed = reader.take(limit=3)
        assert not missed and texts(lines) == ["18", "19"] and not reader.notified
        recent.handle(record("news", at=3.0))
        assert len(calls) == 2 and texts(reader.take(limit=3)[0]) == ["news"]
    recent.handle(record("nobody reads", at=4.0))
    assert len(calls) == 2


def test_a_line_that_cannot_be_formatted_does_not_break_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Nameless:
        def __str__(self) -> str:
            raise RuntimeError("no name")

    recent = RecentLog(str)
    with logged(recent, tmp_path) as written:
        log.info("Odd.", extra={"thing": Nameless()})
        log.info("Even.")
        written()
    assert texts(recent.before(None, ALL, limit=9)) == ["Even."]
    assert "no name" in capsys.readouterr().err

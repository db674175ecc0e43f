"""Logs as they are written: for programs, for people, and never with a secret in them."""

import io
import json
import logging
import threading
from pathlib import Path
from typing import Any

from holdfast.core.config.settings import LogLevel, LogSettings
from holdfast.system import logs
from holdfast.system.logs import logging_to

logger = logging.getLogger("holdfast.test")


class TerminalStream(io.StringIO):
    def isatty(self) -> bool:
        return True


class StuckStream(io.StringIO):
    """A stream whose writes wait until they are released."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()

    def write(self, text: str) -> int:
        self.go.wait()
        return super().write(text)


def redact(text: str) -> str:
    return text.replace('hun"ter2', "[redacted]")


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_program_gets_one_json_object_a_line(tmp_path: Path) -> None:
    stream = io.StringIO()
    with logging_to(tmp_path / "logs" / "g.log", LogSettings(), redact=redact, stream=stream):
        logger.info("A turn %s began.", 7, extra={"action": "turn_began", "turn": 7})
    [line] = lines(stream.getvalue())
    assert line["message"] == "A turn 7 began."
    assert (line["action"], line["turn"], line["level"]) == ("turn_began", 7, "info")
    assert line["time"].endswith("+00:00")
    assert lines((tmp_path / "logs" / "g.log").read_text()) == [line]


def test_logged_escape_sequences_are_not_sent_to_a_terminal(tmp_path: Path) -> None:
    """The reason of a user who kicks the bot is text of an outsider, and is logged."""
    stream = TerminalStream()
    with logging_to(tmp_path / "g.log", LogSettings(), redact=redact, stream=stream):
        logger.warning("Kicked: %s", "\x1b]0;owned\x07\x9b2J", extra={"by": "\x1b[2J"})
        try:
            raise ValueError("\x1b[1A")
        except ValueError:
            logger.exception("Failed.")
    shown = stream.getvalue().replace("\033[33m", "").replace("\033[31m", "")
    shown = shown.replace("\033[2m", "").replace("\033[0m", "")
    assert not {"\x1b", "\x07", "\x9b"} & set(shown)
    assert r"Kicked: \x1b]0;owned\x07\x9b2J" in shown and "\nTraceback" in shown


def test_a_person_gets_a_sentence(tmp_path: Path) -> None:
    stream = TerminalStream()
    with logging_to(tmp_path / "g.log", LogSettings(), redact=redact, stream=stream):
        logger.warning("Careful.", extra={"action": "care", "each": {"hands": 2}})
    assert "\033[33mCareful.\033[0m" in stream.getvalue()
    assert "action=care" in stream.getvalue() and "hands" not in stream.getvalue()
    [line] = lines((tmp_path / "g.log").read_text())
    assert line["each"] == {"hands": 2}


def test_a_secret_reaches_no_log(tmp_path: Path) -> None:
    secret = 'hun"ter2'
    for stream in (io.StringIO(), TerminalStream()):
        with logging_to(tmp_path / "g.log", LogSettings(), redact=redact, stream=stream):
            logger.info("It is %s.", secret, extra={"a": [{"b": secret}], "c": Path(secret)})
            try:
                raise ValueError(secret)
            except ValueError:
                logger.exception("It failed.")
        written = stream.getvalue() + (tmp_path / "g.log").read_text()
        assert "ValueError" in written
        assert "[redacted]" in written
        assert "ter2" not in written


def test_a_traceback_is_a_field_of_its_own(tmp_path: Path) -> None:
    stream = io.StringIO()
    with logging_to(tmp_path / "g.log", LogSettings(), redact=redact, stream=stream):
        try:
            raise ValueError("of no use")
        except ValueError:
            logger.exception("It failed.")
    [line] = lines(stream.getvalue())
    assert line["message"] == "It failed."
    assert "ValueError: of no use" in line["exception"]


def test_the_log_level_applies_to_our_loggers_only(tmp_path: Path) -> None:
    stream = io.StringIO()
    settings = LogSettings(level=LogLevel.DEBUG)
    with logging_to(tmp_path / "g.log", settings, redact=redact, stream=stream):
        logger.debug("Ours.")
        logging.getLogger("somebody.else").info("Theirs.")
        logging.getLogger("somebody.else").warning("Their warning.")
    assert [line["message"] for line in lines(stream.getvalue())] == ["Ours.", "Their warning."]


def test_the_file_is_rotated_private_and_bounded(tmp_path: Path) -> None:
    file = tmp_path / "logs" / "g.log"
    settings = LogSettings(file_mb=1, files=2)
    with logging_to(file, settings, redact=redact, stream=io.StringIO()):
        for _ in range(45):
            logger.info("x" * 100_000)
    files = sorted(path.name for path in file.parent.iterdir())
    assert files == ["g.log", "g.log.1", "g.log.2"]
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in file.parent.iterdir())
    assert all(path.stat().st_size <= 1_000_000 for path in file.parent.iterdir())


def test_no_log_file_is_written_when_it_is_off(tmp_path: Path) -> None:
    settings = LogSettings(files=0)
    with logging_to(tmp_path / "logs" / "g.log", settings, redact=redact, stream=io.StringIO()):
        logger.info("Hello.")
    assert not (tmp_path / "logs").exists()


def test_a_stuck_log_blocks_nothing_and_reports_dropped_lines(tmp_path: Path) -> None:
    stream = StuckStream()
    with logging_to(tmp_path / "g.log", LogSettings(), redact=redact, stream=stream):
        for number in range(logs.QUEUE_LENGTH + 500):
            logger.info("Line %d.", number)
        stream.go.set()
        while not stream.getvalue().count("\n") >= logs.QUEUE_LENGTH:
            threading.Event().wait(0.01)
        logger.info("The last line.")
    written = lines(stream.getvalue())
    assert written[-1]["message"] == "The last line."
    assert written[-2]["action"] == "log_dropped"
    assert 0 < written[-2]["count"] <= 500

"""`holdfast logs`: the end of a log across its files, filtered, and followed across a rotation."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.command_line import HOLDFAST, Cli, environment, reset_sigint


def line(message: str, *, level: str = "info", **extra: str) -> str:
    fields = {"time": "2026-11-15T12:00:00.000+00:00", "level": level, "logger": "x"}
    return json.dumps({**fields, "message": message, **extra}) + "\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "home" / "logs" / "gateway.log"
    path.parent.mkdir(parents=True, mode=0o700)
    return path


def test_the_last_lines_are_found_across_rotated_files(cli: Cli, log: Path) -> None:
    log.with_name("gateway.log.2").write_text(line("one"))
    log.with_name("gateway.log.1").write_text(line("two") + line("three"))
    log.write_text(line("four") + "x" * 70_000 + "\n" + line("five"))
    shown = cli("logs", "-n", "5").stdout.splitlines()
    assert [text[:40].split("  ")[-1] for text in shown] == [
        "two",
        "three",
        "four",
        "x" * 40,
        "five",
    ]
    assert len(cli("logs").stdout.splitlines()) == 6
    assert cli("logs", "-n", "0").stdout == ""


def test_lines_are_chosen_by_level_and_session(cli: Cli, log: Path) -> None:
    log.write_text(
        line("calm") + line("odd", level="warning", session="s_12") + line("bad", level="error")
    )
    assert "calm" not in (shown := cli("logs", "--level", "warning").stdout)
    assert "odd" in shown and "bad" in shown
    assert cli("logs", "--session", "s_1").stdout.count("\n") == 1
    assert cli("logs", "--json", "--level", "error").stdout == line("bad", level="error")


def test_a_log_cannot_control_the_terminal(cli: Cli, log: Path) -> None:
    log.write_text(line("a\x1b[2Jb"))
    assert "\x1b" not in cli("logs").stdout


def test_a_missing_log_is_reported(cli: Cli) -> None:
    empty = cli("logs")
    assert empty.returncode == 0
    assert "no gateway has run in this home" in empty.stderr


@pytest.fixture
def following(tmp_path: Path, log: Path) -> Iterator[subprocess.Popen[str]]:
    log.write_text(line("before"))
    with subprocess.Popen(
        [HOLDFAST, "logs", "-f"],
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=reset_sigint,
    ) as process:
        yield process
        process.kill()


def test_following_continues_across_a_rotation(following: subprocess.Popen[str], log: Path) -> None:
    assert following.stdout is not None
    lines = iter(following.stdout.readline, "")
    assert "before" in next(lines)
    with log.open("a") as file:
        file.write(line("live"))
    assert "live" in next(lines)
    with log.open("a") as file:
        file.write(line("the last of the old"))
    log.rename(log.with_name("gateway.log.1"))  # which gets no more lines
    log.write_text(line("the first of the new"))
    assert "the last of the old" in next(lines)
    assert "the first of the new" in next(lines)
    following.send_signal(2)
    assert following.wait(60) == 0

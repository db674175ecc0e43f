"""Tables, fields and wrapped texts: whole in a pipe, fitted to a terminal, safe from control
characters."""

import io
import sys

import pytest

from holdfast.cli.common.output import print_fields, print_table, wrap_text

BAD = "\x1b[2J[bold]\x07"


class NarrowTerminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> NarrowTerminal:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "stdout", out := NarrowTerminal())
    return out


def test_a_pipe_gets_every_column_whole_and_plain(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("ID", "TEXT"), [("1", "a" * 300), ("2", "two\nlines"), ("3", BAD)])
    printed = capsys.readouterr().out.splitlines()
    assert printed == ["ID  TEXT", f"1   {'a' * 300}", "2   two lines", "3   �[2J[bold]�"]


def test_on_a_terminal_the_first_column_is_whole_and_wide_characters_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = narrow_terminal(monkeypatch)
    print_table(("ID", "TEXT"), [("0123456789", "家族会議" * 10)])
    [_header, row] = terminal.getvalue().splitlines()
    assert row == "0123456789  家族会議家族会議 …"


def test_a_long_value_is_wrapped_beside_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = narrow_terminal(monkeypatch)
    print_fields([("name", "word " * 8), ("b", BAD)])
    plain = terminal.getvalue().replace("\x1b[2m", "").replace("\x1b[0m", "")
    assert [line.rstrip() for line in plain.splitlines()] == [
        "  name  word word word word",
        "        word word word word",
        "  b     �[2J[bold]�",
    ]


def test_an_address_is_never_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow_terminal(monkeypatch)
    address = f"https://example.com/{'x' * 40}"
    assert wrap_text(f"open {address} and go on") == f"open\n{address}\nand go on"

"""A terminal that is drawn on as a whole, and put back as it was found."""

import os
import select
import signal
import sys
import termios
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType
from typing import Self

from holdfast.cli.chat.keyboard import Waking
from holdfast.cli.top.ink import Line, length, painted
from holdfast.cli.top.keys import Key, keys

_ENTER = "\x1b[?1049h\x1b[?25l\x1b[2J"  # the other screen, without a cursor, and empty
_LEAVE = "\x1b[0m\x1b[?25h\x1b[?1049l"
_ROOM = 65536


class Terminal:
    """Owns the terminal's mode, its other screen and the signals about them, while its context is
    open. What is drawn differs from what stands there line by line, so that nothing flickers."""

    def __init__(self, *, coloured: bool) -> None:
        self._coloured = coloured
        self._shown: list[str] = []
        self._ended = False

    def __enter__(self) -> Self:
        self._fd, self._out = sys.stdin.fileno(), sys.stdout.fileno()
        self._waking = Waking()
        self._mode = termios.tcgetattr(self._fd)
        self._handlers = {
            number: signal.signal(number, handler)
            for number, handler in (
                (signal.SIGWINCH, self._on_resized),
                (signal.SIGTSTP, self._on_suspended),
                (signal.SIGINT, self._on_ended),
                (signal.SIGTERM, self._on_ended),
                (signal.SIGHUP, self._on_ended),
            )
        }
        self._take()
        return self

    def __exit__(self, *exc: object) -> None:
        self._give_back()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._waking.close()

    @property
    def size(self) -> os.terminal_size:
        found = os.get_terminal_size(self._out)
        # One that does not know its size says 0.
        return os.terminal_size((found.columns or 80, found.lines or 24))

    def draw(self, lines: Sequence[Line]) -> None:
        columns = self.size.columns
        fresh = [_written(line, columns, coloured=self._coloured) for line in lines]
        if len(fresh) != len(self._shown):
            self._shown = []
        changed = [
            f"\x1b[{number};1H{text}"
            for number, text in enumerate(fresh, start=1)
            if self._shown[number - 1 : number] != [text]
        ]
        self._shown = fresh
        self._write("".join(changed))

    def wait(self, timeout: float | None) -> list[Key]:
        """What was pressed, nothing if the time is over or the size has changed. The end of the
        terminal, or of whoever started this, is a key to quit."""
        if self._ended:
            return [Key.QUIT]
        readable, _, _ = select.select([self._fd, self._waking.fd], [], [], timeout)
        if self._waking.fd in readable:
            self._waking.drain()
        if self._ended:
            return [Key.QUIT]
        return self._read() if self._fd in readable else []

    def _read(self) -> list[Key]:
        try:
            typed = os.read(self._fd, _ROOM)
        except OSError:
            typed = b""  # the terminal is gone
        return keys(typed) if typed else [Key.QUIT]

    def _take(self) -> None:
        mode = termios.tcgetattr(self._fd)
        mode[3] &= ~(termios.ECHO | termios.ICANON)
        mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 0
        termios.tcsetattr(self._fd, termios.TCSADRAIN, mode)
        self._shown = []
        self._write(_ENTER)

    def _give_back(self) -> None:
        self._write(_LEAVE)
        with suppress(termios.error):  # it is gone, and with it what was to be put back
            termios.tcsetattr(self._fd, termios.TCSADRAIN, self._mode)

    def _write(self, text: str) -> None:
        data = text.encode("utf-8", "replace")
        try:
            while data:
                data = data[os.write(self._out, data) :]
        except OSError:
            self._ended = True  # nobody sees it any more

    def _on_resized(self, number: int, frame: FrameType | None) -> None:
        self._shown = []  # that this signal came wakes whoever waits, to draw all of it anew

    def _on_ended(self, number: int, frame: FrameType | None) -> None:
        self._ended = True

    def _on_suspended(self, number: int, frame: FrameType | None) -> None:
        """The shell that gets the terminal meanwhile finds it as it was."""
        self._give_back()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self._on_suspended)
        self._take()


def _written(line: Line, columns: int, *, coloured: bool) -> str:
    """A line and what clears the rest of it. At the last column there is no rest, and to clear it
    would take the last letter away."""
    rest = "\x1b[K" if length(line) < columns else ""
    return painted(line, coloured=coloured) + rest

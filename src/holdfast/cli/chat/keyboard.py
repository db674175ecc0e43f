"""The keyboard: whole messages, from whoever types them or pipes them in."""

import os
import select
import signal
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto
from typing import Protocol, Self, TextIO

BLOCK = '"""'
PROMPT, MORE = "> ", "… "


class Wake(Enum):
    """Why `wait` came back."""

    EVENT = auto()  # somebody called `wake`
    INPUT = auto()  # there is a message to read, or the end of them
    INTERRUPT = auto()  # Ctrl-C


class Keyboard(Protocol):
    """Where messages come from, while its context is open."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: object) -> None: ...
    def wake(self) -> None:
        """Make `wait` return; may be called in any thread."""
        ...

    def wait(self, *, ready: bool) -> Wake:
        """`ready`: nothing runs, and the next message is waited for."""
        ...

    def read(self) -> str:
        """One message, "" for one that was given up; raises `EOFError` after the last."""
        ...


class Waking:
    """Owns a pipe that wakes a `select`; every signal with a handler of ours writes to it too."""

    def __init__(self) -> None:
        self.fd, self._in = os.pipe()
        for fd in (self.fd, self._in):
            os.set_blocking(fd, False)
        self._before = signal.set_wakeup_fd(self._in, warn_on_full_buffer=False)

    def wake(self) -> None:
        with suppress(BlockingIOError):  # full: it will wake anyway
            os.write(self._in, b"\0")

    def drain(self) -> None:
        with suppress(BlockingIOError):
            while os.read(self.fd, 4096):
                pass

    def close(self) -> None:
        signal.set_wakeup_fd(self._before)
        os.close(self.fd)
        os.close(self._in)


class PipedKeyboard:
    """Lines of a pipe, each a message that is sent when the one before has its answer."""

    def __init__(self, lines: TextIO) -> None:
        self._lines = lines

    def __enter__(self) -> Self:
        self._waking = Waking()
        return self

    def __exit__(self, *exc: object) -> None:
        self._waking.close()

    def wake(self) -> None:
        self._waking.wake()

    def wait(self, *, ready: bool) -> Wake:
        if ready:
            return Wake.INPUT
        select.select([self._waking.fd], [], [])
        self._waking.drain()
        return Wake.EVENT

    def read(self) -> str:
        return read_message(self._line)

    def _line(self, prompt: str) -> str:
        line = self._lines.readline()
        if not line:
            raise EOFError
        return line.removesuffix("\n")


def read_message(read_line: Callable[[str], str]) -> str:
    r"""One message: a line, lines that end in \, or a block between two lines of \"\"\"."""
    line = read_line(PROMPT)
    if line.strip() == BLOCK:
        return _block(read_line)
    lines = [line]
    while lines[-1].endswith("\\"):
        lines[-1] = lines[-1][:-1]
        lines.append(_next(read_line))
    return "\n".join(lines)


def _block(read_line: Callable[[str], str]) -> str:
    lines = []
    with suppress(EOFError):  # a block that nobody closed ends with what there is
        while (line := read_line(MORE)).strip() != BLOCK:
            lines.append(line)
    return "\n".join(lines)


def _next(read_line: Callable[[str], str]) -> str:
    try:
        return read_line(MORE)
    except EOFError:
        return ""

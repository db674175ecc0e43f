"""The chat's input: whole messages from a pipe, and the pipe that wakes a select()."""

import os
import select
import signal
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto
from typing import Protocol, Self, TextIO

BLOCK_DELIMITER = '"""'
PROMPT, CONTINUATION_PROMPT = "> ", "… "


class WakeReason(Enum):
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

    def wait(self, *, ready: bool) -> WakeReason:
        """`ready`: nothing runs, and the next message is waited for."""
        ...

    def read(self) -> str:
        """One message, "" for one that was given up; raises `EOFError` after the last."""
        ...


class WakePipe:
    """Owns a pipe that wakes a `select`; every signal with a handler of ours writes to it too."""

    def __init__(self) -> None:
        self.fd, self._write_fd = os.pipe()
        for fd in (self.fd, self._write_fd):
            os.set_blocking(fd, False)
        self._previous_fd = signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)

    def wake(self) -> None:
        with suppress(BlockingIOError):  # full: it will wake anyway
            os.write(self._write_fd, b"\0")

    def drain(self) -> None:
        with suppress(BlockingIOError):
            while os.read(self.fd, 4096):
                pass

    def close(self) -> None:
        signal.set_wakeup_fd(self._previous_fd)
        os.close(self.fd)
        os.close(self._write_fd)


class PipedKeyboard:
    """Lines of a pipe, each a message that is sent when the one before has its answer."""

    def __init__(self, lines: TextIO) -> None:
        self._lines = lines

    def __enter__(self) -> Self:
        self._wake_pipe = WakePipe()
        return self

    def __exit__(self, *exc: object) -> None:
        self._wake_pipe.close()

    def wake(self) -> None:
        self._wake_pipe.wake()

    def wait(self, *, ready: bool) -> WakeReason:
        if ready:
            return WakeReason.INPUT
        select.select([self._wake_pipe.fd], [], [])
        self._wake_pipe.drain()
        return WakeReason.EVENT

    def read(self) -> str:
        return read_message(self._read_line)

    def _read_line(self, prompt: str) -> str:
        line = self._lines.readline()
        if not line:
            raise EOFError
        return line.removesuffix("\n")


def read_message(read_line: Callable[[str], str]) -> str:
    r"""One message: a line, lines that end in \, or a block between two lines of \"\"\"."""
    line = read_line(PROMPT)
    if line.strip() == BLOCK_DELIMITER:
        return _read_block(read_line)
    lines = [line]
    while lines[-1].endswith("\\"):
        lines[-1] = lines[-1][:-1]
        lines.append(_read_continuation(read_line))
    return "\n".join(lines)


def _read_block(read_line: Callable[[str], str]) -> str:
    lines = []
    with suppress(EOFError):  # an unclosed block ends with the input
        while (line := read_line(CONTINUATION_PROMPT)).strip() != BLOCK_DELIMITER:
            lines.append(line)
    return "\n".join(lines)


def _read_continuation(read_line: Callable[[str], str]) -> str:
    try:
        return read_line(CONTINUATION_PROMPT)
    except EOFError:
        return ""

"""The chat's input: messages from a pipe or a dumb terminal, and the protocol of all inputs."""

import os
import select
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto
from types import FrameType
from typing import Protocol, Self, TextIO

from holdfast.cli.chat.screen import Screen

BLOCK_DELIMITER = '"""'
PROMPT, CONTINUATION_PROMPT = "> ", "… "


class WakeReason(Enum):
    """Why `wait` returned."""

    EVENT = auto()  # `wake` was called
    INPUT = auto()  # there is a message to read, or the end of the input
    INTERRUPT = auto()  # Ctrl-C


class Keyboard(Protocol):
    """Where messages come from, while its context is open."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: object) -> None: ...
    def wake(self) -> None:
        """Makes `wait` return; may be called in any thread."""
        ...

    def wait(self, *, ready: bool) -> WakeReason:
        """`ready`: nothing runs, and the next message is expected."""
        ...

    def read(self) -> str:
        """One message, "" for one that was abandoned; raises `EOFError` after the last."""
        ...


class WakePipe:
    """Owns a pipe that wakes a `select`."""

    def __init__(self) -> None:
        self.fd, self._write_fd = os.pipe()
        for fd in (self.fd, self._write_fd):
            os.set_blocking(fd, False)

    def wake(self) -> None:
        with suppress(BlockingIOError):  # full: it will wake anyway
            os.write(self._write_fd, b"\0")

    def drain(self) -> None:
        with suppress(BlockingIOError):
            while os.read(self.fd, 4096):
                pass

    def close(self) -> None:
        os.close(self.fd)
        os.close(self._write_fd)


class LineKeyboard:
    """Whole lines of a dumb terminal, as the terminal itself edits them. Owns Ctrl-C."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._interrupted = False
        self._reading = False

    def __enter__(self) -> Self:
        self._wake_pipe = WakePipe()
        self._interrupt_handler = signal.signal(signal.SIGINT, self._on_interrupt)
        return self

    def __exit__(self, *exc: object) -> None:
        signal.signal(signal.SIGINT, self._interrupt_handler)
        self._wake_pipe.close()

    def wake(self) -> None:
        self._wake_pipe.wake()

    def wait(self, *, ready: bool) -> WakeReason:
        if ready:
            self._screen.prompt(PROMPT)
        readable, _, _ = select.select([sys.stdin.fileno(), self._wake_pipe.fd], [], [])
        if self._wake_pipe.fd in readable:
            self._wake_pipe.drain()
        if self._interrupted:
            self._interrupted = False
            return WakeReason.INTERRUPT
        return WakeReason.EVENT if self._wake_pipe.fd in readable else WakeReason.INPUT

    def read(self) -> str:
        self._screen.clear()
        self._reading = True
        try:
            return read_message(lambda: _read_line(sys.stdin))
        except KeyboardInterrupt:
            return ""
        finally:
            self._reading = False

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        if self._reading:  # elsewhere, an exception would break what runs
            raise KeyboardInterrupt
        self._interrupted = True
        self._wake_pipe.wake()


class PipedKeyboard:
    """Lines of a pipe. Each is a message, sent when the one before it has its answer."""

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
        return read_message(lambda: _read_line(self._lines))


def _read_line(lines: TextIO) -> str:
    line = lines.readline()
    if not line:
        raise EOFError
    return line.removesuffix("\n")


def read_message(read_line: Callable[[], str]) -> str:
    r"""One message: a line, lines that end in \, or a block between two lines of \"\"\"."""
    line = read_line()
    if line.strip() == BLOCK_DELIMITER:
        return _read_block(read_line)
    lines = [line]
    while lines[-1].endswith("\\"):
        lines[-1] = lines[-1][:-1]
        lines.append(_read_continuation(read_line))
    return "\n".join(lines)


def _read_block(read_line: Callable[[], str]) -> str:
    lines = []
    with suppress(EOFError):  # an unclosed block ends with the input
        while (line := read_line()).strip() != BLOCK_DELIMITER:
            lines.append(line)
    return "\n".join(lines)


def _read_continuation(read_line: Callable[[], str]) -> str:
    try:
        return read_line()
    except EOFError:
        return ""

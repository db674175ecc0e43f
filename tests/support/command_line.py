"""`holdfast` as a real process: with captured output, at a terminal, and as a gateway."""

import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.fork_server import GATEWAY, ForkedProcess, fork_process

from holdfast.system.lock import read_holder
from holdfast.testing.misbehaving_model.process import ModelProcess

HOLDFAST = Path(sys.executable).parent / "holdfast"
Cli = Callable[..., subprocess.CompletedProcess[str]]
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\r|[\x01\x02\x07]")
_ERASE_LINE = "\r\x1b[K"  # what follows replaces the line


def environment(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "HOLDFAST_HOME": str(tmp_path / "home"), "LANG": "C.UTF-8"}


class CliGateway:
    """Owns a gateway as a process of its own, which can be killed and started again."""

    def __init__(self, tmp_path: Path, **variables: str) -> None:
        self._environ = environment(tmp_path) | variables
        self.home = tmp_path / "home"
        self.environ = {"HOLDFAST_HOME": str(self.home)}
        self._log = tmp_path / "gateway.stderr"
        self._process: ForkedProcess | None = None

    def configure(self, toml: str) -> None:
        self.home.mkdir(mode=0o700, exist_ok=True)
        (self.home / "holdfast.toml").write_text(toml)

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = fork_process(
                GATEWAY, "run", "--port", "0", env=self._environ, stderr=log
            )
        assert self._process.stdout is not None
        assert b"listens on" in self._process.stdout.readline(), self._log.read_text()
        holder = read_holder(self.home)
        assert holder is not None
        self.address = holder.address

    def kill(self) -> None:
        """`kill -9`, in the middle of anything."""
        assert self._process is not None
        self._process.kill()
        self._reap()

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self._reap()

    def _reap(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        self._process.wait(60)
        self._process.stdout.close()


@contextmanager
def running_gateway(folder: Path, model: ModelProcess) -> Iterator[CliGateway]:
    gateway = CliGateway(folder)
    gateway.configure(
        f'[model]\nprovider = "local"\nbase_url = "{model.base_url}"\n'
        '[runner]\nsandbox = "off"\nsandbox_off_as_root = true\n'
    )
    gateway.start()
    try:
        yield gateway
    finally:
        gateway.stop()


class Terminal:
    """A person at a terminal: types, and reads the screen as plain text."""

    def __init__(self, *args: str, environ: dict[str, str], columns: int = 100) -> None:
        self.fd, theirs = pty.openpty()
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        self.process = subprocess.Popen(
            [HOLDFAST, *args],
            env={"TERM": "xterm", **environ},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=_own_the_terminal,
        )
        os.close(theirs)
        # A character of several bytes may come in two reads.
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.raw = ""
        self._seen = 0
        import pyte  # noqa: PLC0415 - only tests at a terminal need it

        self._screen = pyte.HistoryScreen(columns, 40, history=10_000, ratio=0.001)
        self._emulator = pyte.Stream(self._screen)

    @property
    def screen(self) -> str:
        """What the terminal shows, below what has scrolled away."""
        above = (
            "".join(line[x].data for x in range(len(line))) for line in self._screen.history.top
        )
        lines = [*above, *self._screen.display]
        return "\n".join(line.rstrip() for line in lines).rstrip("\n")

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self._screen.resize(lines, columns)

    @property
    def cursor_column(self) -> int:
        return int(self._screen.cursor.x)

    def wait_for_prompt(self) -> None:
        """Wait until the last line is an empty prompt of the chat."""
        deadline = time.monotonic() + 60
        while self.screen.rpartition("\n")[2] != ">":
            assert self._read(deadline - time.monotonic()), self.screen

    def wait_for_screen(self, text: str, *, within: float = 60) -> None:
        """Wait until the terminal shows a text, wherever it is."""
        deadline = time.monotonic() + within
        while text not in self.screen:
            if not self._read(deadline - time.monotonic()):
                raise AssertionError(f"{text!r} is not on the screen:\n{self.screen}")

    @property
    def text(self) -> str:
        return _ESCAPES.sub("", self.raw.replace(_ERASE_LINE, "\n"))

    def type_keys(self, keys: str) -> None:
        os.write(self.fd, keys.encode())

    def type_line(self, line: str) -> None:
        self.type_keys(line + "\r")

    def wait_for_text(self, text: str, *, within: float = 60) -> str:
        """Wait for a text after the last one that was found; returns what precedes it."""
        deadline = time.monotonic() + within
        while (start := self.text.find(text, self._seen)) < 0:
            if not self._read(deadline - time.monotonic()):
                raise AssertionError(f"{text!r} did not come in: {self.text[self._seen :]!r}")
        before = self.text[self._seen : start]
        self._seen = start + len(text)
        return before

    def wait_until_idle(self) -> None:
        """Wait until the program sleeps in a system call."""
        stat = Path(f"/proc/{self.process.pid}/stat")
        deadline = time.monotonic() + 60
        while stat.read_text().rpartition(")")[2].split()[0] != "S":
            assert time.monotonic() < deadline, self.text
            time.sleep(0.01)

    def wait_for_exit(self) -> int:
        """Wait for the program to end by itself."""
        while self._read(60):
            pass
        return self.process.wait(60)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.fd)

    def _read(self, timeout: float) -> bool:
        if timeout <= 0 or not select.select([self.fd], [], [], timeout)[0]:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # the other end is gone
            return False
        text = self._decoder.decode(data)
        self.raw += text
        self._emulator.feed(text)
        return bool(data)


def reset_sigint() -> None:
    """As a shell at a terminal does: a test run in the background ignores SIGINT, and its
    child processes inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _own_the_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    reset_sigint()


@pytest.fixture
def open_terminal(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    """Starts `holdfast` with the given arguments at a terminal."""
    made: list[Terminal] = []

    def start(*args: str, **environ: str) -> Terminal:
        made.append(Terminal(*args, environ=environment(tmp_path) | environ))
        return made[-1]

    yield start
    for each in made:
        each.close()

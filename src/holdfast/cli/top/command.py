"""`holdfast top`: the live view of a gateway, drawn on the terminal's alternate screen."""

import os
import select
import signal
import sys
import termios
import time
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType
from typing import Self

import click

from holdfast.cli.chat.keyboard import WakePipe
from holdfast.cli.common.options import chosen_home, home_option
from holdfast.cli.common.output import is_coloured, is_dumb
from holdfast.cli.status.command import render_status as look_once
from holdfast.cli.top.frame import (
    StatusSample,
    TerminalLine,
    TopKey,
    TopView,
    apply_key,
    line_width,
    parse_keys,
    read_sample,
    render_frame,
    render_plain,
    to_ansi,
)
from holdfast.system.paths import Paths

_ENTER_SCREEN = "\x1b[?1049h\x1b[?25l\x1b[2J"  # the other screen, without a cursor, and empty
_LEAVE_SCREEN = "\x1b[0m\x1b[?25h\x1b[?1049l"
_READ_SIZE = 65536


class FullScreenTerminal:
    """Owns the terminal's mode, its other screen and the signals about them, while its context is
    open. What is drawn differs from what stands there line by line, so that nothing flickers."""

    def __init__(self, *, coloured: bool) -> None:
        self._coloured = coloured
        self._drawn_lines: list[str] = []
        self._ended = False

    def __enter__(self) -> Self:
        self._fd, self._out = sys.stdin.fileno(), sys.stdout.fileno()
        self._wake_pipe = WakePipe()
        self._mode = termios.tcgetattr(self._fd)
        self._handlers = {
            number: signal.signal(number, handler)
            for number, handler in (
                (signal.SIGWINCH, self._on_resized),
                (signal.SIGTSTP, self._on_terminal_stop),
                (signal.SIGINT, self._on_ended),
                (signal.SIGTERM, self._on_ended),
                (signal.SIGHUP, self._on_ended),
            )
        }
        self._enter()
        return self

    def __exit__(self, *exc: object) -> None:
        self._leave()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._wake_pipe.close()

    @property
    def size(self) -> os.terminal_size:
        found = os.get_terminal_size(self._out)
        # One that does not know its size says 0.
        return os.terminal_size((found.columns or 80, found.lines or 24))

    def draw(self, lines: Sequence[TerminalLine]) -> None:
        columns = self.size.columns
        fresh = [_line_to_ansi(line, columns, coloured=self._coloured) for line in lines]
        if len(fresh) != len(self._drawn_lines):
            self._drawn_lines = []
        changed = [
            f"\x1b[{number};1H{text}"
            for number, text in enumerate(fresh, start=1)
            if self._drawn_lines[number - 1 : number] != [text]
        ]
        self._drawn_lines = fresh
        self._write("".join(changed))

    def wait(self, timeout: float | None) -> list[TopKey]:
        """What was pressed, nothing if the time is over or the size has changed. The end of the
        terminal, or of the process that started this, is a key to quit."""
        if self._ended:
            return [TopKey.QUIT]
        readable, _, _ = select.select([self._fd, self._wake_pipe.fd], [], [], timeout)
        if self._wake_pipe.fd in readable:
            self._wake_pipe.drain()
        if self._ended:
            return [TopKey.QUIT]
        return self._read() if self._fd in readable else []

    def _read(self) -> list[TopKey]:
        try:
            typed = os.read(self._fd, _READ_SIZE)
        except OSError:
            typed = b""  # the terminal is gone
        return parse_keys(typed) if typed else [TopKey.QUIT]

    def _enter(self) -> None:
        mode = termios.tcgetattr(self._fd)
        mode[3] &= ~(termios.ECHO | termios.ICANON)
        mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 0
        termios.tcsetattr(self._fd, termios.TCSADRAIN, mode)
        self._drawn_lines = []
        self._write(_ENTER_SCREEN)

    def _leave(self) -> None:
        self._write(_LEAVE_SCREEN)
        with suppress(termios.error):  # it is gone, and with it what was to be put back
            termios.tcsetattr(self._fd, termios.TCSADRAIN, self._mode)

    def _write(self, text: str) -> None:
        data = text.encode("utf-8", "replace")
        try:
            while data:
                data = data[os.write(self._out, data) :]
        except OSError:
            self._ended = True  # the terminal is gone

    def _on_resized(self, number: int, frame: FrameType | None) -> None:
        self._drawn_lines = []  # this signal wakes the loop, which draws everything again

    def _on_ended(self, number: int, frame: FrameType | None) -> None:
        self._ended = True

    def _on_terminal_stop(self, number: int, frame: FrameType | None) -> None:
        """The shell that gets the terminal meanwhile finds it as it was."""
        self._leave()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self._on_terminal_stop)
        self._enter()


def _line_to_ansi(line: TerminalLine, columns: int, *, coloured: bool) -> str:
    """A line and what clears the rest of it. At the last column there is no rest, and to clear it
    would take the last letter away."""
    rest = "\x1b[K" if line_width(line) < columns else ""
    return to_ansi(line, coloured=coloured) + rest


@click.command("top")
@home_option
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print a line of JSON at each look, until Ctrl-C; with --once, one.",
)
@click.option("--once", is_flag=True, help="Look once, print it, and exit as `status` does.")
@click.option(
    "--every",
    type=click.FloatRange(min=0.2, max=3600),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait between two looks.",
)
def command(as_json: bool, once: bool, every: float) -> None:
    """Watch the gateway at work.

    How it is, what it did in the last hour, and the turns that are open, with their session,
    step and tools. It waits for a gateway that is down, and stays across restarts. Keys: q quits,
    arrows or j and k choose a turn, enter shows all of it, p pauses the screen, ? helps. Where
    there is no terminal to draw on, it looks once, but for --json.

    \b
    Examples:
      holdfast top
      holdfast top --every 0.5
      holdfast top --once
      holdfast top --json --every 60
    """
    paths = Paths(chosen_home())
    if as_json:
        _print_json_lines(paths, once=once, every=every)
    elif once or is_dumb(sys.stdout) or not sys.stdin.isatty():
        _print_once(read_sample(paths, now=time.time()))
    else:
        with FullScreenTerminal(coloured=is_coloured(sys.stdout)) as terminal:
            _run_live(paths, terminal, every=every)


def _print_once(sample: StatusSample) -> None:
    coloured = is_coloured(sys.stdout)
    for line in render_plain(sample):
        click.echo(to_ansi(line, coloured=coloured), err=sample.document is None)
    sys.exit(sample.exit_code)


def _print_json_lines(paths: Paths, *, once: bool, every: float) -> None:
    """What `status --json` prints, one document a line."""
    try:
        while True:
            text, code = look_once(paths, as_json=True)
            click.echo(text)
            if once:
                sys.exit(code)
            time.sleep(every)
    except KeyboardInterrupt:
        return


def _run_live(paths: Paths, terminal: FullScreenTerminal, *, every: float) -> None:
    view, sample = TopView(), read_sample(paths, now=time.time())
    due = time.monotonic() + every
    while True:
        terminal.draw(render_frame(sample, view, terminal.size))
        left = None if view.paused else max(0.0, due - time.monotonic())
        typed = terminal.wait(left)
        if TopKey.QUIT in typed:
            return
        for key in typed:
            view = apply_key(view, key, sample.turns)
        if TopKey.REFRESH in typed or (not view.paused and time.monotonic() >= due):
            sample = read_sample(paths, now=time.time())
            due = time.monotonic() + every

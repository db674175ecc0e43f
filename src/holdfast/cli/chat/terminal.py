"""The terminal: readline with its history, and a screen that is the conversation's between keys."""

import os
import readline
import select
import signal
import sys
import termios
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Self

from holdfast.cli.chat.keyboard import MORE, PROMPT, Wake, Waking, read_message
from holdfast.cli.chat.screen import Screen

_HISTORY_LENGTH = 1000
_COLOURED = "\001\033[1;34m\002{}\001\033[0m\002"  # marked, so that readline can count columns


class TerminalKeyboard:
    """Owns the terminal's mode, readline and its history while its context is open.

    Until the first key of a message nothing is echoed and the screen belongs to the
    conversation; then it is readline's, to the end of the message. A `dumb` terminal stays in
    the mode it is in, and gives whole lines.
    """

    def __init__(
        self, screen: Screen, *, history: Path, commands: Callable[[], Sequence[str]], dumb: bool
    ) -> None:
        self._screen = screen
        self._history = history
        self._commands = commands
        self._names: Sequence[str] | None = None
        self._dumb = dumb
        self._interrupted = False
        self._reading = False

    def __enter__(self) -> Self:
        self._waking = Waking()
        self._mode = termios.tcgetattr(sys.stdin)
        self._handlers = {
            signal.SIGINT: signal.signal(signal.SIGINT, self._on_interrupt),
            signal.SIGCONT: signal.signal(signal.SIGCONT, self._on_continued),
        }
        self._prepare_readline()
        self._listen(echo=False)
        return self

    def __exit__(self, *exc: object) -> None:
        self._screen.clear()
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._mode)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._waking.close()

    def wake(self) -> None:
        self._waking.wake()

    def wait(self, *, ready: bool) -> Wake:
        if ready:
            self._screen.prompt(PROMPT)
        readable, _, _ = select.select([sys.stdin.fileno(), self._waking.fd], [], [])
        if self._waking.fd in readable:
            self._waking.drain()
        if self._interrupted:
            self._interrupted = False
            return Wake.INTERRUPT
        return Wake.EVENT if self._waking.fd in readable else Wake.INPUT

    def read(self) -> str:
        self._screen.clear()
        self._reading = True
        self._listen(echo=True)  # or readline thinks that nobody wants to see what is typed
        try:
            return read_message(self._line)
        except KeyboardInterrupt:
            sys.stdout.write("\n")
            return ""
        except EOFError:
            sys.stdout.write("\n")  # or the shell's prompt comes up behind ours
            raise
        finally:
            self._reading = False
            self._listen(echo=False)
            self._save_history()

    def _line(self, prompt: str) -> str:
        if self._dumb:
            return _plain_line()
        line = input(_COLOURED.format(prompt))
        # What is there at once was pasted. A readline that knows pastes has it in one piece.
        while select.select([sys.stdin.fileno()], [], [], 0)[0]:
            line += "\n" + input(_COLOURED.format(MORE))
        return line

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        # At any other place an exception would tear whatever is going on there.
        if self._reading:
            raise KeyboardInterrupt
        self._interrupted = True

    def _on_continued(self, number: int, frame: FrameType | None) -> None:
        if not self._reading:  # readline sets its own mode
            self._listen(echo=False)

    def _listen(self, *, echo: bool) -> None:
        """Take keys as they come, not whole lines; what is typed already stays to be read."""
        if self._dumb:
            return
        mode = termios.tcgetattr(sys.stdin)
        mode[3] &= ~(termios.ECHO | termios.ICANON)
        mode[3] |= termios.ECHO if echo else 0
        mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 0
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, mode)

    def _prepare_readline(self) -> None:
        with suppress(OSError):  # no history yet, or none that can be read
            readline.read_history_file(self._history)
        readline.set_history_length(_HISTORY_LENGTH)
        readline.set_completer(self._complete)
        readline.set_completer_delims(" \t\n")
        libedit = "libedit" in (readline.__doc__ or "")
        readline.parse_and_bind("bind ^I rl_complete" if libedit else "tab: complete")

    def _complete(self, text: str, place: int) -> str | None:
        if not text.startswith("/") or readline.get_begidx() > 0:
            return None
        if self._names is None:
            self._names = self._commands()
        fitting = [name for name in self._names if name.startswith(text)]
        return fitting[place] + " " if place < len(fitting) else None

    def _save_history(self) -> None:
        """After each message: whatever ends this program, what was typed is kept."""
        with suppress(OSError):  # a history that cannot be kept is no reason to lose a message
            os.close(os.open(self._history, os.O_WRONLY | os.O_CREAT, 0o600))
            os.chmod(self._history, 0o600)
            readline.write_history_file(self._history)


def _plain_line() -> str:
    """A line as the terminal itself edits it: readline would draw on what cannot be drawn on."""
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.removesuffix("\n")

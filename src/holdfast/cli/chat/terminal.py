"""The chat's input on a terminal: readline with history and completion.

Imports readline, which may write to the terminal: import this module only after checking that
stdin is a TTY.
"""

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

from holdfast.cli.chat.keyboard import (
    CONTINUATION_PROMPT,
    PROMPT,
    WakePipe,
    WakeReason,
    read_message,
)
from holdfast.cli.chat.screen import Screen

_HISTORY_LENGTH = 1000
_COLOURED_PROMPT = (
    "\001\033[1;34m\002{}\001\033[0m\002"  # marked, so that readline can count columns
)


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
        self._command_names: Sequence[str] | None = None
        self._dumb = dumb
        self._interrupted = False
        self._reading = False

    def __enter__(self) -> Self:
        self._wake_pipe = WakePipe()
        self._mode = termios.tcgetattr(sys.stdin)
        self._handlers = {
            signal.SIGINT: signal.signal(signal.SIGINT, self._on_interrupt),
            signal.SIGCONT: signal.signal(signal.SIGCONT, self._on_continued),
        }
        self._prepare_readline()
        self._set_character_mode(echo=False)
        return self

    def __exit__(self, *exc: object) -> None:
        self._screen.clear()
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._mode)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
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
        self._set_character_mode(echo=True)  # or readline does not echo what is typed
        try:
            return read_message(self._read_line)
        except KeyboardInterrupt:
            sys.stdout.write("\n")
            return ""
        except EOFError:
            sys.stdout.write("\n")  # or the shell's prompt comes up behind ours
            raise
        finally:
            self._reading = False
            self._set_character_mode(echo=False)
            self._save_history()

    def _read_line(self, prompt: str) -> str:
        if self._dumb:
            return _read_plain_line()
        line = input(_COLOURED_PROMPT.format(prompt))
        # What is there at once was pasted. A readline that knows pastes has it in one piece.
        while select.select([sys.stdin.fileno()], [], [], 0)[0]:
            line += "\n" + input(_COLOURED_PROMPT.format(CONTINUATION_PROMPT))
        return line

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        # At any other place an exception would tear whatever is going on there.
        if self._reading:
            raise KeyboardInterrupt
        self._interrupted = True

    def _on_continued(self, number: int, frame: FrameType | None) -> None:
        if not self._reading:  # readline sets its own mode
            self._set_character_mode(echo=False)

    def _set_character_mode(self, *, echo: bool) -> None:
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

    def _complete(self, text: str, index: int) -> str | None:
        if not text.startswith("/") or readline.get_begidx() > 0:
            return None
        if self._command_names is None:
            self._command_names = self._commands()
        matching = [name for name in self._command_names if name.startswith(text)]
        return matching[index] + " " if index < len(matching) else None

    def _save_history(self) -> None:
        """After each message: whatever ends this program, what was typed is kept."""
        with suppress(OSError):  # a history that cannot be kept is no reason to lose a message
            os.close(os.open(self._history, os.O_WRONLY | os.O_CREAT, 0o600))
            os.chmod(self._history, 0o600)
            readline.write_history_file(self._history)


def _read_plain_line() -> str:
    """A line as the terminal itself edits it: readline would draw on what cannot be drawn on."""
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.removesuffix("\n")

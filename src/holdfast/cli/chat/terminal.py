"""The chat's input on a terminal, by prompt_toolkit: history, several lines, completion.

Imports prompt_toolkit: import this module inside functions only.
"""

import os
import signal
import sys
import termios
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Self

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory
from prompt_toolkit.input import create_input
from prompt_toolkit.input.typeahead import get_typeahead, store_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import create_output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.shortcuts import CompleteStyle

from holdfast.cli.chat.keyboard import (
    BLOCK_DELIMITER,
    CONTINUATION_PROMPT,
    PROMPT,
    LineKeyboard,
    WakeReason,
)
from holdfast.cli.chat.screen import Screen

_HISTORY_LENGTH = 1000


class TerminalKeyboard(LineKeyboard):
    """Owns the terminal's mode and the prompt while its context is open.

    Until the first key of a message nothing is echoed and the screen belongs to the conversation;
    then it belongs to the prompt, to the end of the message.
    """

    def __init__(
        self, screen: Screen, *, history: Path, commands: Callable[[], Sequence[str]]
    ) -> None:
        super().__init__(screen)
        self._input = create_input(sys.stdin)
        output = create_output(sys.stdout)
        if isinstance(output, Vt100_Output):
            # It would ask for the cursor's position, and not every terminal answers.
            output.enable_cpr = False
        self._session: PromptSession[str] = PromptSession(
            [("ansiblue bold", PROMPT)],
            prompt_continuation=CONTINUATION_PROMPT,
            input=self._input,
            output=output,
            history=_PrivateHistory(history),
            completer=_CommandCompleter(commands),
            complete_while_typing=False,
            complete_style=CompleteStyle.READLINE_LIKE,
            reserve_space_for_menu=0,
            key_bindings=_key_bindings(),
            enable_suspend=True,
        )

    def __enter__(self) -> Self:
        self._mode = termios.tcgetattr(sys.stdin)
        self._continued_handler = signal.signal(signal.SIGCONT, self._on_continued)
        super().__enter__()
        self._take_keys()
        return self

    def __exit__(self, *exc: object) -> None:
        super().__exit__(*exc)
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._mode)
        signal.signal(signal.SIGCONT, self._continued_handler)

    def wait(self, *, ready: bool) -> WakeReason:
        if keys := get_typeahead(self._input):  # typed behind the end of the last message
            store_typeahead(self._input, keys)
            return WakeReason.INPUT
        return super().wait(ready=ready)

    def read(self) -> str:
        self._screen.clear()
        try:
            return _without_delimiters(self._session.prompt(handle_sigint=False))
        except KeyboardInterrupt:
            return ""
        finally:
            self._take_keys()

    def _on_continued(self, number: int, frame: FrameType | None) -> None:
        if not self._session.app.is_running:  # the prompt sets its own mode
            self._take_keys()

    def _take_keys(self) -> None:
        """Receives keys as they are typed, not lines; what was typed before is still read."""
        mode = termios.tcgetattr(sys.stdin)
        mode[3] &= ~(termios.ECHO | termios.ICANON)
        mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 0
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, mode)


def _key_bindings() -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("enter")
    def _accept_or_continue(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        elif _is_open_block(buffer.text):
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    return bindings


def _is_open_block(text: str) -> bool:
    first, *rest = text.split("\n")
    return first.strip() == BLOCK_DELIMITER and BLOCK_DELIMITER not in map(str.strip, rest)


def _without_delimiters(text: str) -> str:
    first, *rest = text.split("\n")
    if first.strip() != BLOCK_DELIMITER:
        return text
    return "\n".join(line for line in rest if line.strip() != BLOCK_DELIMITER)


class _CommandCompleter(Completer):
    """Completes the command a message begins with. `commands` is called once, at the first Tab."""

    def __init__(self, commands: Callable[[], Sequence[str]]) -> None:
        self._commands = commands
        self._names: Sequence[str] | None = None

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterator[Completion]:
        typed = document.text_before_cursor
        if not typed.startswith("/") or any(map(str.isspace, typed)):
            return
        if self._names is None:
            self._names = self._commands()
        for name in self._names:
            if name.startswith(typed):
                yield Completion(f"{name} ", start_position=-len(typed))


class _PrivateHistory(FileHistory):
    """The messages of earlier chats, in a file of mode 0600. Without one, a chat works as well."""

    def load_history_strings(self) -> Iterable[str]:
        with suppress(OSError):
            yield from islice(super().load_history_strings(), _HISTORY_LENGTH)

    def store_string(self, string: str) -> None:
        with suppress(OSError):
            os.close(os.open(self.filename, os.O_WRONLY | os.O_CREAT, 0o600))
            os.chmod(self.filename, 0o600)
            super().store_string(string)

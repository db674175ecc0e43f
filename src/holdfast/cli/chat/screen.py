"""The output of the chat: replies, tool calls, and a last part that is replaced by what follows."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TextIO

from holdfast.cli.common.output import is_dumb, sanitize
from holdfast.core.messages.transcript import ToolMessage, ToolOutcome, summarise_arguments
from holdfast.core.text.locale_format import format_duration
from holdfast.core.text.translation import N_, _


class Screen(Protocol):
    """Where a conversation is shown. Texts are sanitized here; styles are those of rich."""

    def stream(self, piece: str) -> None:
        """Continues a reply, which is Markdown."""
        ...

    def end_stream(self) -> None:
        """Ends the reply: what follows begins on a line of its own."""
        ...

    def print_line(self, text: str, style: str = "") -> None:
        """Prints one or several whole lines."""
        ...

    def print_step(self, text: str, outcome: str, style: str) -> None:
        """Prints a line that ends with an outcome; the text before it is truncated to fit."""
        ...

    def print_transient(self, text: str) -> None:
        """Shows a line until something else is shown, where that is possible."""
        ...

    def prompt(self, text: str) -> None:
        """Asks for input, until something else is shown."""
        ...

    def clear(self) -> None:
        """Removes what is transient: from now on, the current line belongs to the input."""
        ...


def open_screen(out: TextIO, *, steps_only: bool = False) -> Screen:
    """A screen for a stream. `steps_only`: replies are not shown."""
    if is_dumb(out):
        return PlainScreen(out, steps_only=steps_only)
    from holdfast.cli.chat.rich_screen import RichScreen  # noqa: PLC0415 - only on a terminal

    return RichScreen(out, steps_only=steps_only)


@contextmanager
def closing_screen(screen: Screen) -> Iterator[None]:
    """Leaves the terminal on an empty line, whatever happens."""
    try:
        yield
    finally:
        screen.end_stream()
        screen.clear()


class PlainScreen:
    """Plain lines for a pipe or a dumb terminal: nothing is transient, Markdown stays as it is."""

    def __init__(self, out: TextIO, *, steps_only: bool = False) -> None:
        self._out = out
        self._steps_only = steps_only
        self._mid_line = False

    def stream(self, piece: str) -> None:
        if piece and not self._steps_only:
            self._write(sanitize(piece))

    def end_stream(self) -> None:
        if self._mid_line:
            self._write("\n")

    def print_line(self, text: str, style: str = "") -> None:
        self.end_stream()
        self._write(f"{sanitize(text)}\n")

    def print_step(self, text: str, outcome: str, style: str) -> None:
        self.print_line(f"{text} {outcome}")

    def print_transient(self, text: str) -> None:
        pass

    def prompt(self, text: str) -> None:
        if not self._mid_line:
            self._write(text)

    def clear(self) -> None:
        self._mid_line = False

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
        self._mid_line = not text.endswith("\n")


# Done, failed and denied differ at a glance; all others are uncertain.
_OUTCOMES = {
    ToolOutcome.OK: (N_("ok"), "green"),
    ToolOutcome.ERROR: (N_("failed"), "red"),
    ToolOutcome.REFUSED: (N_("denied"), "magenta"),
    ToolOutcome.CANCELLED: (N_("cancelled"), "yellow"),
    ToolOutcome.NOT_STARTED: (N_("not started"), "yellow"),
    ToolOutcome.UNKNOWN: (N_("outcome unknown"), "yellow"),
}


def format_call(name: str, arguments: str) -> str:
    """`▸ terminal: ls -la`: the tool and its most telling argument."""
    summary = summarise_arguments(arguments)
    return f"▸ {name}: {summary}" if summary else f"▸ {name}"


def outcome_text(result: ToolMessage) -> str:
    """How a call ended, in words: `failed (exit code 3)`."""
    text = _(_OUTCOMES[result.outcome][0])
    if not result.exit_code:
        return text
    return _("{outcome} (exit code {code})").format(outcome=text, code=result.exit_code)


def format_outcome(result: ToolMessage, seconds: float | None) -> tuple[str, str]:
    """The end of that line, and its style."""
    took = "" if seconds is None else f" {format_duration(seconds)}"
    return f"… {outcome_text(result)}{took}", _OUTCOMES[result.outcome][1]


def last_line(output: str) -> str:
    lines = output.rstrip().splitlines()
    return lines[-1].strip() if lines else ""

"""The screen: one stream of text for a person, with a last line that may be rewritten."""

import shutil
from typing import Any, TextIO

import click

from holdfast.cli.chat.markdown import MarkdownStyle
from holdfast.cli.common.able import is_coloured, is_dumb
from holdfast.cli.common.columns import truncate
from holdfast.cli.common.harmless import sanitize

_CLEAR_LINE = "\r\033[K"


class Screen:
    """Owns what is written to `out`.

    On a terminal that can, colours are used and the last line is taken back and written anew;
    anywhere else every line stays, and is plain.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._live = not is_dumb(out)
        self._styled = is_coloured(out)
        self._markdown = MarkdownStyle()
        self._mid_line = False  # something that stays stands on the present line
        self._transient = ""  # what stands on the present line and does not stay

    def stream(self, piece: str) -> None:
        """Go on with a text that comes in pieces."""
        self._clear_transient()
        piece = sanitize(piece)
        shown = self._markdown.feed(piece) if self._styled else piece
        if shown:
            self._out.write(shown)
            self._mid_line = not shown.endswith("\n")
        self._out.flush()

    def end_stream(self) -> None:
        """The text is over: what comes next begins on a line of its own."""
        rest = self._markdown.finish()
        if rest:
            self._clear_transient()
            self._out.write(rest)
            self._mid_line = not rest.endswith("\n")
        if self._mid_line:
            self._out.write("\n")
            self._mid_line = False
        self._out.flush()

    def print_line(self, text: str, **style: bool | str) -> None:
        """A line, or several, that stand by themselves."""
        self._clear_transient()
        self.end_stream()
        self._out.write(self.style(sanitize(text), **style) + "\n")
        self._out.flush()

    def print_step(self, text: str, outcome: str, colour: str) -> None:
        """A line that ends in a verdict; what does not fit is left out before it."""
        self._clear_transient()
        self.end_stream()
        fitting = (
            self._fit(sanitize(text), reserved=len(outcome) + 1) if self._live else sanitize(text)
        )
        self._out.write(f"{self.style(fitting, dim=True)} {self.style(outcome, fg=colour)}\n")
        self._out.flush()

    def print_transient(self, text: str, *, dim: bool = True) -> None:
        """A last line that the next thing takes the place of; shown only where that can be done."""
        if not self._live or self._transient == text:
            return
        if self._mid_line:
            self.end_stream()
        self._clear_transient()
        self._transient = text
        self._out.write(self.style(self._fit(sanitize(text)), dim=dim))
        self._out.flush()

    def prompt(self, text: str) -> None:
        """Ask for input; where a line cannot be taken back, once."""
        if self._live:
            self.print_transient(text, dim=False)
        elif not self._mid_line:
            self._out.write(text)
            self._out.flush()
            self._mid_line = True

    def clear(self) -> None:
        """Whoever types has the present line from here on."""
        self._clear_transient()
        self._mid_line = False
        self._out.flush()

    def _clear_transient(self) -> None:
        if self._transient:
            self._out.write(_CLEAR_LINE)
            self._transient = ""

    def style(self, text: str, **style: Any) -> str:
        return click.style(text, **style) if self._styled and style else text

    def _fit(self, text: str, *, reserved: int = 0) -> str:
        return truncate(text, max(20, shutil.get_terminal_size().columns - 1 - reserved))

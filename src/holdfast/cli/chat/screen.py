"""The screen: one stream of text for a person, with a last line that may be rewritten."""

import shutil
from typing import Any, TextIO

import click

from holdfast.cli.chat.markdown import MarkdownStyle
from holdfast.cli.common.able import is_coloured, is_dumb
from holdfast.cli.common.columns import clipped
from holdfast.cli.common.harmless import safe

_CLEAR = "\r\033[K"


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
        self._in_line = False  # something that stays stands on the present line
        self._passing = ""  # what stands on the present line and does not stay

    def stream(self, piece: str) -> None:
        """Go on with a text that comes in pieces."""
        self._clear()
        piece = safe(piece)
        shown = self._markdown.feed(piece) if self._styled else piece
        if shown:
            self._out.write(shown)
            self._in_line = not shown.endswith("\n")
        self._out.flush()

    def end_stream(self) -> None:
        """The text is over: what comes next begins on a line of its own."""
        rest = self._markdown.finish()
        if rest:
            self._clear()
            self._out.write(rest)
            self._in_line = not rest.endswith("\n")
        if self._in_line:
            self._out.write("\n")
            self._in_line = False
        self._out.flush()

    def line(self, text: str, **style: bool | str) -> None:
        """A line, or several, that stand by themselves."""
        self._clear()
        self.end_stream()
        self._out.write(self.style(safe(text), **style) + "\n")
        self._out.flush()

    def step(self, text: str, verdict: str, colour: str) -> None:
        """A line that ends in a verdict; what does not fit is left out before it."""
        self._clear()
        self.end_stream()
        fitting = self._fit(safe(text), spare=len(verdict) + 1) if self._live else safe(text)
        self._out.write(f"{self.style(fitting, dim=True)} {self.style(verdict, fg=colour)}\n")
        self._out.flush()

    def passing(self, text: str, *, dim: bool = True) -> None:
        """A last line that the next thing takes the place of; shown only where that can be done."""
        if not self._live or self._passing == text:
            return
        if self._in_line:
            self.end_stream()
        self._clear()
        self._passing = text
        self._out.write(self.style(self._fit(safe(text)), dim=dim))
        self._out.flush()

    def prompt(self, text: str) -> None:
        """Ask for input; where a line cannot be taken back, once."""
        if self._live:
            self.passing(text, dim=False)
        elif not self._in_line:
            self._out.write(text)
            self._out.flush()
            self._in_line = True

    def clear(self) -> None:
        """Whoever types has the present line from here on."""
        self._clear()
        self._in_line = False
        self._out.flush()

    def _clear(self) -> None:
        if self._passing:
            self._out.write(_CLEAR)
            self._passing = ""

    def style(self, text: str, **style: Any) -> str:
        return click.style(text, **style) if self._styled and style else text

    def _fit(self, text: str, *, spare: int = 0) -> str:
        return clipped(text, max(20, shutil.get_terminal_size().columns - 1 - spare))

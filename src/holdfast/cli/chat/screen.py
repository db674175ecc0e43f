"""The output of the chat: streamed Markdown, tool calls, and a last line that can be rewritten."""

import re
import shutil
from typing import Any, TextIO

import click

from holdfast.cli.common.output import is_coloured, is_dumb, sanitize, truncate
from holdfast.core.messages.transcript import ToolOutcome, summarise_arguments

BOLD, CODE, DIM, PLAIN = "\033[1m", "\033[36m", "\033[2m", "\033[0m"
_SPECIAL = re.compile(r"[*`\n]")
_FENCE = re.compile(r"[ \t]*`{3,}[^\n]*\n?")
_MAYBE_FENCE = re.compile(r"[ \t]*`{0,2}|[ \t]*`{3,}[^\n]*")
_HEADING = re.compile(r"#{1,6} ")


class MarkdownStyle:
    """Owns where in the text we are: a fence, a heading, a bold or a code span.

    A marker that may go on in the next piece is held until it has come, or until `finish`.
    """

    def __init__(self) -> None:
        self._buffer = ""
        self._line_start = True
        self._fence = False
        self._heading = False
        self._bold = False
        self._code = False
        self._last_char = "\n"  # the last character that was given out

    def feed(self, piece: str) -> str:
        self._buffer += piece
        return self._drain(last=False)

    def finish(self) -> str:
        """What was held, as it is; the next text begins afresh."""
        rest = self._drain(last=True)
        self._reset_line()
        self._fence = False
        return rest

    def _drain(self, *, last: bool) -> str:
        out = []
        while self._buffer:
            styled = (
                self._style_line_start(last=last)
                if self._line_start
                else self._style_inline(last=last)
            )
            if styled is None:
                break
            out.append(styled)
        return "".join(out)

    def _style_line_start(self, *, last: bool) -> str | None:
        """The marker a line begins with, if any; None: it is not known yet whether it is one."""
        buffered = self._buffer
        if (fence := _FENCE.match(buffered)) and (last or fence[0].endswith("\n")):
            self._fence = not self._fence
            return f"{DIM}{self._take(fence.end()).rstrip(chr(10))}{PLAIN}" + self._end_line(
                fence[0]
            )
        if not last and _MAYBE_FENCE.fullmatch(buffered):
            return None
        if not self._fence and (heading := _HEADING.match(buffered)):
            self._heading = True
            self._line_start = False
            return self._styled(self._take(heading.end()))
        if not self._fence and not last and buffered.strip("#") == "" and len(buffered) <= 6:
            return None
        self._line_start = False
        return ""

    def _end_line(self, line: str) -> str:
        if line.endswith("\n"):
            self._reset_line()
            return "\n"
        return ""

    def _style_inline(self, *, last: bool) -> str | None:
        special = _SPECIAL.search(self._buffer)
        if special is None:
            return self._styled(self._take(len(self._buffer)))
        if special.start() > 0:
            return self._styled(self._take(special.start()))
        if special[0] == "\n":
            self._take(1)
            self._reset_line()
            return "\n"
        if self._fence:
            return self._styled(self._take(1))
        return self._backtick() if special[0] == "`" else self._asterisk(last=last)

    def _backtick(self) -> str:
        if self._code:
            styled = self._styled(self._take(1))
            self._code = False
            return styled
        self._code = True
        return self._styled(self._take(1))

    def _asterisk(self, *, last: bool) -> str | None:
        buffered = self._buffer
        if len(buffered) < 3 and not last and "**".startswith(buffered[:2]):
            return None  # whether it opens depends on what follows it
        if self._code or not buffered.startswith("**") or not self._is_bold_marker(buffered[2:3]):
            return self._styled(self._take(2 if buffered.startswith("**") else 1))
        self._bold = not self._bold
        self._take(2)
        return ""

    def _is_bold_marker(self, after: str) -> bool:
        """`2**3` and `a ** b` are no bold: it opens before a word and not inside one."""
        if self._bold:
            return True
        return not self._last_char.isalnum() and after not in ("", " ", "*", "\n")

    def _take(self, count: int) -> str:
        part, self._buffer = self._buffer[:count], self._buffer[count:]
        self._last_char = part[-1:] or self._last_char
        return part

    def _styled(self, text: str) -> str:
        if self._fence or self._code:
            return f"{CODE}{text}{PLAIN}"
        return f"{BOLD}{text}{PLAIN}" if self._bold or self._heading else text

    def _reset_line(self) -> None:
        self._line_start, self._last_char = True, "\n"
        self._heading = self._bold = self._code = False


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
        shown = (
            self._fit(sanitize(text), reserved=len(outcome) + 1) if self._live else sanitize(text)
        )
        self._out.write(f"{self.style(shown, dim=True)} {self.style(outcome, fg=colour)}\n")
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
        """From here on, the current line belongs to the input."""
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


_OUTCOME_COLOURS = {ToolOutcome.OK: "green", ToolOutcome.ERROR: "red"}


def format_call(name: str, arguments: str) -> str:
    """`terminal: ls -la`: the tool and the argument that tells most."""
    summary = summarise_arguments(arguments)
    return f"▸ {name}: {summary}" if summary else f"▸ {name}"


def format_outcome(outcome: ToolOutcome, seconds: float | None) -> tuple[str, str]:
    """The end of that line, and its colour."""
    took = "" if seconds is None else f" {_format_seconds(seconds)}"
    return f"… {outcome.replace('_', ' ')}{took}", _OUTCOME_COLOURS.get(outcome, "yellow")


def last_line(output: str) -> str:
    lines = output.rstrip().splitlines()
    return lines[-1].strip() if lines else ""


def _format_seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds / 60:.0f} min"

"""Markdown on a terminal: light styling of a text that comes in pieces, without losing any."""

import re

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
        held = self._buffer
        if (fence := _FENCE.match(held)) and (last or fence[0].endswith("\n")):
            self._fence = not self._fence
            return f"{DIM}{self._take(fence.end()).rstrip(chr(10))}{PLAIN}" + self._end_line(
                fence[0]
            )
        if not last and _MAYBE_FENCE.fullmatch(held):
            return None
        if not self._fence and (heading := _HEADING.match(held)):
            self._heading = True
            self._line_start = False
            return self._styled(self._take(heading.end()))
        if not self._fence and not last and held.strip("#") == "" and len(held) <= 6:
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
        held = self._buffer
        if len(held) < 3 and not last and "**".startswith(held[:2]):
            return None  # whether it opens depends on what follows it
        if self._code or not held.startswith("**") or not self._is_bold_marker(held[2:3]):
            return self._styled(self._take(2 if held.startswith("**") else 1))
        self._bold = not self._bold
        self._take(2)
        return ""

    def _is_bold_marker(self, after: str) -> bool:
        """`2**3` and `a ** b` are no bold: it opens before a word and not inside one."""
        if self._bold:
            return True
        return not self._last_char.isalnum() and after not in ("", " ", "*", "\n")

    def _take(self, count: int) -> str:
        taken, self._buffer = self._buffer[:count], self._buffer[count:]
        self._last_char = taken[-1:] or self._last_char
        return taken

    def _styled(self, text: str) -> str:
        if self._fence or self._code:
            return f"{CODE}{text}{PLAIN}"
        return f"{BOLD}{text}{PLAIN}" if self._bold or self._heading else text

    def _reset_line(self) -> None:
        self._line_start, self._last_char = True, "\n"
        self._heading = self._bold = self._code = False

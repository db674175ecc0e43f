"""The chat's screen on a terminal, by rich.

Imports rich: import this module inside functions only.
"""

from typing import TextIO

from rich.console import RenderableType
from rich.live import Live
from rich.text import Text

from holdfast.cli.chat.markdown import MarkdownBlock, MarkdownStream
from holdfast.cli.common.output import sanitize
from holdfast.cli.common.rendering import make_console, render_on
from holdfast.core.text.translation import _

_ERASE_LINE = "\r\x1b[K"


class RichScreen:
    """Owns the transient part at the bottom: the end of a reply that streams, a tool call that
    runs, or the prompt. Finished blocks of a reply are above it, rendered as Markdown."""

    def __init__(self, out: TextIO, *, steps_only: bool = False) -> None:
        self._out = out
        self._steps_only = steps_only
        self._console = make_console(out)
        self._reply = MarkdownStream()
        self._block_printed = False  # of the current reply
        self._live: Live | None = None
        self._transient = ""
        self._prompted = False

    def stream(self, piece: str) -> None:
        if not piece:
            return
        if self._steps_only:
            self.print_transient(_("answering …"))
            return
        for block in self._reply.feed(sanitize(piece)):
            self._print_block(block)
        self._show(self._end_of_reply())

    def end_stream(self) -> None:
        for block in self._reply.finish():
            self._print_block(block)
        self._block_printed = False

    def print_line(self, text: str, style: str = "") -> None:
        self.end_stream()
        self.clear()
        self._console.print(Text(sanitize(text), style), soft_wrap=True)

    def print_step(self, text: str, outcome: str, style: str) -> None:
        room = self._console.width - 2 - Text(outcome).cell_len
        line = _one_line(text, room)
        self.end_stream()
        self.clear()
        self._console.print(Text.assemble(line, " ", (outcome, style)), soft_wrap=True)

    def print_transient(self, text: str) -> None:
        if self._live is not None and text == self._transient:
            return
        self.end_stream()
        self._show(_one_line(text, self._console.width - 1))
        self._transient = text

    def prompt(self, text: str) -> None:
        if not self._prompted:
            self.end_stream()
            self.clear()
            self._out.write(text)
            self._out.flush()
            self._prompted = True

    def clear(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        if self._prompted:
            self._out.write(_ERASE_LINE)
            self._out.flush()
            self._prompted = False
        self._transient = ""

    def _print_block(self, block: MarkdownBlock) -> None:
        self.clear()
        if self._block_printed:
            self._out.write("\n")
        self._out.write(render_on(self._console, block).strip("\n") + "\n")
        self._out.flush()
        self._block_printed = True

    def _end_of_reply(self) -> Text:
        """What has not been printed, or its last lines: a terminal cannot replace more."""
        blocks = (
            render_on(self._console, block).strip("\n") for block in self._reply.open_blocks()
        )
        lines = "\n\n".join(blocks).splitlines()[-(self._console.height - 2) :]
        text = Text.from_ansi("\n".join(lines))
        text.no_wrap, text.overflow = True, "ellipsis"
        return Text("\n").join([Text(), text]) if self._block_printed else text

    def _show(self, renderable: RenderableType) -> None:
        if self._prompted:
            self.clear()
        if self._live is None:
            self._live = Live(
                console=self._console,
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
            self._console.show_cursor()  # rich hides it, and a killed chat would leave it hidden
        self._live.update(renderable, refresh=True)
        self._transient = ""


def _one_line(text: str, columns: int) -> Text:
    line = Text(" ".join(sanitize(text).split("\n")), "dim")
    line.truncate(max(20, columns), overflow="ellipsis")
    return line

"""Markdown of a reply, rendered block by block while it streams.

Imports rich: import this module inside functions only.
"""

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown
from rich.text import Text

# HTML is text: rich would leave it out.
_PARSER = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


class _PlainCode(CodeBlock):
    """Code as it is, so that it can be copied: without padding, and in lines of any length."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = Text(str(self.text).rstrip(), "cyan", no_wrap=True, overflow="ignore")
        yield from console.render(code, options.update(width=_ANY_LENGTH))


class _LeftHeading(Heading):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.text


_ANY_LENGTH = 100_000


class MarkdownBlock(Markdown):
    """A paragraph, list, table, code block … of a reply."""

    elements = Markdown.elements | {
        "fence": _PlainCode,
        "code_block": _PlainCode,
        "heading_open": _LeftHeading,
    }

    def __init__(self, tokens: list[Token]) -> None:
        # A link shows its address: its text may name another one.
        super().__init__("", hyperlinks=False)
        self.parsed = tokens


class MarkdownStream:
    """Owns the part of a reply that has not been rendered, because its last block may continue."""

    def __init__(self) -> None:
        self._text = ""

    def feed(self, piece: str) -> list[MarkdownBlock]:
        """The blocks that have ended, each once."""
        self._text += piece
        if "\n" not in piece:
            return []
        # What an unfinished line is, its end decides: `#` may begin a heading or a hashtag.
        starts, blocks = _parse(self._text[: self._text.rfind("\n") + 1])
        if len(blocks) < 2:
            return []
        self._text = "".join(self._text.splitlines(keepends=True)[starts[-1] :])
        return blocks[:-1]

    def finish(self) -> list[MarkdownBlock]:
        """The rest; the next text begins a new reply."""
        blocks = self.open_blocks()
        self._text = ""
        return blocks

    def open_blocks(self) -> list[MarkdownBlock]:
        return _parse(self._text)[1]


def _parse(text: str) -> tuple[list[int], list[MarkdownBlock]]:
    """The blocks, and the line in which each begins."""
    starts: list[int] = []
    blocks: list[list[Token]] = []
    for token in _PARSER.parse(text):
        if token.level == 0 and token.nesting >= 0:
            starts.append(token.map[0] if token.map else 0)
            blocks.append([])
        for child in token.children or ():
            if child.type == "softbreak":  # a reply means the ends of its lines
                child.type = "hardbreak"
        blocks[-1].append(token)
    return starts, [MarkdownBlock(tokens) for tokens in blocks]

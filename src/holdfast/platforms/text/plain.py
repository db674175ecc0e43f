"""Plain: a text for readers of letters alone, with addresses written out."""

from holdfast.platforms.text.flow import LayoutOptions, PreformattedText, lay_out
from holdfast.platforms.text.reading import parse_markdown
from holdfast.platforms.text.tree import Block

PLAIN_LAYOUT = LayoutOptions(links=False, columns=72)


def render_plain(text: str) -> str:
    """Never empty where the text is not."""
    return plain_text(parse_markdown(text))


def plain_text(blocks: tuple[Block, ...]) -> str:
    lines: list[str] = []
    for piece in lay_out(blocks, PLAIN_LAYOUT):
        ahead = "> " * piece.quote + " " * piece.indent
        if isinstance(piece, PreformattedText):
            lines += [f"{ahead}{line}".rstrip() for line in piece.text.split("\n")]
            continue
        if piece.bullet is not None:
            ahead += PLAIN_LAYOUT.bullet_text(piece.bullet)
        lines.append(f"{ahead}{piece.text}".rstrip())
    return "\n".join(lines)

"""Plain: a text for readers of letters alone, with addresses written out."""

from holdfast.platforms.text.flow import Look, Pre, flow
from holdfast.platforms.text.reading import read
from holdfast.platforms.text.tree import Block

LOOK = Look(links=False, columns=72)


def render(text: str) -> str:
    """Never empty where the text is not."""
    return shown(read(text))


def shown(blocks: tuple[Block, ...]) -> str:
    lines: list[str] = []
    for piece in flow(blocks, LOOK):
        ahead = "> " * piece.quote + " " * piece.indent
        if isinstance(piece, Pre):
            lines += [f"{ahead}{line}".rstrip() for line in piece.text.split("\n")]
            continue
        if piece.bullet is not None:
            ahead += LOOK.mark(piece.bullet)
        lines.append(f"{ahead}{piece.text}".rstrip())
    return "\n".join(lines)

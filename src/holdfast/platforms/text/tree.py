"""The tree of a text: what its Markdown means, with nothing of how it was written."""

from enum import StrEnum

import msgspec


class Style(StrEnum):
    BOLD = "bold"
    ITALIC = "italic"
    STRIKE = "strike"


class Words(msgspec.Struct, frozen=True):
    text: str


class Code(msgspec.Struct, frozen=True):
    text: str


class Break(msgspec.Struct, frozen=True):
    """The end of a line within a paragraph: chats show the lines as they were written."""


class Styled(msgspec.Struct, frozen=True, kw_only=True):
    style: Style
    children: tuple["Inline", ...]


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """Never within another, never without words, and to nowhere but the web or a mailbox."""

    href: str
    children: tuple["Inline", ...]
    bare: bool = False  # its words are its address


Inline = Words | Code | Break | Styled | Link


class Paragraph(msgspec.Struct, frozen=True):
    inlines: tuple[Inline, ...]


class Heading(msgspec.Struct, frozen=True, kw_only=True):
    level: int
    inlines: tuple[Inline, ...]


class CodeBlock(msgspec.Struct, frozen=True, kw_only=True):
    text: str  # without the end of its last line
    language: str = ""


class Quote(msgspec.Struct, frozen=True):
    blocks: tuple["Block", ...]


class Item(msgspec.Struct, frozen=True, kw_only=True):
    blocks: tuple["Block", ...]
    done: bool | None = None  # None: no task


class Items(msgspec.Struct, frozen=True, kw_only=True):
    items: tuple[Item, ...]
    start: int | None = None  # None: they have no numbers


class Table(msgspec.Struct, frozen=True):
    rows: tuple[tuple[tuple[Inline, ...], ...], ...]  # the first is its head


class Rule(msgspec.Struct, frozen=True):
    pass


Block = Paragraph | Heading | CodeBlock | Quote | Items | Table | Rule


def words_of(inlines: tuple[Inline, ...]) -> str:
    """What is left when every style is taken off."""
    found = []
    for each in inlines:
        match each:
            case Words() | Code():
                found.append(each.text)
            case Break():
                found.append("\n")
            case Styled() | Link():
                found.append(words_of(each.children))
    return "".join(found)

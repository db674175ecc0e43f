"""The tree of a text: what its Markdown means, with nothing of how it was written."""

from enum import StrEnum

import msgspec


class Emphasis(StrEnum):
    BOLD = "bold"
    ITALIC = "italic"
    STRIKE = "strike"


class PlainText(msgspec.Struct, frozen=True):
    text: str


class InlineCode(msgspec.Struct, frozen=True):
    text: str


class LineBreak(msgspec.Struct, frozen=True):
    """The end of a line within a paragraph: chats show the lines as they were written."""


class StyledInline(msgspec.Struct, frozen=True, kw_only=True):
    style: Emphasis
    children: tuple["Inline", ...]


class Hyperlink(msgspec.Struct, frozen=True, kw_only=True):
    """Never within another, never without words, and to nowhere but the web or a mailbox."""

    href: str
    children: tuple["Inline", ...]
    shows_url: bool = False  # its words are its address


Inline = PlainText | InlineCode | LineBreak | StyledInline | Hyperlink


class Paragraph(msgspec.Struct, frozen=True):
    inlines: tuple[Inline, ...]


class Heading(msgspec.Struct, frozen=True, kw_only=True):
    level: int
    inlines: tuple[Inline, ...]


class CodeBlock(msgspec.Struct, frozen=True, kw_only=True):
    text: str  # without the end of its last line
    language: str = ""


class BlockQuote(msgspec.Struct, frozen=True):
    blocks: tuple["Block", ...]


class ListItem(msgspec.Struct, frozen=True, kw_only=True):
    blocks: tuple["Block", ...]
    done: bool | None = None  # None: no task


class ListBlock(msgspec.Struct, frozen=True, kw_only=True):
    items: tuple[ListItem, ...]
    start: int | None = None  # None: they have no numbers


class TableBlock(msgspec.Struct, frozen=True):
    rows: tuple[tuple[tuple[Inline, ...], ...], ...]  # the first is its head


class HorizontalRule(msgspec.Struct, frozen=True):
    pass


Block = Paragraph | Heading | CodeBlock | BlockQuote | ListBlock | TableBlock | HorizontalRule


def visible_text(inlines: tuple[Inline, ...]) -> str:
    """What is left when every style is taken off."""
    found = []
    for each in inlines:
        match each:
            case PlainText() | InlineCode():
                found.append(each.text)
            case LineBreak():
                found.append("\n")
            case StyledInline() | Hyperlink():
                found.append(visible_text(each.children))
    return "".join(found)

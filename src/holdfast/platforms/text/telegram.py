"""Renders Markdown for Telegram as plain text and entities, so that no character of a text can be
mistaken for markup.

The Bot API takes a text with `entities` or with a `parse_mode`. With a parse mode, the whole
message is refused ("can't parse entities") if one mark is not escaped as that version of the server
expects. Entities are refused only if they exceed the text or end within a character; those that
overlap wrongly are repaired or dropped (https://core.telegram.org/bots/api#messageentity, and
`fix_formatted_text` of TDLib, which is the Bot API server).
"""

from functools import lru_cache

import msgspec

from holdfast.core.ports.capabilities import LengthUnit
from holdfast.core.text.splitting import message_length
from holdfast.platforms.text.layout import (
    LayoutItem,
    LayoutOptions,
    PreformattedText,
    TextLine,
    TextSpan,
    lay_out,
)
from holdfast.platforms.text.markdown import Emphasis, parse_markdown, unformatted_text

MAX_LENGTH = 4096  # UTF-16 units of a message, "after entities parsing"
MAX_ENTITIES = 100  # further entities are ignored
# About the width of a line of code on a phone.
_LAYOUT = LayoutOptions(columns=48, mail_links=False)
_NESTED_QUOTE = "│ "  # "blockquote entities can't be nested"
_STYLES = {Emphasis.BOLD: "bold", Emphasis.ITALIC: "italic", Emphasis.STRIKE: "strikethrough"}
# Those whose loss a reader would notice most.
_PREFERRED_ENTITIES = ("text_link", "pre", "code", "blockquote")


class TelegramTextEntity(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An entity of the Bot API: offset and length are UTF-16 units."""

    type: str
    offset: int
    length: int
    url: str = ""
    language: str = ""


class TelegramText(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    entities: tuple[TelegramTextEntity, ...] = ()


@lru_cache(maxsize=4)  # the text that was measured is sent next
def render(text: str) -> TelegramText:
    """Render a text; never empty for a text that is not."""
    if (plain := unformatted_text(text)) is not None:
        return TelegramText(text=plain)
    writing = _TelegramTextBuilder()
    for piece in lay_out(parse_markdown(text), _LAYOUT):
        writing.add(piece)
    return writing.build()


def fits(text: str, *, limit: int = MAX_LENGTH) -> bool:
    return message_length(render(text).text, LengthUnit.UTF16) <= limit


class _TelegramTextBuilder:
    """Owns the text so far, its length, and its entities."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._length = 0
        self._entities: list[TelegramTextEntity] = []
        self._quoted_from: int | None = None

    def add(self, piece: LayoutItem) -> None:
        plain = isinstance(piece, TextLine) and not piece.quote
        if plain or isinstance(
            piece, PreformattedText
        ):  # "all other entities can't contain each other"
            self._end_quote()
        if self._text:
            self._add("\n")
        if isinstance(piece, PreformattedText):
            self._pre(piece)
            return
        if piece.quote and self._quoted_from is None:
            self._quoted_from = self._length
        self._line(piece)

    def _pre(self, pre: PreformattedText) -> None:
        start = self._length
        self._add(pre.text)
        self._add_entity("pre", start, language=pre.language)

    def _line(self, line: TextLine) -> None:
        self._add(_NESTED_QUOTE * (line.quote - 1) + " " * line.indent)
        if line.bullet is not None:
            self._add(_LAYOUT.bullet_text(line.bullet))
        for span in line.spans:
            self._span(span, heading=bool(line.heading))

    def _span(self, span: TextSpan, *, heading: bool) -> None:
        start = self._length
        self._add(span.text)
        if span.href and not span.shows_url:
            self._add_entity("text_link", start, url=span.href)
        elif span.code:
            self._add_entity("code", start)
        if span.code:  # "bold, italic … can be part of any other entities, except pre and code"
            return
        if span.styles or heading:
            for style, kind in _STYLES.items():
                if style in span.styles or (heading and style is Emphasis.BOLD):
                    self._add_entity(kind, start)

    def _add(self, text: str) -> None:
        self._text.append(text)
        self._length += message_length(text, LengthUnit.UTF16)

    def _add_entity(self, kind: str, start: int, *, url: str = "", language: str = "") -> None:
        """Add an entity; one that continues the last of its kind extends that."""
        entity = TelegramTextEntity(
            type=kind, offset=start, length=self._length - start, url=url, language=language
        )
        for number in range(len(self._entities) - 1, max(len(self._entities) - 4, -1), -1):
            last = self._entities[number]
            same = (last.type, last.url) == (kind, url) and kind != "pre"
            if same and last.offset + last.length == start and not self._crosses(last.offset):
                longer = last.length + entity.length
                self._entities[number] = msgspec.structs.replace(last, length=longer)
                return
        self._entities.append(entity)

    def _crosses(self, start: int) -> bool:
        """Whether an entity from there to here would contain one end of another, but not both."""
        return any(
            each.offset < start < each.offset + each.length < self._length
            for each in self._entities
        )

    def _end_quote(self) -> None:
        if self._quoted_from is not None:
            self._add_entity("blockquote", self._quoted_from)
            self._quoted_from = None

    def build(self) -> TelegramText:
        self._end_quote()
        text = "".join(self._text)
        ahead = len(text) - len(text.lstrip())
        shown = text.strip()
        size = message_length(shown, LengthUnit.UTF16)
        cut = message_length(text[:ahead], LengthUnit.UTF16)
        found = [_clip_entity(entity, cut, size) for entity in self._entities]
        nonempty = [entity for entity in found if entity.length > 0]
        return TelegramText(text=shown, entities=_limit_entities(nonempty))


def _clip_entity(entity: TelegramTextEntity, ahead: int, size: int) -> TelegramTextEntity:
    """The entity clipped to the text that is sent: without the leading and trailing space, which
    the server would remove."""
    start = max(entity.offset - ahead, 0)
    end = min(entity.offset + entity.length - ahead, size)
    return msgspec.structs.replace(entity, offset=start, length=end - start)


def _limit_entities(entities: list[TelegramTextEntity]) -> tuple[TelegramTextEntity, ...]:
    if len(entities) > MAX_ENTITIES:
        entities = sorted(entities, key=lambda entity: entity.type not in _PREFERRED_ENTITIES)[
            :MAX_ENTITIES
        ]
    return tuple(sorted(entities, key=lambda entity: (entity.offset, -entity.length)))

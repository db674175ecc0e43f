"""Tests rendering for Telegram: valid entities with the same visible text."""

import re

import pytest
from hypothesis import given
from tests.platforms.text.markdown_reader import visible_characters, visible_text
from tests.platforms.text.sample_texts import QUICK, anything, markdown

from holdfast.core.text.splitting import split_message
from holdfast.platforms.text.telegram import (
    MAX_ENTITIES,
    TelegramText,
    TelegramTextEntity,
    fits,
    render,
)

INLINE = {"bold", "italic", "strikethrough"}
KINDS = {*INLINE, "code", "pre", "text_link", "blockquote"}


def check(shown: TelegramText, limit: int) -> None:
    """The rules of https://core.telegram.org/bots/api#messageentity, #sendmessage and
    #formatting-options, as far as a bot can break them."""
    units = shown.text.encode("utf-16-le")  # raises at half a character
    assert len(units) // 2 <= limit  # "1-4096 characters after entities parsing"
    assert shown.text == shown.text.strip()  # the server would take it off, and move entities
    assert len(shown.entities) <= MAX_ENTITIES
    for entity in shown.entities:
        assert entity.type in KINDS and entity.length > 0 and entity.offset >= 0
        start, end = 2 * entity.offset, 2 * (entity.offset + entity.length)
        assert end <= len(units), "it ends behind the end of the text"
        units[start:end].decode("utf-16-le")  # "ends in a middle of a UTF-16 symbol"
        assert bool(entity.url) == (entity.type == "text_link")
        assert not entity.url or re.match("(?i)https?://", entity.url)
    for number, one in enumerate(shown.entities):
        for other in shown.entities[number + 1 :]:
            _check_pair(one, other)


def _check_pair(one: TelegramTextEntity, other: TelegramTextEntity) -> None:
    if one.offset + one.length <= other.offset or other.offset + other.length <= one.offset:
        return
    inner, outer = sorted((one, other), key=lambda each: each.length)
    within = outer.offset <= inner.offset
    assert within and inner.offset + inner.length <= outer.offset + outer.length
    kinds = {inner.type, outer.type}
    assert "pre" not in kinds  # nothing is in it, and it is in nothing
    assert "code" not in kinds or kinds == {"code", "blockquote"}
    assert len(kinds) == 2 or kinds < INLINE


@QUICK
@given(anything)
def test_no_text_is_refused(text: str) -> None:
    for part in split_message(text, 100, fits=lambda part: fits(part, limit=100)):
        if part.strip():
            check(render(part), 100)


@QUICK
@given(markdown)
def test_its_text_is_what_a_reader_of_the_markdown_sees(text: str) -> None:
    assert visible_characters(render(text).text) == visible_text(
        text, addresses=False, mailboxes=True
    )


@pytest.mark.parametrize(
    ("markdown", "text", "entities"),
    [
        ("plain words", "plain words", []),
        ("**b** and *i* and ~~s~~", "b and i and s", ["bold b", "italic i", "strikethrough s"]),
        ("**b *both* b**", "b both b", ["bold b both b", "italic both"]),
        ("see `a*b`", "see a*b", ["code a*b"]),
        ("[site](https://e.org)", "site", ["text_link site"]),
        ("https://e.org/a_b_c", "https://e.org/a_b_c", []),
        ("# Head", "Head", ["bold Head"]),
        ("```py\nx = 1\n```", "x = 1", ["pre x = 1"]),
        ("- a\n  - b\n- [x] c", "• a\n  ◦ b\n• ☑ c", []),
        ("7. a\n8. b", "7. a\n8. b", []),
        ("> a\n> b\n\nc", "a\nb\n\nc", ["blockquote a\nb"]),
        ("> a\n> > b", "a\n\n│ b", ["blockquote a\n\n│ b"]),
        ("|a|b|\n|-|-|\n|1|22|", "a │ b\n──┼───\n1 │ 22", ["pre a │ b\n──┼───\n1 │ 22"]),
        ("😀 **b**", "😀 b", ["bold b"]),
        ("<b>no</b>", "<b>no</b>", []),
        ("a<br>b", "a\nb", []),
        ("![pic](https://e.org/p.png)", "pic", ["text_link pic"]),
        ("[file](src/a.py)", "file (src/a.py)", []),
        ("[a]: https://e.org", "[a]: https://e.org", []),
    ],
)
def test_elements_are_rendered_as_documented(markdown: str, text: str, entities: list[str]) -> None:
    shown = render(markdown)
    units = shown.text.encode("utf-16-le")
    assert shown.text == text
    assert [
        f"{e.type} {units[2 * e.offset : 2 * (e.offset + e.length)].decode('utf-16-le')}"
        for e in shown.entities
    ] == entities


def test_a_message_with_too_much_formatting_keeps_its_links() -> None:
    shown = render("**b** *i* " * 80 + "[end](https://e.org)")
    check(shown, 4096)
    assert shown.entities[-1].url == "https://e.org"


def test_the_vendors_library_reads_the_same_entities() -> None:
    telegram = pytest.importorskip("telegram")
    shown = render("😀 **b *both*** and `c` and [l](https://e.org)")
    entities = [
        telegram.MessageEntity(e.type, e.offset, e.length, url=e.url or None)
        for e in shown.entities
    ]
    chat = telegram.Chat(id=1, type="private")
    message = telegram.Message(
        message_id=1, date=None, chat=chat, text=shown.text, entities=entities
    )
    assert message.text_html == (
        '😀 <b>b <i>both</i></b> and <code>c</code> and <a href="https://e.org">l</a>'
    )

"""Tests rendering for Slack: valid blocks with the same visible text."""

import re
from typing import Any

import pytest
from hypothesis import given
from tests.platforms.text.markdown_reader import visible_characters, visible_text
from tests.platforms.text.sample_texts import QUICK, anything, markdown
from tests.platforms.text.slack_reader import block_text

from holdfast.core.text.splitting import split_message
from holdfast.platforms.text.slack import fits, render

STYLES = {"bold", "italic", "strike", "code"}


def check_block(block: dict[str, Any]) -> None:
    """https://docs.slack.dev/reference/block-kit/blocks/rich-text-block and the pages of its
    elements: what each has to have, and what it may hold."""
    assert set(block) == {"type", "elements"} and block["type"] == "rich_text"
    assert block["elements"]
    for element in block["elements"]:
        assert element["elements"], "an element has to have some of its own"
        if element["type"] == "rich_text_list":
            assert element["style"] in ("bullet", "ordered") and 0 <= element["indent"] <= 8
            assert element.get("offset", 1) > 0
            for section in element["elements"]:
                assert section["type"] == "rich_text_section" and section["elements"]
                _check_leaves(section["elements"])
        else:
            kinds = ("rich_text_section", "rich_text_quote", "rich_text_preformatted")
            assert element["type"] in kinds
            _check_leaves(element["elements"])


def _check_leaves(leaves: list[dict[str, Any]]) -> None:
    for leaf in leaves:
        assert leaf["type"] in ("text", "link") and leaf["text"], "text must not be empty"
        leaf["text"].encode()
        assert (leaf["type"] == "link") == ("url" in leaf)
        assert set(leaf.get("style", {"bold": True})) <= STYLES


def check_mrkdwn(text: str) -> None:
    """https://docs.slack.dev/messaging/formatting-message-text: three signs are escaped, and what
    stands between `<` and `>` is an address, with its words behind a bar."""
    assert not re.search("&(?!amp;|lt;|gt;)", text)
    rest = re.sub(r"<(?:https?:|mailto:)[^<>|\s]+(?:\|[^<>|\n]+)?>", "", text, flags=re.IGNORECASE)
    assert "<" not in rest
    assert not re.search(r"^(?!> |>$).*>", rest, flags=re.MULTILINE)


@QUICK
@given(anything)
def test_no_text_is_refused(text: str) -> None:
    for part in split_message(text, 150, fits=lambda part: fits(part, limit=150)):
        if part.strip():
            shown = render(part)
            assert 0 < len(shown.text) <= 150 and len(shown.blocks) == 1
            check_block(shown.blocks[0])
            check_mrkdwn(shown.text)


@QUICK
@given(markdown)
def test_its_text_is_what_a_reader_of_the_markdown_sees(text: str) -> None:
    assert visible_characters(block_text(render(text).blocks[0])) == visible_text(
        text, addresses=False
    )


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        ("plain words", "plain words"),
        ("**b** and *i* and ~~s~~", "*b* and _i_ and ~s~"),
        ("a < b && c > d", "a &lt; b &amp;&amp; c &gt; d"),
        ("see `a*b`", "see `a*b`"),
        ("[site](https://e.org)", "<https://e.org|site>"),
        ("https://e.org/a_b_c", "<https://e.org/a_b_c>"),
        ("# Head", "*Head*"),
        ("```py\nx = 1\n```", "```\nx = 1\n```"),
        ("- a\n  - b\n- [x] c", "• a\n  ◦ b\n• ☑ c"),
        ("> a\n> b\n\nc", "> a\n> b\n\nc"),
    ],
)
def test_elements_are_rendered_as_documented(markdown: str, text: str) -> None:
    assert render(markdown).text == text


def test_a_list_is_one_of_slacks_own() -> None:
    (block,) = render("3. a\n4. **b**\n   - c").blocks
    first, second = block["elements"]
    assert (first["style"], first["indent"], first["offset"]) == ("ordered", 0, 2)
    assert first["elements"][1]["elements"] == [
        {"type": "text", "text": "b", "style": {"bold": True}}
    ]
    assert (second["style"], second["indent"]) == ("bullet", 1)
    assert block_text(render("0. a\n1. b").blocks[0]) == "0. a1.b"

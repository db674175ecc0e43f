"""Tests rendering for Discord: length, and what Discord's own rules make of it."""

import pytest
from hypothesis import given
from tests.platforms.text.discord_reader import discord_text
from tests.platforms.text.markdown_reader import visible_characters, visible_text
from tests.platforms.text.sample_texts import QUICK, anything, markdown

from holdfast.core.text.splitting import split_message
from holdfast.platforms.text.discord import fits, render


@QUICK
@given(anything)
def test_no_text_is_refused(text: str) -> None:
    """https://docs.discord.com/developers/resources/message: 1 to 2000 characters."""
    for part in split_message(text, 100, fits=lambda part: fits(part, limit=100)):
        if part.strip():
            shown = render(part)
            assert len(shown) <= 100
            shown.encode()  # raises at half a character


@QUICK
@given(markdown)
def test_read_by_discord_it_is_what_a_reader_of_the_markdown_sees(text: str) -> None:
    shown = visible_characters(discord_text(render(text)))
    # Discord masks no link whose words look like an address: where it goes is written behind it.
    shown = shown.replace("in.orgit(https://e.org)", "in.orgit")
    assert shown == visible_text(text, addresses=False, mailboxes=True)


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("plain words", "plain words"),
        ("**b** and *i* and ~~s~~", "**b** and *i* and ~~s~~"),
        ("**b *both* b**", "**b** **_both_** **b**"),
        ("2 * 3 * 4 and snake_case", "2 \\* 3 \\* 4 and snake\\_case"),
        ("see `a*b` and `` a`b ``", "see `a*b` and ``a`b``"),
        ("[site](https://e.org/(a))", "[site](<https://e.org/%28a%29>)"),
        ("***[site](https://e.org/a_b)***", "[**_site_**](<https://e.org/a_b>)"),
        ("https://e.org/a_b_c", "<https://e.org/a_b_c>"),
        ("[e.org](https://f.org)", "e.org (<https://f.org>)"),
        ("# Head", "# Head"),
        ("##### Head", "**Head**"),
        ("```py\nx = 1\n```", "```py\nx = 1\n```"),
        ("- a\n  - b\n- [x] c", "- a\n  - b\n- ☑ c"),
        ("7. a\n8. b", "7. a\n8. b"),
        ("\\- no list", "\\- no list"),
        ("> a\n> b\n\nc", "> a\n> b\n\nc"),
        ("|a|b|\n|-|-|\n|1|22|", "```\na │ b\n──┼───\n1 │ 22\n```"),
        ("<@123> and @everyone", "\\<@123\\> and @everyone"),
        ("||no spoiler||", "\\|\\|no spoiler\\|\\|"),
        ("---", "────────────"),
    ],
)
def test_elements_are_rendered_as_documented(markdown: str, shown: str) -> None:
    assert render(markdown) == shown

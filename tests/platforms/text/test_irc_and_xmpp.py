"""Tests rendering for IRC and XMPP: line lengths, allowed characters, same visible text."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.platforms.text.markdown_reader import visible_characters, visible_text
from tests.platforms.text.sample_texts import QUICK, anything, markdown

from holdfast.core.text.splitting import split_message
from holdfast.platforms.text import irc, layout, xmpp

# https://modern.ircdocs.horse/formatting: the codes that are used here.
CODES = "\x02\x1d\x1e"
# https://www.w3.org/TR/xml/#charsets: what a stanza may hold.
XML = re.compile("[\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]*")


@QUICK
@given(anything, st.integers(40, 120))
def test_no_line_of_irc_is_refused(text: str, limit: int) -> None:
    """https://modern.ircdocs.horse/#message-format: no NUL, CR or LF, and no more bytes than fit;
    ERR_NOTEXTTOSEND for a line of nothing. \\x01 would make it a request of a client."""
    lines = irc.render(text, limit=limit)
    assert lines
    for line in lines:
        assert len(line.encode()) <= limit and line.strip()
        assert not re.search("[\x00\x01\r\n]", line)
        assert all(line.count(code) % 2 == 0 for code in CODES), "a style does not end"


@QUICK
@given(markdown, st.integers(60, 200))
def test_without_its_codes_it_is_what_a_reader_of_the_markdown_sees(text: str, limit: int) -> None:
    lines = irc.render(text, limit=limit)
    shown = re.sub(f"[{CODES}]", "", "".join(lines))
    assert visible_characters(shown) == visible_text(text, addresses=True)


@pytest.mark.parametrize(
    "text", ["hi&#13;QUIT", "hi&#x0D;QUIT", "**hi&#13;QUIT**", "hi&#13;&#10;QUIT", "hi&#12;QUIT"]
)
def test_an_escaped_line_break_ends_a_line_and_no_command(text: str) -> None:
    """Whatever an agent was made to say, none of it becomes a command of the protocol."""
    assert [re.sub(f"[{CODES}]", "", line) for line in irc.render(text)] == ["hi", "QUIT"]
    assert not re.search("[\r\x0c]", irc.render("| a |\n|---|\n| b&#13;c ![d&#13;e](f) |")[-1])


def test_elements_are_rendered_as_documented_on_irc() -> None:
    assert irc.render("**b** and *i* and `c`\n\n- [s](https://e.org)\n\n> q") == (
        "\x02b\x02 and \x1di\x1d and c",
        "• s (https://e.org)",
        "> q",
    )


def test_a_long_irc_line_is_broken_between_words_and_keeps_its_style() -> None:
    lines = irc.render("**" + "many words " * 20 + "end**", limit=60)
    assert len(lines) > 3
    assert all(line.startswith("\x02") and line.endswith("\x02") for line in lines)
    assert {word for line in lines for word in line.strip("\x02 ").split()} == {
        *("many", "words", "end")
    }


def xmpp_text(body: str) -> str:
    """A body without the marks that a client finds by
    https://xmpp.org/extensions/xep-0393.html#span-dir: one opens at the beginning, behind space or
    behind another that opens, and before no space; it closes before the end of the line and
    behind no space; within code, nothing else is read."""
    found, fenced = [], False
    for line in body.split("\n"):
        quoted = line.lstrip("> ") if line.startswith(">") else line
        if quoted.startswith("```"):
            fenced = not fenced
        else:
            found.append(quoted if fenced else _spans(quoted))
    return "\n".join(found)


def _spans(line: str) -> str:
    found, at = "", 0
    while at < len(line):
        end = _closing(line, at)
        if end is None:
            found += line[at]
            at += 1
            continue
        inner = line[at + 1 : end]
        found += inner if line[at] == "`" else _spans(inner)
        at = end + 1
    return found


def _closing(line: str, at: int) -> int | None:
    opens = at == 0 or line[at - 1].isspace() or line[at - 1] in "*_~"
    if line[at] not in "*_~`" or not opens or line[at + 1 : at + 2].isspace():
        return None
    for end in range(at + 2, len(line)):
        if line[end] == line[at] and not line[end - 1].isspace():
            return end
    return None


@QUICK
@given(anything)
def test_no_stanza_is_refused(text: str) -> None:
    for part in split_message(text, 120, fits=lambda part: xmpp.fits(part, limit=120)):
        if part.strip():
            shown = xmpp.render(part)
            assert shown.body.strip() and len(shown.body) <= 120
            assert XML.fullmatch(shown.body)


@QUICK
@given(markdown)
def test_read_by_a_client_it_is_what_a_reader_of_the_markdown_sees(text: str) -> None:
    shown = xmpp.render(text)
    words = xmpp_text(shown.body) if shown.styled else shown.body
    assert visible_characters(words) == visible_text(text, addresses=True)


@pytest.mark.parametrize(
    ("markdown", "body", "styled"),
    [
        ("**b** and *i* and ~~s~~ and `a_b`", "*b* and _i_ and ~s~ and `a_b`", True),
        ("snake_case is fine", "snake_case is fine", True),
        ("\\*no mark\\* but **b**", "*no mark* but b", False),
        ("```py\nx = 1\n```", "```\nx = 1\n```", True),
        ("> a **b**", "> a *b*", True),
    ],
)
def test_elements_are_rendered_as_documented_on_xmpp(
    markdown: str, body: str, styled: bool
) -> None:
    assert xmpp.render(markdown) == xmpp.XmppText(body=body, styled=styled)


def test_plain_text_has_everything_but_the_formatting() -> None:
    assert layout.render_plain("# Head\n\n1. **b**\n   - [s](https://e.org)\n\n> q\n> > r") == (
        "Head\n\n1. b\n   ◦ s (https://e.org)\n\n> q\n>\n> > r"
    )


@QUICK
@given(markdown)
def test_plain_text_is_what_a_reader_of_the_markdown_sees(text: str) -> None:
    assert visible_characters(layout.render_plain(text)) == visible_text(text, addresses=True)

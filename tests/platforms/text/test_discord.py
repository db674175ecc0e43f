"""Discord's text: short enough, and read by Discord's rules it is what a reader would see."""

import re

import pytest
from hypothesis import given
from tests.platforms.text.markdown_reader import visible_characters, visible_text
from tests.platforms.text.sample_texts import QUICK, anything, markdown

from holdfast.core.text.splitting import split_message
from holdfast.platforms.text.discord import fits, render

# The rules by which Discord's clients read a message: those of simple-markdown, on which their
# parser is built (https://github.com/ariabuckles/simple-markdown), with the changes that
# https://github.com/brussell98/discord-markdown collects. The first that matches is taken.
_FIRST = {
    "escape": r"\\([^0-9A-Za-z\s])",
    "autolink": r"<(https?://[^ >]+)>",
    "url": r"((?:https?|steam)://[^\s<]+[^<.,:;\"'\]\s])",
    "mention": r"<(@[!&]?\d+|#\d+|a?:\w+:\d+|t:-?\d+(?::\w)?|/[\w ]+:\d+)>",
    "link": r"\[((?:\\.|[^\[\]\\])*)\]\(\s*<?((?:\([^)]*\)|[^\s\\<>]|\\.)*?)>?\s*\)",
}
# Of these the one that takes most.
_LONGEST = {
    "em": r"_((?:__|\\[\s\S]|[^\\_])+?)_(?!\w)",
    "star": r"\*(?=\S)((?:\*\*|\\[\s\S]|\s+(?:\\[\s\S]|[^\s*\\]|\*\*)|[^\s*\\])+?)\*(?!\*)",
    "strong": r"\*\*((?:\\[\s\S]|[^\\])+?)\*\*(?!\*)",
    "underline": r"__((?:\\[\s\S]|[^\\])+?)__(?!_)",
}
_LAST = {
    "strike": r"~~([\s\S]+?)~~(?!_)",
    "spoiler": r"\|\|([\s\S]+?)\|\|",
    "code": r"(`+)([\s\S]*?[^`])\1(?!`)",
}
_FENCE = re.compile(r"```(?:[a-z0-9_+\-.#]+?\n)?\n*([^\n][\s\S]*?)\n*```", re.IGNORECASE)
_QUOTE = re.compile(r"(?:> [^\n]*(?:\n|$))+")
_HEAD = re.compile(r"(?:#{1,3}|-#)\s+(?=\S)")
_BULLET = re.compile(r" *[*-](?: +|$)")


def stripped(text: str) -> str:
    """What is seen, with no mark left; a bullet is drawn, a number is said."""
    rest, found = text, []
    while rest:
        if quote := _QUOTE.match(rest):
            found.append(stripped(re.sub("(?m)^> ", "", quote[0])))
            rest = rest[quote.end() :]
            continue
        if fence := _FENCE.match(rest):
            found.append(fence[1])
            rest = rest[fence.end() :]
            continue
        line, _, rest = rest.partition("\n")
        line = line[bullet.end() :] if (bullet := _BULLET.match(line)) else line
        line = line[head.end() :] if (head := _HEAD.match(line)) else line
        found.append(_inline(line))
    return "\n".join(found)


def _inline(text: str) -> str:
    found = []
    while text:
        rule, match = _taken(text)
        if match is None:
            found.append(text[0])
            text = text[1:]
            continue
        found.append(_read(rule, match))
        text = text[match.end() :]
    return "".join(found)


def _taken(text: str) -> tuple[str, re.Match[str] | None]:
    for rule, pattern in _FIRST.items():
        if match := re.match(pattern, text):
            return rule, match
    longest = [(rule, match) for rule, p in _LONGEST.items() if (match := re.match(p, text))]
    if longest:
        return max(longest, key=lambda each: each[1].end())
    for rule, pattern in _LAST.items():
        if match := re.match(pattern, text):
            return rule, match
    return "", None


def _read(rule: str, match: re.Match[str]) -> str:
    if rule in ("escape", "autolink", "url"):
        return match[1]
    if rule == "mention":
        return "(somebody is called)"
    return match[2] if rule == "code" else _inline(match[1])


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
    shown = visible_characters(stripped(render(text)))
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

"""Hypothesis strategies for Markdown, valid and invalid."""

from hypothesis import settings
from hypothesis import strategies as st

QUICK = settings(max_examples=40, deadline=None, derandomize=True)

_WORDS = ["word ", "two words ", "snake_case ", "3 * 4 * 5 ", "1. ", "a", "Ä", "é", "😀", "👍🏽 "]
_INLINE = ["**bold** ", "*it* ", "_it_ ", "**b *both* b** ", "~~gone~~ ", "`code` ", "`` a`b `` "]
_LINKS = [
    *("[a link](https://e.org/a_b(c)?d=e&f) ", "<https://auto.org/x> ", "https://bare.org/_x_y "),
    *("[file](src/a.py) ", "![picture](https://e.org/p.png) ", "[m](mailto:a@e.org) "),
    *(
        "[![p](i.png)](https://e.org) ",
        "[](https://e.org) ",
        "[<https://in.org> it](https://e.org) ",
    ),
]
_BLOCKS = [
    *("\n", "\n\n", "\n- ", "\n  - ", "\n1. ", "\n> ", "\n> > ", "\n# ", "\n#### ", "\n---\n"),
    *("\n```py\n", "\n```\n", "\n~~~\n", "\n    ", "\n- [ ] ", "\n- [x] ", "\n\n\n", "\n====\n"),
    *("\n| a | b |\n|---|---|\n| c | d |\n", "\n|x|\n|-|\n", "|", "\n+ ", "\n* "),
]
_ODD = [
    *("*", "_", "**", "~~", "`", "```", "\\", "\\*", "[", "](", ")", "<", ">", "&", "&amp;"),
    *("<b>html</b>", "<br>", "<@123>", "@everyone", "||", "#", "-", "+", "!", "![", "<t:1>"),
    *("*a*b", "a**b**c", "***", "*a `b*` c*", "[a]: b\n", "\t", "  \n", "&#42;", "-# ", ":x:"),
]
PIECES = (*_WORDS, *_INLINE, *_LINKS, *_BLOCKS, *_ODD)

markdown = st.lists(st.sampled_from(PIECES), min_size=1, max_size=14).map("".join)
"""Pieces of Markdown in any order: most of what a parser can be led to is among it."""

anything = st.one_of(
    markdown,
    st.text(max_size=60),
    st.text(st.characters(min_codepoint=0, max_codepoint=0x20), max_size=8),
    st.text("\ud83d\ude00\x00\x01\r\n*`\ufffe<a", max_size=12),
)
"""And what no model should say."""


def has_words(text: str) -> bool:
    return bool(text.strip())

"""Links of the Markdown parser."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from holdfast.platforms.text.autolinks import NORMAL_URL, LinkParser


@given(st.from_regex(NORMAL_URL, fullmatch=True))
def test_an_address_that_is_taken_as_it_is_would_be_normalised_to_itself(url: str) -> None:
    """The shortcut changes no link."""
    assert MarkdownIt("commonmark").normalizeLink(url) == url


@pytest.mark.parametrize(
    "url",
    [
        "https://exämple.org/a",
        "https://example.org/a b",
        "https://example.org/ä?q=ü",
        "https://EXAMPLE.org/%7Ea",
        "mailto:ann@exämple.org",
        "../a file.md",
    ],
)
def test_every_other_address_is_normalised_by_the_parser(url: str) -> None:
    expected = MarkdownIt("commonmark").normalizeLink(url)
    assert LinkParser("commonmark").normalizeLink(url) == expected

"""Splitting: no word is lost between two messages, and none is longer than it may be."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.splitting import split


def test_a_text_that_fits_is_one_part() -> None:
    assert split("hello", 5) == ("hello",)
    assert split("hello" * 1000, None) == ("hello" * 1000,)


def test_it_is_cut_where_a_reader_would_pause() -> None:
    assert split("one two three", 8) == ("one two ", "three")
    assert split("first line\nsecond line", 16) == ("first line\n", "second line")
    assert (
        split("a paragraph\n\nand one more line\nhere", 31)[0]
        == "a paragraph\n\nand one more line\n"
    )


def test_a_word_longer_than_a_message_is_cut_through() -> None:
    assert split("x" * 25, 10) == ("x" * 10, "x" * 10, "x" * 5)


@given(st.text(alphabet="ab \n", min_size=1, max_size=200), st.integers(1, 40))
def test_parts_are_short_enough_and_lose_nothing_but_space(text: str, limit: int) -> None:
    parts = split(text, limit)
    assert all(len(part) <= limit for part in parts) and parts
    assert "".join("".join(parts).split()) == "".join(text.split())
    assert all(part.strip() for part in parts) or not text.strip()

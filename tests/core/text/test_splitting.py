"""Splitting long messages: no text is lost, each part fits and is valid Markdown on its own."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.ports.capabilities import LengthUnit
from holdfast.core.text.splitting import fitting_prefix, message_length, split_message

WORDS = [
    "word ",
    "Sentence. ",
    "x" * 30,
    "\n",
    "\n\n",
    "**bold words** ",
    "a_b ",
    "`code x` ",
    "\t",
]
MARKS = [
    "[link](https://x.y/z) ",
    "https://a.b/c_d ",
    "- ",
    "  - ",
    "    ",
    "> ",
    "1. ",
    "# ",
    "---",
]
BLOCKS = [
    "```py\n",
    "```\n",
    "~~~\n",
    "| a | b |\n",
    "|---|---|\n",
    "***",
    "\\",
    "~~s~~ ",
    "é",
    "ﬁ",
]
GRAPHEMES = ["e\u0301\u0301", "🇩🇪", "👩\u200d👩\u200d👧", "👍🏽", "각"]
MARKDOWN = st.lists(st.sampled_from([*WORDS, *MARKS, *BLOCKS, *GRAPHEMES]), max_size=50).map(
    "".join
)


def test_a_text_that_fits_is_one_part() -> None:
    assert split_message("hello", 5) == ("hello",)
    assert split_message("hello" * 1000, None) == ("hello" * 1000,)


def test_a_text_is_split_where_a_reader_would_pause() -> None:
    assert split_message("one two three", 8) == ("one two ", "three")
    assert split_message("first line\nsecond line", 16) == ("first line\n", "second line")
    assert (
        split_message("a paragraph\n\nand one more line\nhere", 31)[0]
        == "a paragraph\n\nand one more line\n"
    )
    assert split_message("It was so for long. And it is so.", 28) == (
        "It was so for long. ",
        "And it is so.",
    )


def test_a_word_longer_than_a_message_is_split() -> None:
    assert split_message("x" * 25, 10) == ("x" * 10, "x" * 10, "x" * 5)


def test_a_split_fence_is_closed_and_reopened_with_its_language() -> None:
    code = "\n".join(f"line_number({n})" for n in range(8))
    parts = split_message(f"```python title=x\n{code}\n```", 90)
    assert len(parts) > 1
    assert all(part.startswith("```python") for part in parts)
    assert all(part.rstrip().endswith("\n```") for part in parts)
    said = [line for part in parts for line in part.splitlines() if not line.startswith("```")]
    assert "\n".join(said) == code


def test_a_fence_that_fits_the_next_message_is_not_split() -> None:
    before = "A few words before it, and a few more of them.\n\n"
    fence = "```\n" + "code " * 8 + "\n```\n"
    assert split_message(before + fence, len(before) + 20) == (before, fence)


def test_a_split_table_has_its_head_in_each_message() -> None:
    head = "| name | size |\n|---|---|\n"
    body = "".join(f"| file {n} | {n} kB |\n" for n in range(12))
    parts = split_message(head + body, 120)
    assert len(parts) > 1 and all(part.startswith(head) for part in parts)
    assert "".join(part.removeprefix(head) for part in parts) == body


def test_a_split_quote_continues_as_a_quote() -> None:
    parts = split_message("> " + "quoted words " * 10, 50)
    assert len(parts) > 1 and all(part.startswith("> ") for part in parts)


def test_a_split_list_continues_as_a_list_and_not_as_code() -> None:
    text = "- first\n  - second\n" + "".join(f"    - deep item {n}\n" for n in range(8))
    parts = split_message(text, 70)
    assert len(parts) > 1 and all(part.startswith("- ") for part in parts)


@pytest.mark.parametrize("mark", ["**", "_", "~~", "`"])
def test_emphasis_longer_than_a_message_is_closed_and_reopened(mark: str) -> None:
    parts = split_message(mark + "many words in a row " * 8 + f"at its end{mark}", 60)
    assert len(parts) > 2
    assert all(part.startswith(mark) and part.rstrip().endswith(mark) for part in parts)


def test_emphasis_over_several_lines_is_not_split_if_avoidable() -> None:
    text = "some words before it\nand **these are bold\nover two lines** and\nthese are not"
    for limit in range(45, 75):
        assert all(part.count("**") % 2 == 0 for part in split_message(text, limit)), limit


def test_a_fence_in_a_list_is_closed_within_its_item() -> None:
    text = "1. so:\n\n   ```py\n" + "".join(f"   line {n}\n" for n in range(12)) + "   ```\n"
    first, *more = split_message(text, 80)
    assert first.endswith("\n   ```") and more[0].startswith("```py\nline ")


def test_a_link_is_not_split_if_avoidable() -> None:
    link = "[a link of some words](https://example.org/where/it/goes)"
    for limit in range(len(link) + 2, 100):
        parts = split_message(
            f"Some words before it, more of them, then {link} and after it.", limit
        )
        assert any(link in part for part in parts), (limit, parts)


def test_what_stood_within_a_line_does_not_become_a_list_or_a_heading() -> None:
    assert split_message("seven minus four - three", 18) == ("seven minus four ", "\\- three")
    assert split_message("they were as many as 12. No more", 22)[1:] == ("12\\. No more",)


@pytest.mark.parametrize(
    "grapheme", ["e\u0301", "🇩🇪", "👩\u200d👩\u200d👧\u200d👦", "👍🏽", "❤\ufe0f", "각"]
)
def test_no_grapheme_is_split(grapheme: str) -> None:
    for ahead in range(12):
        parts = split_message("x" * ahead + grapheme * 20, 15)
        whole = "".join(parts)
        assert whole.count(grapheme) == 20
        assert sum(part.count(grapheme) for part in parts) == 20, parts


@pytest.mark.parametrize("piece", ["_a", "*a ", "`a``", "> ", "[a](", "[", "- ", "<", "~~a", "|\n"])
def test_a_hostile_text_takes_no_longer_than_another(piece: str) -> None:
    """Law 14: with a square of its length, this would not end before the test is stopped."""
    parts = split_message(piece * 12_000, 2000)
    assert all(len(part) <= 2000 for part in parts)


@given(st.text(max_size=40), st.integers(0, 60), st.sampled_from(LengthUnit))
def test_the_longest_prefix_that_fits_is_found(text: str, limit: int, unit: LengthUnit) -> None:
    at = fitting_prefix(text, limit, unit)
    assert message_length(text[:at], unit) <= limit
    assert at == len(text) or message_length(text[: at + 1], unit) > limit


@given(st.text(alphabet="ab \n", min_size=1, max_size=200), st.integers(1, 40))
def test_parts_are_short_enough_and_lose_nothing_but_space(text: str, limit: int) -> None:
    parts = split_message(text, limit)
    assert all(len(part) <= limit for part in parts) and parts
    assert "".join("".join(parts).split()) == "".join(text.split())
    assert all(part.strip() for part in parts) or not text.strip()


@given(MARKDOWN, st.integers(8, 90), st.sampled_from(LengthUnit))
def test_parts_of_markdown_fit_in_every_unit_and_lose_no_character(
    text: str, limit: int, unit: LengthUnit
) -> None:
    parts = split_message(text, limit, unit=unit)
    assert all(message_length(part, unit) <= limit for part in parts)
    assert _is_subsequence(_characters(text), _characters("".join(parts)))
    assert split_message(text, limit, unit=unit) == parts


@given(MARKDOWN, st.integers(20, 90))
def test_what_a_platform_makes_of_a_part_fits_too(text: str, limit: int) -> None:
    """It grows where there are marks, as it does where they are escaped."""

    def fits(part: str) -> bool:
        return len(part) + 2 * sum(part.count(mark) for mark in "*_`~#>") <= limit

    parts = split_message(text, limit, fits=fits)
    assert all(fits(part) for part in parts)
    assert _is_subsequence(_characters(text), _characters("".join(parts)))


@given(
    st.lists(
        st.sampled_from(["word ", "A sentence. ", "\n\n", "longer-word "]), min_size=30, max_size=60
    )
)
def test_a_text_that_grows_keeps_its_parts_but_the_last(pieces: list[str]) -> None:
    whole = split_message("".join(pieces), 80)
    for count in range(0, len(pieces), 9):
        shorter = split_message("".join(pieces[:count]), 80)
        assert shorter[:-1] == whole[: len(shorter) - 1]


def _characters(text: str) -> str:
    return "".join(grapheme for grapheme in text if grapheme.isalnum())


def _is_subsequence(some: str, all_of_it: Iterable[str]) -> bool:
    """In order, with others between them: a table's head comes again in each part."""
    rest = iter(all_of_it)
    return all(grapheme in rest for grapheme in some)

"""Redaction of streams: no split and no markup lets a secret through (law 13)."""

import json
import unicodedata
from collections.abc import Iterable
from html import unescape
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.platforms.text.discord_reader import discord_text
from tests.platforms.text.html_reader import html_text
from tests.platforms.text.slack_reader import block_text

from holdfast.core.ids import CallId
from holdfast.core.messages.events import (
    ReasoningStreamed,
    StepEnded,
    StreamVoided,
    TextStreamed,
    ToolEnded,
    ToolProgressed,
    ToolStarted,
    TurnEvent,
)
from holdfast.core.messages.transcript import ToolOutcome
from holdfast.core.secrets import Secret
from holdfast.core.text.splitting import split_message
from holdfast.gateway.live.live_step import StreamRedactor
from holdfast.gateway.redaction import REDACTED, Redaction
from holdfast.platforms.text import discord, html, irc, layout, slack, telegram, xmpp

SECRETS = ("abababac", "aaaaaaaab")
redact = Redaction([Secret(value) for value in SECRETS])
# Format characters that have a shape: signs before Arabic, Syriac and Kaithi numbers, and the
# joiners of Egyptian hieroglyphs and shorthand.
SHOWN_FORMATS = (
    range(0x600, 0x606), range(0x6DD, 0x6DE), range(0x70F, 0x710), range(0x890, 0x892),
    range(0x8E2, 0x8E3), range(0x110BD, 0x110BE), range(0x110CD, 0x110CE),
    range(0x13430, 0x13456),
)  # fmt: skip
KEY = "sk_live_4f*9a~c2"
CALL, OTHER = CallId("c1"), CallId("c2")
QUICK = settings(max_examples=60, deadline=None, derandomize=True)


def pieces_of(text: str, cuts: Iterable[int]) -> list[str]:
    offsets = sorted({0, len(text), *(cut for cut in cuts if cut <= len(text))})
    return [text[a:b] for a, b in pairwise(offsets)]


@given(st.lists(st.text("abc ", max_size=12), max_size=12), st.sampled_from(SECRETS), st.data())
def test_no_split_lets_a_secret_through(parts: list[str], secret: str, data: st.DataObject) -> None:
    """Law 13: exact values, in every output."""
    parts.insert(data.draw(st.integers(0, len(parts))), secret)
    text = "".join(parts)
    cuts = data.draw(st.sets(st.integers(0, len(text)), max_size=8))
    redactor = StreamRedactor(redact)
    shown = [
        event
        for piece in pieces_of(text, cuts)
        for event in redactor.redact_event(TextStreamed(piece))
    ]
    shown += redactor.redact_event(StepEnded(text))
    streamed_text = "".join(event.text for event in shown if isinstance(event, TextStreamed))
    assert not any(value in streamed_text for value in SECRETS)
    assert streamed_text.replace("[redacted]", "") == streamed_text or "[redacted]" in redact(text)


def ranges(*found: tuple[int, int]) -> list[int]:
    return [code for first, last in found for code in range(first, last + 1)]


# Default_Ignorable_Code_Point of Unicode's DerivedCoreProperties.txt.
IGNORABLE = ranges(
    (0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5),
    (0x180B, 0x180F), (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164),
    (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF),
)  # fmt: skip


def spell_key(data: st.DataObject) -> str:
    """The key as Markdown may write it: escaped, styled, as entities, with zero-width marks."""
    spellings = ["{}", "\\{}", "**{}", "{}`", "&#{};", "{}\u200b", "_{}_"]
    spellings += [f"{{}}{chr(data.draw(st.sampled_from(IGNORABLE)))}" for _ in range(4)]
    characters = []
    for character in KEY:
        spelling = data.draw(st.sampled_from(spellings))
        if spelling == "\\{}" and character.isalnum():
            spelling = "{}"  # there a backslash is a character of the text
        characters.append(spelling.format(ord(character) if spelling == "&#{};" else character))
    return "".join(characters)


def visible_characters(text: str) -> str:
    """The characters that a reader sees, without those between them."""
    return "".join(character for character in unescape(text) if character.isalnum())


@QUICK
@given(st.data())
def test_no_markup_and_no_split_lets_a_secret_through(data: st.DataObject) -> None:
    """Law 13: what a reader sees counts, and not its markup."""
    gate = Redaction([Secret(KEY)])
    text = f"Its key is {spell_key(data)}, and **that** is `it` & all."
    cuts = data.draw(st.sets(st.integers(0, len(text)), max_size=10))
    assert visible_characters(KEY) not in visible_characters(gate(text))
    streamed, held = "", ""
    for piece in pieces_of(text, cuts):
        shown, held = gate.split_stream(held + piece)
        streamed += shown
        assert visible_characters(KEY) not in visible_characters(streamed)
    assert visible_characters(KEY) not in visible_characters(streamed + gate(held))


def test_each_character_that_shows_nothing_is_ignored() -> None:
    """The attack: a letter, a variation selector, the next letter. A reader sees the key."""
    gate = Redaction([Secret(KEY)])
    unicode_categories = {"Cf", "Cc"}  # formats and controls
    more = [
        code
        for code in range(0x110000)
        if unicodedata.category(chr(code)) in unicode_categories
        and chr(code) not in "\t\n\r"
        and not any(code in each for each in SHOWN_FORMATS)
    ]
    for code in {*IGNORABLE, *more}:
        assert gate(chr(code).join(KEY)) == REDACTED, hex(code)


@pytest.mark.parametrize("mark", ["\ufe0f", "\U000e0041", "&#xFE0F;", "&zwj;", "\u034f*\u200b"])
@pytest.mark.parametrize("many", [1, 20, 5000])
@pytest.mark.parametrize("size", [7, 700, 3000])
def test_any_number_of_invisible_characters_hides_no_secret_in_a_stream(
    mark: str, many: int, size: int
) -> None:
    """Law 13: also in output that arrives in small pieces, and what is held back stays small."""
    gate = Redaction([Secret(KEY)])
    text = f"Its key: {(mark * many).join(KEY)}, that is all. {mark}"
    streamed, held, longest = "", "", 0
    for start in range(0, len(text), size):
        shown, held = gate.split_stream(held + text[start : start + size])
        longest = max(longest, len(held))
        streamed += shown
    streamed += gate(held)
    assert visible_characters(KEY) not in visible_characters(streamed)
    assert REDACTED in streamed and "that is all." in streamed
    assert longest <= gate.max_match_length


@QUICK
@given(st.data(), st.integers(30, 90))
def test_no_renderer_and_no_split_reassembles_a_secret(data: st.DataObject, limit: int) -> None:
    """Law 13: redaction precedes splitting and rendering, and allows for both."""
    gate = Redaction([Secret(KEY)])
    text = gate(f"- Its key is {spell_key(data)} or **{KEY}**\n- and [so]({KEY}) `{KEY}`")
    parts = split_message(text, limit)
    for parts_or_all in (parts, (text,)):
        for shown in _rendered(parts_or_all):
            assert visible_characters(KEY) not in visible_characters(shown)


def _rendered(parts: tuple[str, ...]) -> list[str]:
    return [
        "".join(telegram.render(part).text for part in parts),
        "".join(discord_text(discord.render(part)) for part in parts),
        "".join(block_text(slack.render(part).blocks[0]) for part in parts),
        "".join(html_text(html.render_matrix(part).html) for part in parts),
        "".join("".join(irc.render(part)) for part in parts),
        "".join(xmpp.render(part).body for part in parts),
        "".join(layout.render_plain(part) for part in parts),
    ]


@pytest.mark.parametrize("value", ['pass"word\\with', "line one\nline two", "schlüsselwort"])
def test_a_secret_is_redacted_in_the_arguments_of_a_call(value: str) -> None:
    gate = Redaction([Secret(value)])
    for form in (json.dumps(value), json.dumps(value, ensure_ascii=False)):
        (event,) = StreamRedactor(gate).redact_event(
            ToolStarted(CALL, "terminal", f'{{"command": {form}}}')
        )
        assert isinstance(event, ToolStarted)
        assert event.arguments == f'{{"command": "{REDACTED}"}}'


def test_the_output_of_each_command_is_redacted_as_its_own_stream() -> None:
    """Law 13: a reader joins the pieces of each output."""
    redactor = StreamRedactor(redact)
    events: list[TurnEvent] = []
    for event in (
        ToolProgressed(CALL, "it is abab"),
        ToolProgressed(OTHER, "abac"),
        ToolProgressed(CALL, "abac."),
        ToolProgressed(OTHER, " aba"),
        ToolEnded(OTHER, "terminal", ToolOutcome.OK, "abac aba"),
    ):
        events += redactor.redact_event(event)
    outputs = {
        call: "".join(e.text for e in events if isinstance(e, ToolProgressed) and e.call_id == call)
        for call in (CALL, OTHER)
    }
    assert outputs == {CALL: f"it is {REDACTED}.", OTHER: "abac aba"}


def test_reasoning_is_redacted_like_text() -> None:
    redactor = StreamRedactor(redact)
    events = [
        *redactor.redact_event(ReasoningStreamed("abab")),
        *redactor.redact_event(ReasoningStreamed("abac!")),
    ]
    assert events == [ReasoningStreamed(f"{REDACTED}!")]


def test_a_secret_contained_in_the_redaction_marker_causes_no_endless_loop() -> None:
    gate = Redaction([Secret("redacted"), Secret("*re_dacted*")])
    assert gate("**redacted**") == "**redacted**"


def test_ordinary_text_is_shown_at_once() -> None:
    redactor = StreamRedactor(redact)
    assert list(redactor.redact_event(TextStreamed("hello"))) == [TextStreamed("hello")]
    assert list(redactor.redact_event(TextStreamed(" ab"))) == [TextStreamed(" ")]
    assert list(redactor.redact_event(TextStreamed("out"))) == [TextStreamed("about")]


def test_held_text_is_released_at_a_step_end_and_dropped_with_a_voided_step() -> None:
    redactor = StreamRedactor(redact)
    list(redactor.redact_event(TextStreamed("ab")))
    assert list(redactor.redact_event(StepEnded("ab"))) == [TextStreamed("ab"), StepEnded("ab")]
    list(redactor.redact_event(TextStreamed("ab")))
    assert list(redactor.redact_event(StreamVoided("why"))) == [StreamVoided("why")]
    assert list(redactor.redact_event(TextStreamed("c"))) == [TextStreamed("c")]

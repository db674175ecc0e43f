"""Redaction of streams: no split and no markup lets a secret through (law 13)."""

import json
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


def spell_key(data: st.DataObject) -> str:
    """The key as Markdown may write it: escaped, styled, as entities, with zero-width marks."""
    spellings = ["{}", "\\{}", "**{}", "{}`", "&#{};", "{}\u200b", "_{}_"]
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

"""Search queries: their match expressions, snippets and scope."""

import pytest

from holdfast.core.ids import PrincipalId
from holdfast.core.messages.source import ChatType, Source, build_session_key
from holdfast.core.sessions.search import search_scope
from holdfast.core.turns.subagent import INTERNAL_PLATFORM
from holdfast.store.search.queries import (
    fold_text,
    match_expression,
    parse_terms,
    separate_words,
    snippet_pieces,
)


@pytest.mark.parametrize(
    ("typed", "expression"),
    [
        ("kelp", '("kelp" *)'),
        ("kelp forest", '("kelp" * AND "forest" *)'),
        ('"kelp forest" old', '("kelp forest" AND "old" *)'),
        ("kelp -forest", '("kelp" *) NOT "forest" *'),
        ('kelp -"the forest"', '("kelp" *) NOT "the forest"'),
        ("well-known", '("well known" *)'),
        ("東京", '("東 京" *)'),
        ("-forest", ""),
        ('"', ""),
        ("* ( ) : ^", ""),
        ('"never closed', '("never closed")'),
    ],
)
def test_a_query_becomes_a_match_expression_or_nothing(typed: str, expression: str) -> None:
    assert match_expression(parse_terms(typed)) == expression


def test_only_scripts_without_spaces_are_split_into_characters() -> None:
    assert separate_words("a 東京b").split() == ["a", "東", "京", "b"]
    assert separate_words("plain text") == "plain text"


@pytest.mark.parametrize("text", ["Ångström", "ŒUVRE", "İstanbul", "ẞ", "ﬁn", "한국어"])
def test_folding_keeps_the_position_of_every_character(text: str) -> None:
    assert len(fold_text(text)) == len(text)
    assert fold_text("Ångström") == "angstrom"


def test_a_snippet_marks_the_matches_on_one_line() -> None:
    text = "x " * 100 + "the Kelp\nforest is öld " + "y " * 200
    shown = snippet_pieces(text, parse_terms('"kelp forest" old'))
    assert shown[1::2] == ("Kelp forest", "öld")
    assert shown[0].startswith("…") and shown[-1].endswith("…")
    assert "\n" not in "".join(shown)
    assert len("".join(shown)) < 250


def test_only_word_prefixes_are_marked() -> None:
    assert snippet_pieces("apart art artful", parse_terms("art"))[1::2] == ("art", "art")


def test_a_snippet_without_a_match_is_the_beginning_of_the_text() -> None:
    assert snippet_pieces("nothing here", parse_terms("kelp")) == ("nothing here",)


def test_a_group_chat_finds_only_its_own_messages() -> None:
    ann = PrincipalId("simulated:default:ann")
    alone = build_session_key(Source(platform="simulated", chat_id="1", user_id="ann"))
    assert search_scope(alone, ann).principal == ann
    for kind in (ChatType.GROUP, ChatType.CHANNEL, ChatType.THREAD):
        source = Source(platform="simulated", chat_id="1", user_id="ann", chat_type=kind)
        assert search_scope(build_session_key(source), ann).principal is None
    subagent = build_session_key(Source(platform=INTERNAL_PLATFORM, chat_id="1", user_id="ann"))
    assert search_scope(subagent, ann).principal is None

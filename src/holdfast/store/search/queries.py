"""A search: parsed query terms, the searchable text of a message, matching records and their
snippets."""

import re
import unicodedata
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

import apsw
import msgspec

from holdfast.core.ids import SessionId
from holdfast.core.messages.transcript import AssistantMessage, Message, ToolMessage, UserMessage
from holdfast.core.sessions.search import MAX_QUERY_LENGTH, SearchMatch, SearchQuery
from holdfast.store.sqlite import rows
from holdfast.store.sqlite.reads import sessions

_TERM_PATTERN = re.compile(r'(-?)"([^"]*)"?|(\S+)')
_WORD_PATTERN = re.compile(r"\w+")
_MAX_CHARACTERS = 64 * 1024  # of one message; longer ones are dumps that are not searched
_CONTEXT_BEFORE, _SNIPPET_LENGTH = 60, 220
_MAX_SCANNED = 200_000  # characters of a text; matches behind them are found but not shown
# Messages of people and agents count for more than the output of tools. Scores are rounded, so that
# of two equal matches the newer one comes first.
_SCORE = "round(bm25(words, 1.0, 0.3), 1)"
_SESSION_WHERE = "SELECT 1 FROM state.sessions s WHERE s.id = e.session_id AND "
# Scripts without spaces between words: each character is a word of its own in the index, and
# several in a row are a phrase.
_UNSPACED_SCRIPTS = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003ffff]"
)


class SearchTerm(msgspec.Struct, frozen=True, kw_only=True):
    """Consecutive words. `is_prefix`: the last one may be longer; `excluded`: it must not occur."""

    words: tuple[str, ...]
    is_prefix: bool = False
    excluded: bool = False

    @property
    def expression(self) -> str:
        return f'"{" ".join(self.words)}"{" *" if self.is_prefix else ""}'


def separate_words(text: str) -> str:
    """The text as it is indexed, with spaces between the words of unspaced scripts."""
    return _UNSPACED_SCRIPTS.sub(lambda found: f" {found[0]} ", text)


def parse_terms(typed: str) -> list[SearchTerm]:
    """Bare words match words with that prefix, quoted words match exactly and in that order, and a
    leading minus excludes."""
    found = (_make_term(*match.groups(default="")) for match in _TERM_PATTERN.finditer(typed))
    return [term for term in found if term.words]


def _make_term(minus: str, quoted: str, unquoted: str) -> SearchTerm:
    excluded = bool(minus) or (unquoted.startswith("-") and len(unquoted) > 1)
    words = tuple(_split_words(quoted or unquoted))
    return SearchTerm(words=words, is_prefix=bool(unquoted), excluded=excluded)


def _split_words(text: str) -> list[str]:
    return [
        word
        for run in _WORD_PATTERN.findall(separate_words(text))
        for word in run.split("_")
        if word
    ]


def match_expression(terms: list[SearchTerm]) -> str:
    """The expression for `MATCH`; "": there is nothing to search for, also if the query only
    excludes."""
    included = " AND ".join(term.expression for term in terms if not term.excluded)
    excluded = "".join(f" NOT {term.expression}" for term in terms if term.excluded)
    return f"({included}){excluded}" if included else ""


def fold_text(text: str) -> str:
    """The text as the index compares it: without case and diacritics. It keeps its length, so that
    offsets are valid in both."""
    return "".join(map(_fold_letter, text))


def _fold_letter(letter: str) -> str:
    if letter.isascii():
        return letter.lower()
    unquoted = unicodedata.normalize("NFD", letter)[0].lower()
    return unquoted if len(unquoted) == 1 else letter


class SearchableText(NamedTuple):
    role: str
    message_text: str = ""  # by a person or an agent
    tool_text: str = ""  # calls and their results

    @property
    def text(self) -> str:
        return "\n".join(filter(None, (self.message_text, self.tool_text)))


def searchable_text(message: Message) -> SearchableText | None:
    """The text of a message to be indexed; None for our own notices, which are not part of the
    conversation."""
    match message:
        case UserMessage():
            found = SearchableText("user", message_text=message.text)
        case AssistantMessage():
            calls = "\n".join(f"{call.name} {call.arguments}" for call in message.calls)
            found = SearchableText("assistant", message_text=message.text, tool_text=calls)
        case ToolMessage():
            found = SearchableText("tool", tool_text=message.text)
        case _:
            return None
    return found._replace(
        message_text=found.message_text[:_MAX_CHARACTERS],
        tool_text=found.tool_text[:_MAX_CHARACTERS],
    )


def snippet_pieces(text: str, terms: Sequence[SearchTerm]) -> tuple[str, ...]:
    """Plain and matching pieces in turn, the first one plain; together they are the snippet."""
    text = text[:_MAX_SCANNED]
    spans = _match_spans(text, terms)
    first = max(spans[0][0] - _CONTEXT_BEFORE, 0) if spans else 0
    last = min(first + _SNIPPET_LENGTH, len(text))
    pieces = ["…" if first else ""]
    at = first
    for begin, end in spans:
        if begin >= at and end <= last:
            pieces[-1] += _one_line(text[at:begin])
            pieces += [_one_line(text[begin:end]), ""]
            at = end
    pieces[-1] += _one_line(text[at:last]) + ("…" if last < len(text) else "")
    pieces[0] = pieces[0].lstrip()
    pieces[-1] = pieces[-1].rstrip()
    return tuple(pieces)


def _match_spans(text: str, terms: Sequence[SearchTerm]) -> list[tuple[int, int]]:
    patterns = [_term_pattern(term) for term in terms if not term.excluded]
    if not patterns:
        return []
    return [found.span() for found in re.finditer("|".join(patterns), fold_text(text))]


def _term_pattern(term: SearchTerm) -> str:
    """Whole words as the index has them, separated by anything that is not a letter."""
    words = r"[\W_]*".join(re.escape(fold_text(word)) for word in term.words)
    alone = all(word.isascii() for word in term.words)
    return rf"(?<![^\W_]){words}" if alone else words


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def find_records(cursor: apsw.Cursor, query: SearchQuery) -> list[SearchMatch]:
    """The matching records, the best first. A message that was deleted or undone is not found, even
    if the index still has it."""
    terms = parse_terms(query.words[:MAX_QUERY_LENGTH])
    expression = match_expression(terms)
    if not expression:
        return []
    where, bindings = _filters(query)
    found = cursor.execute(
        f"SELECT e.session_id, e.seq, {_SCORE} AS score FROM words JOIN entries e"
        f" ON e.id = words.rowid WHERE words MATCH ? {where}"
        " ORDER BY score, e.created_at DESC, e.session_id, e.seq DESC LIMIT ?",
        (expression, *bindings, query.limit),
    ).fetchall()
    records = (_found_record(cursor, SessionId(str(row[0])), row[1], terms) for row in found)
    return [record for record in records if record is not None]


def _filters(query: SearchQuery) -> tuple[str, list[Any]]:
    parts: list[str] = []
    bindings: list[Any] = []
    if query.session_id is not None:
        parts.append("e.session_id = ?")
        bindings.append(query.session_id)
    if query.since:
        parts.append("e.created_at >= ?")
        bindings.append(query.since)
    if query.platform:
        prefix = f"{quote(query.platform, safe='')}:"
        parts.append(f"EXISTS ({_SESSION_WHERE} substr(s.route, 1, length(?)) = ?)")
        bindings += [prefix, prefix]
    if query.scope is not None:
        parts.append(f"EXISTS ({_SESSION_WHERE} (s.route = ? OR s.principal = ?))")
        bindings += [query.scope.route, query.scope.principal]
    return "".join(f" AND {part}" for part in parts), bindings


def _found_record(
    cursor: apsw.Cursor, session_id: SessionId, seq: Any, terms: list[SearchTerm]
) -> SearchMatch | None:
    row = cursor.execute(
        f"SELECT {rows.RECORD_COLUMNS} FROM {rows.messages_not_undone('state')}"
        " WHERE session_id = ? AND seq = ?",
        (session_id, seq),
    ).fetchone()
    session = sessions.session(cursor, session_id)
    if row is None or session is None:
        return None
    record = rows.decode_record(row)
    searchable = searchable_text(record.message)
    if searchable is None:
        return None
    return SearchMatch(
        session=session,
        seq=record.seq,
        role=searchable.role,
        pieces=snippet_pieces(searchable.text, terms),
        created_at=record.created_at,
    )

"""A snippet: the part of a text around what was searched for, with that marked."""

import re
from collections.abc import Sequence

from holdfast.store.search.question import SearchTerm, fold_text

_CONTEXT_BEFORE, _SNIPPET_LENGTH = 60, 220
_MAX_SCANNED = 200_000  # characters into a text; what stands behind them is found and not shown


def snippet_pieces(text: str, wanted: Sequence[SearchTerm]) -> tuple[str, ...]:
    """Plain and found pieces in turn, the first one plain; together they are the snippet."""
    text = text[:_MAX_SCANNED]
    places = _match_spans(text, wanted)
    first = max(places[0][0] - _CONTEXT_BEFORE, 0) if places else 0
    last = min(first + _SNIPPET_LENGTH, len(text))
    made = ["…" if first else ""]
    at = first
    for begin, end in places:
        if begin >= at and end <= last:
            made[-1] += _one_line(text[at:begin])
            made += [_one_line(text[begin:end]), ""]
            at = end
    made[-1] += _one_line(text[at:last]) + ("…" if last < len(text) else "")
    made[0] = made[0].lstrip()
    made[-1] = made[-1].rstrip()
    return tuple(made)


def _match_spans(text: str, wanted: Sequence[SearchTerm]) -> list[tuple[int, int]]:
    patterns = [_term_pattern(term) for term in wanted if not term.excluded]
    if not patterns:
        return []
    return [found.span() for found in re.finditer("|".join(patterns), fold_text(text))]


def _term_pattern(term: SearchTerm) -> str:
    """Whole words as the index has them: whatever is no letter stands between two of them."""
    words = r"[\W_]*".join(re.escape(fold_text(word)) for word in term.words)
    alone = all(word.isascii() for word in term.words)
    return rf"(?<![^\W_]){words}" if alone else words


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text)

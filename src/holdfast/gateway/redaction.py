"""Redaction: the last gate before anything is kept or said; it knows every secret by value."""

import json
from collections.abc import Iterable, Iterator

from holdfast.core.secret import Secret
from holdfast.gateway.disguise import bare, bared, is_disguised, unfinished

MARK = "[redacted]"
_MARKED = 16  # times as long as itself, at the most, is a value with all its marks
_SHORTEST = 8  # a shorter value would tear holes into ordinary text


class Redaction:
    """Owns the exact values of all secrets, and takes them out of any text: as they are, as they
    stand in JSON, and as Markdown or an entity would spell them. This keeps a secret from slipping
    out; whoever wants to tell it can spell it in ways that nobody can list."""

    def __init__(self, secrets: Iterable[Secret]) -> None:
        self._known: set[str] = set()
        self.learn(secrets)

    def learn(self, secrets: Iterable[Secret]) -> None:
        """These are taken out from now on as well; what was a secret once stays one, for it may
        stand in what was said while it was. Other threads may be in the middle of a text: each
        list is put in place as a whole."""
        self._known |= {secret.reveal() for secret in secrets}
        values = frozenset(self._known)
        self._values = _longest_first(form for value in values for form in _forms(value))
        self._bare = _longest_first(bare(value) for value in values)

    def __call__(self, text: str) -> str:
        for value in self._values:
            if value in text:
                text = text.replace(value, MARK)
        if self._bare and is_disguised(text):
            text = self._unmasked(text)
        return text

    @property
    def reach(self) -> int:
        """How many characters a value may take up, with all its marks."""
        return _MARKED * (1 + max(map(len, (*self._values, *self._bare)), default=0))

    def stream(self, text: str) -> tuple[str, str]:
        """What of a growing text can be shown, and what must wait for more of it."""
        text = self(text)
        held = max((_begun(value, text) for value in self._values), default=0)
        if self._bare and is_disguised(text):
            held = max(held, self._disguised(text))
        return (text[:-held], text[-held:]) if held else (text, "")

    def _unmasked(self, text: str) -> str:
        """Without the values that are there for a reader alone."""
        signs = bare(text)
        for value in self._bare:
            if value in signs:
                text = _without(text, value)
        return text

    def _disguised(self, text: str) -> int:
        """How many characters at the end may become a value for a reader."""
        # What a command prints may be long; no value with its marks is.
        near = text[-(_MARKED * len(self._bare[0]) + _MARKED) :]
        open_end = unfinished(near)
        seen = bared(near[: len(near) - open_end])
        held = max((_begun(value, seen.signs) for value in self._bare), default=0)
        return len(near) - seen.places[-held][0] if held else open_end


def _without(text: str, value: str) -> str:
    seen, kept, end = bared(text), [], 0
    at = seen.signs.find(value)
    while at != -1:
        kept.append(text[end : seen.places[at][0]])
        end = seen.places[at + len(value) - 1][1]
        at = seen.signs.find(value, at + len(value))
    return MARK.join((*kept, text[end:]))


def _forms(value: str) -> Iterator[str]:
    """The value, and what becomes of it in the arguments of a call."""
    yield value
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]


def _longest_first(values: Iterable[str]) -> list[str]:
    """Or a secret that contains another would leave its rest behind."""
    # One that the mark itself says would never be gone.
    known = {value for value in values if len(value) >= _SHORTEST and value not in MARK}
    return sorted(known, key=len, reverse=True)


def _begun(value: str, text: str) -> int:
    """How many characters at the end of the text are the beginning of the value."""
    at = text.find(value[0], max(0, len(text) - len(value) + 1))
    while at != -1:
        if value.startswith(text[at:]):
            return len(text) - at
        at = text.find(value[0], at + 1)
    return 0

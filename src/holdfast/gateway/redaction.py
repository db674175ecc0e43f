"""Removes the values of all known secrets from text before it is stored, shown or sent.

Also finds values that only a reader of rendered Markdown or HTML entities would see.
"""

import json
import re
from collections.abc import Iterable, Iterator
from html import unescape

import msgspec

from holdfast.core.secrets import Secret

REDACTED = "[redacted]"
_MAX_MARKUP_FACTOR = 16  # a value with all its markup is at most so many times as long as itself
_MIN_LENGTH = 8  # a shorter value would remove parts of ordinary text
# Characters that show nothing: those with the property Default_Ignorable_Code_Point of Unicode
# (variation selectors, tags, joiners, fillers, direction marks), annotations and controls.
_NOT_SHOWN = (
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# These, and markup that is not visible when rendered. `sk\_live\_…` and `sk**live**…` show the same
# letters as the secret, but are not the same text.
_MARKUP = re.compile(f"[\\\\*_~`{_NOT_SHOWN}]+")
_CHARACTER = re.compile(
    r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});|.", re.DOTALL
)
_MAX_ENTITY = 34  # characters; the text may be cut within one
_OPEN_ENTITY = re.compile(r"&[#0-9a-zA-Z]{0,32}\Z")


def may_hide_text(text: str) -> bool:
    """Whether its visible text may differ from the text itself."""
    return "&" in text or _MARKUP.search(text) is not None


def visible_text(text: str) -> str:
    """The visible characters alone."""
    return _MARKUP.sub("", unescape(text) if "&" in text else text)


def open_entity_length(text: str) -> int:
    """How much at its end may be the beginning of an incomplete entity."""
    found = _OPEN_ENTITY.search(text)
    return len(text) - found.start() if found else 0


class VisibleText(msgspec.Struct, frozen=True, kw_only=True):
    """The visible characters, and the span of the source text that each comes from."""

    text: str
    spans: list[tuple[int, int]]


def map_visible_text(text: str) -> VisibleText:
    characters: list[str] = []
    spans: list[tuple[int, int]] = []
    for found in _CHARACTER.finditer(text):
        for character in unescape(found[0]) if len(found[0]) > 1 else found[0]:
            if not _MARKUP.match(character):
                characters.append(character)
                spans.append(found.span())
    return VisibleText(text="".join(characters), spans=spans)


class Redaction:
    """Owns the exact values of all secrets and removes them from any text: as they are, as JSON
    encodes them, and as Markdown or HTML entities spell them. This prevents accidental leaks; an
    agent that wants to leak a secret can always encode it in another way."""

    def __init__(self, secrets: Iterable[Secret]) -> None:
        self._known: set[str] = set()
        self.add_secrets(secrets)

    def add_secrets(self, secrets: Iterable[Secret]) -> None:
        """Redact these from now on, too. Old secrets stay redacted, because older texts may contain
        them. Other threads may be redacting a text: each list is replaced as a whole."""
        self._known |= {secret.reveal() for secret in secrets}
        values = frozenset(self._known)
        self._values = _longest_first(form for value in values for form in _forms(value))
        self._visible_values = _longest_first(visible_text(value) for value in values)

    def __call__(self, text: str) -> str:
        for value in self._values:
            if value in text:
                text = text.replace(value, REDACTED)
        if self._visible_values and may_hide_text(text):
            text = self._redact_visible(text)
        return text

    @property
    def max_match_length(self) -> int:
        """How many characters a value may take up, with all its marks."""
        return _MAX_MARKUP_FACTOR * (
            1 + max(map(len, (*self._values, *self._visible_values)), default=0)
        )

    def split_stream(self, text: str) -> tuple[str, str]:
        """What of a growing text can be shown, and what must wait for more of it."""
        text = self(text)
        withheld = 0
        for value in self._values:
            withheld = max(withheld, _prefix_length(value, text))
        if self._visible_values and may_hide_text(text):
            withheld = max(withheld, self._withheld_visible(text))
        if not withheld:
            return text, ""
        shown, held = text[:-withheld], text[-withheld:]
        if withheld > self.max_match_length:
            # Any number of marks may stand between two characters of a value, but is not kept.
            whole = len(held) - open_entity_length(held)
            held = visible_text(held[:whole]) + held[whole:]
        return shown, held

    def _redact_visible(self, text: str) -> str:
        """Without the values that are there for a reader alone."""
        visible = visible_text(text)
        for value in self._visible_values:
            if value in visible:
                text = _remove_visible(text, value)
        return text

    def _withheld_visible(self, text: str) -> int:
        """How many characters at the end may become a value for a reader."""
        near = self._visible_end(text)
        if "&" not in near and not self._visible_prefix_length(visible_text(near)):
            return 0
        open_end = open_entity_length(near)
        seen = map_visible_text(near[: len(near) - open_end])
        withheld = self._visible_prefix_length(seen.text)
        return len(near) - seen.spans[-withheld][0] if withheld else open_end

    def _visible_prefix_length(self, visible: str) -> int:
        return max((_prefix_length(value, visible) for value in self._visible_values), default=0)

    def _visible_end(self, text: str) -> str:
        """The end of the text in which a reader may see the beginning of a value."""
        # What a command prints may be long; few values with their marks are.
        needed = len(self._visible_values[0]) + _MAX_ENTITY
        size = _MAX_MARKUP_FACTOR * needed
        while size < len(text) and len(visible_text(text[-size:])) < needed:
            size *= 2
        return text[-size:]


def _remove_visible(text: str, value: str) -> str:
    seen, parts, end = map_visible_text(text), [], 0
    at = seen.text.find(value)
    while at != -1:
        parts.append(text[end : seen.spans[at][0]])
        end = seen.spans[at + len(value) - 1][1]
        at = seen.text.find(value, at + len(value))
    return REDACTED.join((*parts, text[end:]))


def _forms(value: str) -> Iterator[str]:
    """The value, and what becomes of it in the arguments of a call."""
    yield value
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]


def _longest_first(values: Iterable[str]) -> list[str]:
    """Or a secret that contains another would leave its rest behind."""
    # One that the mark itself says would never be gone.
    known = {value for value in values if len(value) >= _MIN_LENGTH and value not in REDACTED}
    return sorted(known, key=len, reverse=True)


def _prefix_length(value: str, text: str) -> int:
    """How many characters at the end of the text are the beginning of the value."""
    at = text.find(value[0], max(0, len(text) - len(value) + 1))
    while at != -1:
        if value.startswith(text[at:]):
            return len(text) - at
        at = text.find(value[0], at + 1)
    return 0

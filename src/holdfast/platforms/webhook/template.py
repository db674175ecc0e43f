"""A template: words with fields of a posted body in them, filled in and never executed.

`{issue.title}` is a field, `{commits.0.message}` one of a list, `{note|none}` a field and what
stands for it where it is missing, `{@X-GitHub-Event}` a header, `{*}` the whole body; `{{` and `}}`
are braces.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from holdfast.core.errors import HoldfastError

WHOLE = "*"
_PIECE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_SHOWN = 20  # characters of a template around a mistake in it


class Missing(HoldfastError):
    """A post lacks what a template names; `names` are all of those."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__(f"it lacks {', '.join(names)}")
        self.names = names


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """What a post has to say: its body, read, and its headers."""

    body: Any
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    default: str | None = None  # None: it has to be there

    @property
    def is_header(self) -> bool:
        return self.name.startswith("@")

    def find(self, posted: Posted) -> str | None:
        """Its value in words; None: there is none."""
        if self.is_header:
            return _text(posted.headers.get(self.name[1:]))
        return in_words(posted.body if self.name == WHOLE else inside(posted.body, self.name))


@dataclass(frozen=True, slots=True)
class Template:
    pieces: tuple[str | Field, ...]

    @property
    def headers(self) -> tuple[str, ...]:
        """Those that it names."""
        fields = [piece for piece in self.pieces if isinstance(piece, Field)]
        return tuple(field.name[1:] for field in fields if field.is_header)

    def fill(self, posted: Posted) -> str:
        """Raises `Missing`, with every name at once."""
        found = [self._filled(piece, posted) for piece in self.pieces]
        if missing := [piece.name for piece in found if isinstance(piece, Field)]:
            raise Missing(tuple(dict.fromkeys(missing)))
        return "".join(piece for piece in found if isinstance(piece, str))

    def _filled(self, piece: str | Field, posted: Posted) -> str | Field:
        if isinstance(piece, str):
            return piece
        value = piece.find(posted)
        if value is None:
            return piece if piece.default is None else piece.default
        return value


def parse(text: str) -> Template:
    """Raises `ValueError`, which says where it goes wrong."""
    pieces: list[str | Field] = []
    end = 0
    for match in _PIECE.finditer(text):
        pieces += [text[end : match.start()], _piece(match, text)]
        end = match.end()
    pieces.append(text[end:])
    return Template(tuple(piece for piece in pieces if piece != ""))


def _piece(match: re.Match[str], text: str) -> str | Field:
    found = match[0]
    if found in ("{{", "}}"):
        return found[0]
    where = text[match.start() :][:_SHOWN]
    if match[1] is None:
        raise ValueError(f"a brace stands alone at {where!r}; write {found * 2} for one")
    name, bar, default = match[1].partition("|")
    if not name.strip(" @"):
        raise ValueError(f"{where!r} names no field")
    return Field(name.strip(), default if bar else None)


def inside(value: Any, name: str) -> Any:
    """What stands at the end of that path; None: nothing."""
    for part in name.split("."):
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and part.isascii() and part.isdigit():
            value = value[int(part)] if len(part) < 9 and int(part) < len(value) else None
        else:
            return None
    return value


def _text(header: str | None) -> str | None:
    """A header may hold bytes that are no text, and nothing else can be kept."""
    if header is None:
        return None
    return header.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def in_words(value: Any) -> str | None:
    """A value as a person reads it: texts as they are, the rest as JSON; None for a null."""
    if value is None or isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()

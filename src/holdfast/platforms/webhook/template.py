"""Templates: text with fields of a posted body, which are filled in and never executed.

`{issue.title}` is a field, `{commits.0.message}` an item of a list, `{note|none}` a field with a
default, `{@X-GitHub-Event}` a header, `{*}` the whole body; `{{` and `}}` are braces.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from holdfast.core.errors import HoldfastError, InvalidSettings

WHOLE_BODY = "*"
_PIECE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_EXCERPT_LENGTH = 20  # characters of a template around an error in it


class MissingFields(HoldfastError):
    """A post lacks fields that a template uses; `names` lists all of them."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__("the post lacks {names}", names=", ".join(names))
        self.names = names


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookPost:
    """A post: its parsed body and its headers."""

    body: Any
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TemplateField:
    name: str
    default: str | None = None  # None: the field is required

    @property
    def is_header(self) -> bool:
        return self.name.startswith("@")

    def value_in(self, post: WebhookPost) -> str | None:
        """Its value as text; None if there is none."""
        if self.is_header:
            return _header_text(post.headers.get(self.name[1:]))
        return value_as_text(
            post.body if self.name == WHOLE_BODY else value_at_path(post.body, self.name)
        )


@dataclass(frozen=True, slots=True)
class Template:
    pieces: tuple[str | TemplateField, ...]

    @property
    def header_names(self) -> tuple[str, ...]:
        """The headers that it uses."""
        fields = [piece for piece in self.pieces if isinstance(piece, TemplateField)]
        return tuple(field.name[1:] for field in fields if field.is_header)

    def fill(self, post: WebhookPost) -> str:
        """Fill the template. Raises `MissingFields` with all missing names."""
        found = [self._fill_piece(piece, post) for piece in self.pieces]
        if missing := [piece.name for piece in found if isinstance(piece, TemplateField)]:
            raise MissingFields(tuple(dict.fromkeys(missing)))
        return "".join(piece for piece in found if isinstance(piece, str))

    def _fill_piece(self, piece: str | TemplateField, post: WebhookPost) -> str | TemplateField:
        if isinstance(piece, str):
            return piece
        value = piece.value_in(post)
        if value is None:
            return piece if piece.default is None else piece.default
        return value


def parse_template(text: str) -> Template:
    """Raises `InvalidSettings`, which names the position of the error."""
    pieces: list[str | TemplateField] = []
    end = 0
    for match in _PIECE.finditer(text):
        pieces += [text[end : match.start()], _parse_piece(match, text)]
        end = match.end()
    pieces.append(text[end:])
    return Template(tuple(piece for piece in pieces if piece != ""))


def _parse_piece(match: re.Match[str], text: str) -> str | TemplateField:
    found = match[0]
    if found in ("{{", "}}"):
        return found[0]
    where = text[match.start() :][:_EXCERPT_LENGTH]
    if match[1] is None:
        raise InvalidSettings(
            "unmatched brace at {where!r}; write {twice} for a literal one",
            where=where,
            twice=found * 2,
        )
    name, bar, default = match[1].partition("|")
    if not name.strip(" @"):
        raise InvalidSettings("{where!r} has no field name", where=where)
    return TemplateField(name.strip(), default if bar else None)


def value_at_path(value: Any, path: str) -> Any:
    """The value at the end of that path; None if there is none."""
    for part in path.split("."):
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and part.isascii() and part.isdigit():
            value = value[int(part)] if len(part) < 9 and int(part) < len(value) else None
        else:
            return None
    return value


def _header_text(header: str | None) -> str | None:
    """The value of a header, if it is text. It may contain bytes that are not text."""
    if header is None:
        return None
    return header.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def value_as_text(value: Any) -> str | None:
    """A value as people read it: texts as they are, the rest as JSON; None for a null."""
    if value is None or isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()

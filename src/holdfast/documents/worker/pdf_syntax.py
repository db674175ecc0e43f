"""The syntax of PDF: bytes as the objects that they write down (ISO 32000-1, 7.2 and 7.3)."""

import re
from dataclasses import dataclass
from typing import Any

from holdfast.documents.worker.text_buffer import UnreadableDocument

_SPACE = re.compile(rb"(?:[\x00\t\n\f\r ]+|%[^\r\n]*)*")
_TOKEN = re.compile(
    rb"(?P<mark><<|>>|[\[\]{}])"
    rb"|/(?P<name>[^\x00\t\n\f\r ()<>\[\]{}/%]*)"
    rb"|(?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+))(?![^\x00\t\n\f\r ()<>\[\]{}/%])"
    rb"|<(?P<hex>[0-9A-Fa-f\x00\t\n\f\r ]*)>"
    rb"|(?P<text>\()"
    rb"|(?P<word>[^\x00\t\n\f\r ()<>\[\]{}/%]+)"
    rb"|(?P<odd>.)",
    re.DOTALL,
)
_TEXT = re.compile(rb"[()\\]")
_OCTAL = re.compile(rb"[0-7]{1,3}")
_ESCAPES = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"f": b"\f"}
_MAX_NESTING = 100
_MAX_NUMBER_LENGTH = 30


class PdfName(str):
    """`/Name`, without its slash."""

    __slots__ = ()


class PdfKeyword(str):
    """What is no object: an operator, `obj`, `R`."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class PdfRef:
    number: int


END = PdfKeyword("")  # there is nothing more
_CLOSING = {"[": "]", "<<": ">>"}


class PdfParser:
    """Owns a place in the bytes."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def next_object(self, depth: int = 0) -> Any:
        """The next object or word. What does not close, ends with the bytes."""
        token = self._token()
        if not isinstance(token, PdfKeyword) or token not in _CLOSING:
            return token
        if depth > _MAX_NESTING:
            raise UnreadableDocument("it is nested deeper than a document is")
        items: list[Any] = []
        while (item := self.next_object(depth + 1)) != _CLOSING[token]:
            if item is END:
                break
            if isinstance(item, PdfKeyword) and item == "R" and len(items) > 1:
                number = items[-2]
                items[-2:] = [PdfRef(number) if isinstance(number, int) else None]
            else:
                items.append(item)
        return items if token == "[" else _dictionary(items)

    def _token(self) -> Any:
        spaces = _SPACE.match(self.data, self.at)
        token = _TOKEN.match(self.data, spaces.end() if spaces else self.at)
        if token is None:
            self.at = len(self.data)
            return END
        self.at = token.end()
        kind, found = token.lastgroup, token[token.lastgroup or 0]
        match kind:
            case "number":
                return _number(found)
            case "name":
                return PdfName(_unescaped(found).decode("latin-1"))
            case "hex":
                digits = re.sub(rb"\s|\x00", b"", found)
                return bytes.fromhex((digits + b"0" * (len(digits) % 2)).decode())
            case "text":
                return self._text()
        return PdfKeyword(found.decode("latin-1"))

    def _text(self) -> bytes:
        parts, depth = [], 1
        while (mark := _TEXT.search(self.data, self.at)) is not None:
            parts.append(self.data[self.at : mark.start()])
            self.at = mark.end()
            if mark[0] == b"\\":
                parts.append(self._escape())
                continue
            depth += 1 if mark[0] == b"(" else -1
            if depth == 0:
                return b"".join(parts)
            parts.append(mark[0])
        self.at = len(self.data)
        return b"".join(parts)

    def _escape(self) -> bytes:
        octal = _OCTAL.match(self.data, self.at)
        if octal is not None:
            self.at = octal.end()
            return bytes([int(octal[0], 8) & 255])
        letter = self.data[self.at : self.at + 1]
        self.at += 2 if self.data[self.at : self.at + 2] == b"\r\n" else 1
        return b"" if letter in (b"\r", b"\n") else _ESCAPES.get(letter, letter)


def _dictionary(items: list[Any]) -> dict[str, Any]:
    pairs = zip(items[::2], items[1::2], strict=False)
    return {key: value for key, value in pairs if isinstance(key, PdfName)}


def _number(found: bytes) -> int | float:
    text = found[:_MAX_NUMBER_LENGTH].decode()
    return float(text) if "." in text else int(text)


def _unescaped(name: bytes) -> bytes:
    return re.sub(rb"#([0-9A-Fa-f]{2})", lambda at: bytes([int(at[1], 16)]), name)

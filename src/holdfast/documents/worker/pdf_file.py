"""The structure of a PDF: its syntax (ISO 32000-1, 7.2 and 7.3), objects, streams and pages."""

import base64
import binascii
import re
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping
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


_OBJECT = re.compile(rb"(?<!\d)(\d{1,10})[\x00\t\n\f\r ]+\d{1,5}[\x00\t\n\f\r ]+obj\b")
_ENCRYPTED = re.compile(rb"/Encrypt[\x00\t\n\f\r ]*(?:\d+[\x00\t\n\f\r ]+\d+[\x00\t\n\f\r ]+R|<<)")
_ROOT = re.compile(rb"/Root[\x00\t\n\f\r ]+(\d+)[\x00\t\n\f\r ]+\d+[\x00\t\n\f\r ]+R")
_OBJECT_STREAM = re.compile(rb"/Type[\x00\t\n\f\r ]*/ObjStm\b")
_MAX_STREAM_BYTES = 64 * 2**20  # bytes of one stream
_MAX_TOTAL_BYTES = 256 * 2**20
_MAX_RATIO = 250  # the text of pages compresses to a tenth, and a bomb to a thousandth
_RATIO_FREE_BYTES = 2**20  # too few to be a bomb, whatever the ratio
_MAX_OBJECTS = 500_000
_MAX_TREE_DEPTH = 50
_MAX_PAGES = 20_000


class PdfFile:
    """A PDF file: its objects by number, its streams unpacked, its pages in order. Owns the bytes
    and the parsed objects. Objects are found by searching, not by the table at the end of the file,
    which is often wrong. The last object of a number counts, as in a file that was changed by
    appending to it."""

    def __init__(self, data: bytes) -> None:
        if _ENCRYPTED.search(data):
            raise UnreadableDocument("it is encrypted")
        self._data = data
        self._offsets = {int(at[1]): at.end() for at in _OBJECT.finditer(data)}
        if len(self._offsets) > _MAX_OBJECTS:
            raise UnreadableDocument(f"it has more than {_MAX_OBJECTS} objects in it")
        self._left = _MAX_TOTAL_BYTES
        self._objects: dict[int, Any] = {}
        self._streams: dict[int, tuple[int, int]] = {}  # where the bytes of an object's stream are
        self._unpack_objects()

    def pages(self) -> Iterator[Mapping[str, Any]]:
        """Each page, with the resources that it has from those above it."""
        root = self._root()
        tree = self.dictionary(self.dictionary(root).get("Pages"))
        found = False
        for page in self._pages_below(tree, {}, depth=0, seen=set()):
            found = True
            yield page
        if not found:
            yield from self._loose_pages()

    def resolve(self, value: Any) -> Any:
        """The object itself, where there is a reference to one."""
        for _ in range(_MAX_TREE_DEPTH):
            if not isinstance(value, PdfRef):
                return value
            value = self._object(value.number)
        return None

    def dictionary(self, value: Any) -> Mapping[str, Any]:
        found = self.resolve(value)
        return found if isinstance(found, dict) else {}

    def array(self, value: Any) -> list[Any]:
        found = self.resolve(value)
        return found if isinstance(found, list) else []

    def number(self, value: Any, default: float = 0.0) -> float:
        found = self.resolve(value)
        return float(found) if isinstance(found, int | float) else default

    def stream(self, value: Any) -> bytes:
        """What a stream says, unpacked; b"" where it is none, or packed in a way of its own."""
        if not isinstance(value, PdfRef):
            return b""
        table = self.dictionary(value)
        if value.number not in self._streams:
            return b""
        start, end = self._streams[value.number]
        data = self._data[start:end]
        filters = self.resolve(table.get("Filter"))
        for name in filters if isinstance(filters, list) else [filters]:
            data = self._decoded(data, self.resolve(name))
        return data

    def _object(self, number: int) -> Any:
        if number not in self._objects and (offset := self._offsets.get(number)) is not None:
            reader = PdfParser(self._data, offset)
            self._objects[number] = None  # should it lead back to itself
            self._objects[number] = found = reader.next_object()
            if isinstance(found, dict):
                self._find_stream(number, found, reader)
        return self._objects.get(number)

    def _find_stream(self, number: int, table: Mapping[str, Any], reader: PdfParser) -> None:
        if reader.next_object() != PdfKeyword("stream"):
            return
        start = reader.at
        start += 2 if self._data[start : start + 2] == b"\r\n" else 1
        length = self.resolve(table.get("Length"))
        end = start + length if isinstance(length, int) and length >= 0 else -1
        if end < 0 or b"endstream" not in self._data[end : end + 20]:
            end = self._data.find(b"endstream", start)
        self._streams[number] = (start, len(self._data) if end < 0 else end)

    def _decoded(self, data: bytes, name: Any) -> bytes:
        match name:
            case None:
                return data
            case "FlateDecode" | "Fl":
                return self._inflate(data)
            case "ASCIIHexDecode" | "AHx":
                digits = re.sub(rb"[^0-9A-Fa-f]", b"", data.partition(b">")[0])
                return bytes.fromhex((digits + b"0" * (len(digits) % 2)).decode())
            case "ASCII85Decode" | "A85":
                return _decode_ascii85(data)
        return b""  # pictures, and what nobody writes any more

    def _inflate(self, data: bytes) -> bytes:
        most = min(_MAX_STREAM_BYTES, self._left)
        inflating = zlib.decompressobj()
        try:
            found = inflating.decompress(data, most + 1)
        except zlib.error:
            return b""
        if len(found) > most or len(found) > max(_RATIO_FREE_BYTES, _MAX_RATIO * len(data)):
            raise UnreadableDocument("it unpacks to far more than a document has")
        self._left -= len(found)
        return found

    def _unpack_objects(self) -> None:
        """Most of the objects of a modern file stand in streams, many together."""
        order = sorted((offset, number) for number, offset in self._offsets.items())
        starts = [offset for offset, _ in order]
        for at in _OBJECT_STREAM.finditer(self._data):
            nearest = bisect_right(starts, at.start()) - 1
            if nearest >= 0:
                self._unpack(order[nearest][1])

    def _unpack(self, number: int) -> None:
        table, data = self.dictionary(PdfRef(number)), self.stream(PdfRef(number))
        first = int(self.number(table.get("First")))
        reader = PdfParser(data)
        for _ in range(min(int(self.number(table.get("N"))), _MAX_OBJECTS)):
            inner, offset = reader.next_object(), reader.next_object()
            if not (isinstance(inner, int) and isinstance(offset, int)):
                return
            if inner not in self._offsets and inner not in self._objects:
                self._objects[inner] = PdfParser(data, first + offset).next_object()

    def _root(self) -> Any:
        roots = _ROOT.findall(self._data)
        if roots:
            return PdfRef(int(roots[-1]))
        return next(self._of_type("Catalog"), None)

    def _of_type(self, kind: str) -> Iterator[Any]:
        for number in sorted({*self._offsets, *self._objects}):
            if self.dictionary(PdfRef(number)).get("Type") == kind:
                yield PdfRef(number)

    def _loose_pages(self) -> Iterator[Mapping[str, Any]]:
        for page in self._of_type("Page"):
            yield self.dictionary(page)

    def _pages_below(
        self, node: Mapping[str, Any], inherited: Mapping[str, Any], *, depth: int, seen: set[int]
    ) -> Iterator[Mapping[str, Any]]:
        if depth > _MAX_TREE_DEPTH or len(seen) > _MAX_PAGES:
            return
        given = {**inherited, **({"Resources": node["Resources"]} if "Resources" in node else {})}
        if "Kids" not in node:
            if node:
                yield {**given, **node}
            return
        for kid in self.array(node["Kids"]):
            if isinstance(kid, PdfRef) and kid.number not in seen:
                seen.add(kid.number)
                yield from self._pages_below(
                    self.dictionary(kid), given, depth=depth + 1, seen=seen
                )


def _decode_ascii85(data: bytes) -> bytes:
    try:
        return base64.a85decode(data.partition(b"~>")[0].strip().removeprefix(b"<~"))
    except (ValueError, binascii.Error):
        return b""

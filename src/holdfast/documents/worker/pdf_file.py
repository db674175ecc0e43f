"""A PDF file: its objects by number, its streams unpacked, its pages in order."""

import base64
import binascii
import re
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.documents.worker.pdf_syntax import Reader, Ref, Word
from holdfast.documents.worker.text_buffer import Unreadable

_OBJECT = re.compile(rb"(?<!\d)(\d{1,10})[\x00\t\n\f\r ]+\d{1,5}[\x00\t\n\f\r ]+obj\b")
_ENCRYPTED = re.compile(rb"/Encrypt[\x00\t\n\f\r ]*(?:\d+[\x00\t\n\f\r ]+\d+[\x00\t\n\f\r ]+R|<<)")
_ROOT = re.compile(rb"/Root[\x00\t\n\f\r ]+(\d+)[\x00\t\n\f\r ]+\d+[\x00\t\n\f\r ]+R")
_PACKED = re.compile(rb"/Type[\x00\t\n\f\r ]*/ObjStm\b")
_LARGEST = 64 * 2**20  # bytes of one stream
_LARGEST_TOGETHER = 256 * 2**20
_RATIO = 250  # times: what pages say packs to a tenth, and a bomb to a thousandth
_SMALL = 2**20  # bytes that are too few to be a bomb, however they are packed
_MOST_OBJECTS = 500_000
_DEEPEST = 50
_MOST_PAGES = 20_000


class PdfFile:
    """Owns the bytes, and the objects that were looked at. Objects are found by looking for them
    and not by the table at the end of the file, which is often wrong: the last of a number counts,
    as it does for a file that was changed by appending to it."""

    def __init__(self, data: bytes) -> None:
        if _ENCRYPTED.search(data):
            raise Unreadable("it is encrypted")
        self._data = data
        self._places = {int(at[1]): at.end() for at in _OBJECT.finditer(data)}
        if len(self._places) > _MOST_OBJECTS:
            raise Unreadable(f"it has more than {_MOST_OBJECTS} objects in it")
        self._left = _LARGEST_TOGETHER
        self._known: dict[int, Any] = {}
        self._streams: dict[int, tuple[int, int]] = {}  # where the bytes of an object's stream are
        self._unpack_objects()

    def pages(self) -> Iterator[Mapping[str, Any]]:
        """Each page, with the resources that it has from those above it."""
        root = self._root()
        tree = self.table(self.table(root).get("Pages"))
        found = False
        for page in self._below(tree, {}, depth=0, seen=set()):
            found = True
            yield page
        if not found:
            yield from self._loose_pages()

    def look(self, value: Any) -> Any:
        """The object itself, where there is a reference to one."""
        for _ in range(_DEEPEST):
            if not isinstance(value, Ref):
                return value
            value = self._object(value.number)
        return None

    def table(self, value: Any) -> Mapping[str, Any]:
        found = self.look(value)
        return found if isinstance(found, dict) else {}

    def items(self, value: Any) -> list[Any]:
        found = self.look(value)
        return found if isinstance(found, list) else []

    def number(self, value: Any, otherwise: float = 0.0) -> float:
        found = self.look(value)
        return float(found) if isinstance(found, int | float) else otherwise

    def stream(self, value: Any) -> bytes:
        """What a stream says, unpacked; b"" where it is none, or packed in a way of its own."""
        if not isinstance(value, Ref):
            return b""
        table = self.table(value)
        if value.number not in self._streams:
            return b""
        start, end = self._streams[value.number]
        data = self._data[start:end]
        filters = self.look(table.get("Filter"))
        for name in filters if isinstance(filters, list) else [filters]:
            data = self._unpacked(data, self.look(name))
        return data

    def _object(self, number: int) -> Any:
        if number not in self._known and (place := self._places.get(number)) is not None:
            reader = Reader(self._data, place)
            self._known[number] = None  # should it lead back to itself
            self._known[number] = found = reader.object()
            if isinstance(found, dict):
                self._find_stream(number, found, reader)
        return self._known.get(number)

    def _find_stream(self, number: int, table: Mapping[str, Any], reader: Reader) -> None:
        if reader.object() != Word("stream"):
            return
        start = reader.at
        start += 2 if self._data[start : start + 2] == b"\r\n" else 1
        length = self.look(table.get("Length"))
        end = start + length if isinstance(length, int) and length >= 0 else -1
        if end < 0 or b"endstream" not in self._data[end : end + 20]:
            end = self._data.find(b"endstream", start)
        self._streams[number] = (start, len(self._data) if end < 0 else end)

    def _unpacked(self, data: bytes, name: Any) -> bytes:
        match name:
            case None:
                return data
            case "FlateDecode" | "Fl":
                return self._inflated(data)
            case "ASCIIHexDecode" | "AHx":
                digits = re.sub(rb"[^0-9A-Fa-f]", b"", data.partition(b">")[0])
                return bytes.fromhex((digits + b"0" * (len(digits) % 2)).decode())
            case "ASCII85Decode" | "A85":
                return _from_85(data)
        return b""  # pictures, and what nobody writes any more

    def _inflated(self, data: bytes) -> bytes:
        most = min(_LARGEST, self._left)
        inflating = zlib.decompressobj()
        try:
            found = inflating.decompress(data, most + 1)
        except zlib.error:
            return b""
        if len(found) > most or len(found) > max(_SMALL, _RATIO * len(data)):
            raise Unreadable("it unpacks to far more than a document has")
        self._left -= len(found)
        return found

    def _unpack_objects(self) -> None:
        """Most of the objects of a modern file stand in streams, many together."""
        order = sorted((place, number) for number, place in self._places.items())
        starts = [place for place, _ in order]
        for at in _PACKED.finditer(self._data):
            nearest = bisect_right(starts, at.start()) - 1
            if nearest >= 0:
                self._unpack(order[nearest][1])

    def _unpack(self, number: int) -> None:
        table, data = self.table(Ref(number)), self.stream(Ref(number))
        first = int(self.number(table.get("First")))
        reader = Reader(data)
        for _ in range(min(int(self.number(table.get("N"))), _MOST_OBJECTS)):
            inner, place = reader.object(), reader.object()
            if not (isinstance(inner, int) and isinstance(place, int)):
                return
            if inner not in self._places and inner not in self._known:
                self._known[inner] = Reader(data, first + place).object()

    def _root(self) -> Any:
        roots = _ROOT.findall(self._data)
        if roots:
            return Ref(int(roots[-1]))
        return next(self._of_type("Catalog"), None)

    def _of_type(self, kind: str) -> Iterator[Any]:
        for number in sorted({*self._places, *self._known}):
            if self.table(Ref(number)).get("Type") == kind:
                yield Ref(number)

    def _loose_pages(self) -> Iterator[Mapping[str, Any]]:
        for page in self._of_type("Page"):
            yield self.table(page)

    def _below(
        self, node: Mapping[str, Any], inherited: Mapping[str, Any], *, depth: int, seen: set[int]
    ) -> Iterator[Mapping[str, Any]]:
        if depth > _DEEPEST or len(seen) > _MOST_PAGES:
            return
        given = {**inherited, **({"Resources": node["Resources"]} if "Resources" in node else {})}
        if "Kids" not in node:
            if node:
                yield {**given, **node}
            return
        for kid in self.items(node["Kids"]):
            if isinstance(kid, Ref) and kid.number not in seen:
                seen.add(kid.number)
                yield from self._below(self.table(kid), given, depth=depth + 1, seen=seen)


def _from_85(data: bytes) -> bytes:
    try:
        return base64.a85decode(data.partition(b"~>")[0].strip().removeprefix(b"<~"))
    except (ValueError, binascii.Error):
        return b""

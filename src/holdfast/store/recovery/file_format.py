"""SQLite's file format, read without SQLite: pages, cells, overflow chains and records. A bad
page spoils no other."""

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import IO, NamedTuple

Value = int | float | str | bytes | None

_INTEGER_SIZES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}  # bytes by type
_HEADER = 100
_MAGIC = b"SQLite format 3\0"
_PAGE_SIZES = {1: 65536} | {1 << n: 1 << n for n in range(9, 16)}
_DEFAULT_PAGE_SIZE = 4096


class CorruptData(ValueError):
    """These bytes do not follow the file format."""


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of up to nine bytes, and the offset after it."""
    value = 0
    for offset in range(8):
        byte = _read_byte(data, at + offset)
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + offset + 1
    value = value << 8 | _read_byte(data, at + 8)
    return (value - (1 << 64) if value >= 1 << 63 else value), at + 9


def decode_record(payload: bytes) -> list[Value]:
    """The values of a record. Raises `CorruptData`."""
    size, at = read_varint(payload, 0)
    if not 0 < size <= len(payload):
        raise CorruptData("the header of a record does not fit into it")
    types = []
    while at < size:
        kind, at = read_varint(payload, at)
        types.append(kind)
    values: list[Value] = []
    for kind in types:
        value, at = _decode_value(payload, at, kind)
        values.append(value)
    if at != len(payload):
        raise CorruptData("the record is longer than its header says")
    return values


def _decode_value(payload: bytes, at: int, kind: int) -> tuple[Value, int]:
    if kind in (0, 8, 9):
        return (None, 0, 1)[(0, 8, 9).index(kind)], at
    if kind in _INTEGER_SIZES:
        body = _read_bytes(payload, at, _INTEGER_SIZES[kind])
        return int.from_bytes(body, "big", signed=True), at + len(body)
    if kind == 7:
        return float(struct.unpack(">d", _read_bytes(payload, at, 8))[0]), at + 8
    if kind < 12:
        raise CorruptData(f"a value has the unknown type {kind}")
    body = _read_bytes(payload, at, (kind - 12) // 2)
    if kind % 2 == 0:
        return body, at + len(body)
    try:
        return body.decode(), at + len(body)
    except UnicodeDecodeError:
        raise CorruptData("a text is not valid UTF-8") from None


def _read_bytes(data: bytes, at: int, size: int) -> bytes:
    piece = data[at : at + size]
    if len(piece) != size:
        raise CorruptData("a value ends beyond its record")
    return piece


def _read_byte(data: bytes, at: int) -> int:
    if at >= len(data):
        raise CorruptData("a varint ends beyond its page")
    return data[at]


class PageKind(IntEnum):
    INNER_INDEX = 2
    INNER_TABLE = 5
    LEAF_INDEX = 10
    LEAF_TABLE = 13


TABLE_PAGE_KINDS = (PageKind.INNER_TABLE, PageKind.LEAF_TABLE)
"""Pages of a tree that is keyed by rowid."""


class Cell(NamedTuple):
    """A row of a page. Rows of indexes and of WITHOUT ROWID tables have no rowid."""

    rowid: int | None
    values: list[Value]


class TreePage(NamedTuple):
    """`overflow_pages`: those of its long rows; `unreadable_cells`: how many cells are corrupt."""

    number: int
    kind: PageKind
    cells: list[Cell]
    children: list[int]
    overflow_pages: list[int]
    unreadable_cells: int


class PageReader:
    """Reads pages. Owns which pages are known to be part of a tree."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        header = file.read(_HEADER).ljust(_HEADER, b"\0")
        if not header.startswith(_MAGIC):
            header = bytes(_HEADER)  # unusable: assume the values of our own files
        self.size = _PAGE_SIZES.get(struct.unpack_from(">H", header, 16)[0], _DEFAULT_PAGE_SIZE)
        self._usable = self.size - header[20]
        self.version: int = struct.unpack_from(">I", header, 60)[0]
        self._first_free_page: int = struct.unpack_from(">I", header, 32)[0]
        self.count = file.seek(0, 2) // self.size
        expected: int = struct.unpack_from(">I", header, 28)[0]
        self.missing_pages = max(0, expected - self.count)  # cut off at the end of the file
        self.used: set[int] = set()

    def read_page(self, number: int) -> TreePage:
        """The readable cells of a tree page. Raises `CorruptData` if it is not one, or is in use
        already, since a page belongs to one tree only. Reading does not mark it as used: overflow
        pages may be anywhere, also before it."""
        data = self._read_raw(number)
        start = _HEADER if number == 1 else 0
        kind = _page_kind(data[start])
        inner = kind in (PageKind.INNER_INDEX, PageKind.INNER_TABLE)
        cells = struct.unpack_from(">H", data, start + 3)[0]
        first = start + (12 if inner else 8)
        if first + 2 * cells > self.size:
            raise CorruptData("a page claims more cells than it can hold")
        page, broken = TreePage(number, kind, [], [], [], 0), 0
        for (offset,) in struct.iter_unpack(">H", data[first : first + 2 * cells]):
            try:
                self._parse_cell(data, offset, page)
            except CorruptData:
                broken += 1
        if inner:
            page.children.append(struct.unpack_from(">I", data, start + 8)[0])
        return page._replace(unreadable_cells=broken)

    def mark_used(self, page: TreePage) -> None:
        self.used |= {page.number, *page.overflow_pages}

    def kind_byte(self, number: int) -> int:
        """The byte with the kind of a tree page; not valid for page 1."""
        self._file.seek((number - 1) * self.size)
        return self._file.read(1)[0]

    def is_blank(self, number: int) -> bool:
        """Whether it is all zeros, as every free page: deleted data is overwritten."""
        self._file.seek((number - 1) * self.size)
        return not any(self._file.read(self.size))

    def freelist(self) -> Iterator[int]:
        """The free pages, as far as their list can be followed."""
        trunk, trunks = self._first_free_page, set[int]()
        while trunk and trunk not in trunks:
            try:
                data = self._read_raw(trunk)
            except CorruptData:
                return
            trunks.add(trunk)
            yield trunk
            following, leaves = struct.unpack_from(">II", data)
            if leaves > self.size // 4 - 2:
                return
            yield from struct.unpack_from(f">{leaves}I", data, 8)
            trunk = following

    def _parse_cell(self, data: bytes, at: int, page: TreePage) -> None:
        if page.kind in (PageKind.INNER_INDEX, PageKind.INNER_TABLE):
            if at + 4 > len(data):
                raise CorruptData("a cell ends beyond its page")
            page.children.append(struct.unpack_from(">I", data, at)[0])
            at += 4
        if page.kind is PageKind.INNER_TABLE:
            return
        size, at = read_varint(data, at)
        rowid = None
        if page.kind is PageKind.LEAF_TABLE:
            rowid, at = read_varint(data, at)
        payload, beyond = self._read_payload(data, at, size, page.kind)
        page.cells.append(Cell(rowid, decode_record(payload)))
        page.overflow_pages.extend(beyond)

    def _read_payload(
        self, data: bytes, at: int, size: int, kind: PageKind
    ) -> tuple[bytes, list[int]]:
        """The bytes of a row, and its overflow pages."""
        if not 0 < size <= self.count * self.size:
            raise CorruptData("a row is larger than the file")
        here = self._local_size(size, kind)
        if here == size:
            return data[at : at + size], []
        if at + here + 4 > len(data):
            raise CorruptData("a row ends beyond its page")
        following = struct.unpack_from(">I", data, at + here)[0]
        rest, beyond = self._read_overflow(following, size - here)
        return data[at : at + here] + rest, beyond

    def _local_size(self, size: int, kind: PageKind) -> int:
        """How much of a row of that size is in its own page."""
        usable = self._usable
        most = usable - 35 if kind is PageKind.LEAF_TABLE else (usable - 12) * 64 // 255 - 23
        if size <= most:
            return size
        least = (usable - 12) * 32 // 255 - 23
        here = least + (size - least) % (usable - 4)
        return here if here <= most else least

    def _read_overflow(self, following: int, left: int) -> tuple[bytes, list[int]]:
        """A valid chain has exactly as many pages as it needs."""
        pieces, numbers = [], []
        while left > 0:
            page = self._read_raw(following)
            numbers.append(following)
            pieces.append(page[4 : 4 + min(left, self._usable - 4)])
            left -= self._usable - 4
            following = struct.unpack_from(">I", page)[0]
        if following:
            raise CorruptData("an overflow chain is too long")
        return b"".join(pieces), numbers

    def _read_raw(self, number: int) -> bytes:
        if not 1 <= number <= self.count or number in self.used:
            raise CorruptData(f"there is no page {number} left")
        self._file.seek((number - 1) * self.size)
        return self._file.read(self.size)


def _page_kind(byte: int) -> PageKind:
    try:
        return PageKind(byte)
    except ValueError:
        raise CorruptData("a page has an unknown type") from None

"""The pages of a SQLite file, read one by one without SQLite: a bad one spoils no other."""

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import IO, NamedTuple

from holdfast.store.recovery.records import Unreadable, Value, decode, varint

_HEADER = 100
_MAGIC = b"SQLite format 3\0"
_SIZES = {1: 65536} | {1 << n: 1 << n for n in range(9, 16)}
_USUAL = 4096


class Kind(IntEnum):
    INNER_INDEX = 2
    INNER_TABLE = 5
    LEAF_INDEX = 10
    LEAF_TABLE = 13


TABLE_KINDS = (Kind.INNER_TABLE, Kind.LEAF_TABLE)
"""Those of a tree that is keyed by number."""


class Entry(NamedTuple):
    """A row as it stands in a page; an index, and a table that is one, has no rowid."""

    rowid: int | None
    values: list[Value]


class Page(NamedTuple):
    """`beyond`: the pages that long rows of it run over into; `broken`: so many cells of it could
    not be read."""

    number: int
    kind: Kind
    entries: list[Entry]
    children: list[int]
    beyond: list[int]
    broken: int


class Pages:
    """Owns the knowledge which pages of a file were taken as part of something."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        header = file.read(_HEADER).ljust(_HEADER, b"\0")
        if not header.startswith(_MAGIC):
            header = bytes(_HEADER)  # it says nothing: the file is taken to be as ours are
        self.size = _SIZES.get(struct.unpack_from(">H", header, 16)[0], _USUAL)
        self._usable = self.size - header[20]
        self.version: int = struct.unpack_from(">I", header, 60)[0]
        self._free: int = struct.unpack_from(">I", header, 32)[0]
        self.count = file.seek(0, 2) // self.size
        said: int = struct.unpack_from(">I", header, 28)[0]
        self.cut_off = max(0, said - self.count)  # pages that the file had, and are not there
        self.taken: set[int] = set()

    def page(self, number: int) -> Page:
        """All that can be read of a page of a tree; `Unreadable`: it is none, or was taken before,
        as no sound tree has a page twice. To look at one takes nothing: what a long row runs over
        into may stand anywhere, also before it."""
        data = self._read(number)
        start = _HEADER if number == 1 else 0
        kind = _kind(data[start])
        inner = kind in (Kind.INNER_INDEX, Kind.INNER_TABLE)
        cells = struct.unpack_from(">H", data, start + 3)[0]
        first = start + (12 if inner else 8)
        if first + 2 * cells > self.size:
            raise Unreadable("it tells of more cells than it can hold")
        page, broken = Page(number, kind, [], [], [], 0), 0
        for (offset,) in struct.iter_unpack(">H", data[first : first + 2 * cells]):
            try:
                self._cell(data, offset, page)
            except Unreadable:
                broken += 1
        if inner:
            page.children.append(struct.unpack_from(">I", data, start + 8)[0])
        return page._replace(broken=broken)

    def take(self, page: Page) -> None:
        self.taken |= {page.number, *page.beyond}

    def kind(self, number: int) -> int:
        """The byte that would say what kind of page it is; of page 1 it does not."""
        self._file.seek((number - 1) * self.size)
        return self._file.read(1)[0]

    def empty(self, number: int) -> bool:
        """Whether nothing is written there, as in every page that is free: what is deleted is
        overwritten."""
        self._file.seek((number - 1) * self.size)
        return not any(self._file.read(self.size))

    def freelist(self) -> Iterator[int]:
        """The pages that hold nothing, as far as the list of them can be followed."""
        trunk, trunks = self._free, set[int]()
        while trunk and trunk not in trunks:
            try:
                data = self._read(trunk)
            except Unreadable:
                return
            trunks.add(trunk)
            yield trunk
            following, leaves = struct.unpack_from(">II", data)
            if leaves > self.size // 4 - 2:
                return
            yield from struct.unpack_from(f">{leaves}I", data, 8)
            trunk = following

    def _cell(self, data: bytes, at: int, page: Page) -> None:
        if page.kind in (Kind.INNER_INDEX, Kind.INNER_TABLE):
            if at + 4 > len(data):
                raise Unreadable("a cell goes beyond the end")
            page.children.append(struct.unpack_from(">I", data, at)[0])
            at += 4
        if page.kind is Kind.INNER_TABLE:
            return
        size, at = varint(data, at)
        rowid = None
        if page.kind is Kind.LEAF_TABLE:
            rowid, at = varint(data, at)
        payload, beyond = self._payload(data, at, size, page.kind)
        page.entries.append(Entry(rowid, decode(payload)))
        page.beyond.extend(beyond)

    def _payload(self, data: bytes, at: int, size: int, kind: Kind) -> tuple[bytes, list[int]]:
        """The bytes of a row, and the pages it runs over into."""
        if not 0 < size <= self.count * self.size:
            raise Unreadable("a row is larger than the file")
        here = self._held(size, kind)
        if here == size:
            return data[at : at + size], []
        if at + here + 4 > len(data):
            raise Unreadable("a row goes beyond its page")
        following = struct.unpack_from(">I", data, at + here)[0]
        rest, beyond = self._chain(following, size - here)
        return data[at : at + here] + rest, beyond

    def _held(self, size: int, kind: Kind) -> int:
        """How much of a row of that size stands in its own page."""
        usable = self._usable
        most = usable - 35 if kind is Kind.LEAF_TABLE else (usable - 12) * 64 // 255 - 23
        if size <= most:
            return size
        least = (usable - 12) * 32 // 255 - 23
        here = least + (size - least) % (usable - 4)
        return here if here <= most else least

    def _chain(self, following: int, left: int) -> tuple[bytes, list[int]]:
        """A chain has as many pages as it needs, and the last of them names no other."""
        pieces, numbers = [], []
        while left > 0:
            page = self._read(following)
            numbers.append(following)
            pieces.append(page[4 : 4 + min(left, self._usable - 4)])
            left -= self._usable - 4
            following = struct.unpack_from(">I", page)[0]
        if following:
            raise Unreadable("a row goes on beyond its end")
        return b"".join(pieces), numbers

    def _read(self, number: int) -> bytes:
        if not 1 <= number <= self.count or number in self.taken:
            raise Unreadable(f"there is no page {number} left")
        self._file.seek((number - 1) * self.size)
        return self._file.read(self.size)


def _kind(byte: int) -> Kind:
    try:
        return Kind(byte)
    except ValueError:
        raise Unreadable("it is no page of a tree") from None

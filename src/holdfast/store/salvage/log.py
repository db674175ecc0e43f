"""The log of a damaged file, folded into it without SQLite, which does not open such a file."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

_HEADER, _FRAME = 32, 24
_MAGIC = (0x377F0682, 0x377F0683)  # the second: sums are of big-endian words
_SIZES = {1 << n for n in range(9, 17)}


class _Frame(NamedTuple):
    """`pages`: how many the file has after the commit that this frame ends; 0: it ends none."""

    number: int
    pages: int
    body: bytes


def fold(log: Path, into: Path) -> int:
    """How many pages were written: all that was committed, up to the first frame that is not as it
    was written. What follows such a one belongs to no commit that can be proven."""
    with open(log, "rb") as file, open(into, "r+b") as out:
        size, pages, committed = _size(file), dict[int, bytes](), dict[int, bytes]()
        for frame in _frames(file, size):
            pages[frame.number] = frame.body
            if frame.pages:
                committed |= {n: body for n, body in pages.items() if n <= frame.pages}
                pages.clear()
        for number, body in committed.items():
            out.seek((number - 1) * size)
            out.write(body)
    return len(committed)


def _size(file: IO[bytes]) -> int:
    """Of a page; 0: this is no log."""
    header = file.read(_HEADER)
    if len(header) < _HEADER or struct.unpack_from(">I", header)[0] not in _MAGIC:
        return 0
    size: int = struct.unpack_from(">I", header, 8)[0]
    return size if size in _SIZES else 0


def _frames(file: IO[bytes], size: int) -> Iterator[_Frame]:
    """Each frame is summed up with all before it, and carries the salt of this log: what an older
    one has left behind it fits neither."""
    if not size:
        return
    file.seek(0)
    header = file.read(_HEADER)
    order = ">" if struct.unpack_from(">I", header)[0] == _MAGIC[1] else "<"
    sums = _summed((0, 0), header[:24], order)
    if sums != struct.unpack_from(">II", header, 24):
        return
    while len(frame := file.read(_FRAME + size)) == _FRAME + size:
        number, pages = struct.unpack_from(">II", frame)
        sums = _summed(_summed(sums, frame[:8], order), frame[_FRAME:], order)
        if frame[8:16] != header[16:24] or sums != struct.unpack_from(">II", frame, 16):
            return
        yield _Frame(number, pages, frame[_FRAME:])


def _summed(sums: tuple[int, int], data: bytes, order: str) -> tuple[int, int]:
    one, two = sums
    words = iter(struct.unpack(f"{order}{len(data) // 4}I", data))
    for first, second in zip(words, words, strict=True):
        one = (one + first + two) & 0xFFFFFFFF
        two = (two + second + one) & 0xFFFFFFFF
    return one, two

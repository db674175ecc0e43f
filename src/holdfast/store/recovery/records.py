"""Records as SQLite writes them: a header of types, then the values."""

import struct

Value = int | float | str | bytes | None

_INTEGER_SIZES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}  # bytes by type


class CorruptData(ValueError):
    """These bytes are not what they would have to be."""


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of up to nine bytes, and where the next thing begins."""
    value = 0
    for offset in range(8):
        byte = _read_byte(data, at + offset)
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + offset + 1
    value = value << 8 | _read_byte(data, at + 8)
    return (value - (1 << 64) if value >= 1 << 63 else value), at + 9


def decode_record(payload: bytes) -> list[Value]:
    """The values of a record; `Unreadable`: it is none."""
    size, at = read_varint(payload, 0)
    if not 0 < size <= len(payload):
        raise CorruptData("the header does not fit")
    types = []
    while at < size:
        kind, at = read_varint(payload, at)
        types.append(kind)
    values: list[Value] = []
    for kind in types:
        value, at = _decode_value(payload, at, kind)
        values.append(value)
    if at != len(payload):
        raise CorruptData("there is more than the header tells of")
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
        raise CorruptData(f"there is no type {kind}")
    body = _read_bytes(payload, at, (kind - 12) // 2)
    if kind % 2 == 0:
        return body, at + len(body)
    try:
        return body.decode(), at + len(body)
    except UnicodeDecodeError:
        raise CorruptData("a text is none") from None


def _read_bytes(data: bytes, at: int, size: int) -> bytes:
    piece = data[at : at + size]
    if len(piece) != size:
        raise CorruptData("a value goes beyond the end")
    return piece


def _read_byte(data: bytes, at: int) -> int:
    if at >= len(data):
        raise CorruptData("a number goes beyond the end")
    return data[at]

"""Records as SQLite writes them: a header of types, then the values."""

import struct

Value = int | float | str | bytes | None

_INTEGERS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}  # bytes by type


class Unreadable(ValueError):
    """These bytes are not what they would have to be."""


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of up to nine bytes, and where the next thing begins."""
    value = 0
    for offset in range(8):
        byte = _byte(data, at + offset)
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + offset + 1
    value = value << 8 | _byte(data, at + 8)
    return (value - (1 << 64) if value >= 1 << 63 else value), at + 9


def decode(payload: bytes) -> list[Value]:
    """The values of a record; `Unreadable`: it is none."""
    size, at = varint(payload, 0)
    if not 0 < size <= len(payload):
        raise Unreadable("the header does not fit")
    types = []
    while at < size:
        kind, at = varint(payload, at)
        types.append(kind)
    values: list[Value] = []
    for kind in types:
        value, at = _value(payload, at, kind)
        values.append(value)
    if at != len(payload):
        raise Unreadable("there is more than the header tells of")
    return values


def _value(payload: bytes, at: int, kind: int) -> tuple[Value, int]:
    if kind in (0, 8, 9):
        return (None, 0, 1)[(0, 8, 9).index(kind)], at
    if kind in _INTEGERS:
        body = _piece(payload, at, _INTEGERS[kind])
        return int.from_bytes(body, "big", signed=True), at + len(body)
    if kind == 7:
        return float(struct.unpack(">d", _piece(payload, at, 8))[0]), at + 8
    if kind < 12:
        raise Unreadable(f"there is no type {kind}")
    body = _piece(payload, at, (kind - 12) // 2)
    if kind % 2 == 0:
        return body, at + len(body)
    try:
        return body.decode(), at + len(body)
    except UnicodeDecodeError:
        raise Unreadable("a text is none") from None


def _piece(data: bytes, at: int, size: int) -> bytes:
    piece = data[at : at + size]
    if len(piece) != size:
        raise Unreadable("a value goes beyond the end")
    return piece


def _byte(data: bytes, at: int) -> int:
    if at >= len(data):
        raise Unreadable("a number goes beyond the end")
    return data[at]

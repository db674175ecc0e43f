"""Server-sent events: the payloads in a stream of bytes, however it was cut into chunks."""

_BOM = b"\xef\xbb\xbf"
_MAX_EVENT = 16 * 1024 * 1024


class EventTooLong(Exception):
    """More came than any event of a sane server has, and still no end of it."""


class SseParser:
    """Owns the bytes of an event whose end has not come yet.

    Works on bytes, so that a character cut in two by a chunk boundary is whole again before
    anybody decodes it. `ended` is set by the payload `[DONE]`; what follows it is not read.
    """

    __slots__ = ("_rest", "ended")

    def __init__(self) -> None:
        self._rest = b""
        self.ended = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The payloads that this chunk completed."""
        data = self._rest + chunk if self._rest else chunk
        if b"\r" in data:
            data = _normalise_newlines(data)
        blocks = data.split(b"\n\n")
        self._rest = blocks.pop()
        if len(self._rest) > _MAX_EVENT:
            raise EventTooLong
        return self._payloads(blocks)

    def flush(self) -> list[bytes]:
        """What the stream's end leaves: the last event of a server that ends without a blank."""
        rest, self._rest = self._rest.replace(b"\r", b"\n"), b""
        return self._payloads([rest])

    def _payloads(self, blocks: list[bytes]) -> list[bytes]:
        payloads = []
        for block in blocks:
            if self.ended:
                break
            payload = _payload(block)
            if payload == b"[DONE]":
                self.ended = True
            elif payload is not None:
                payloads.append(payload)
        return payloads


def _normalise_newlines(data: bytes) -> bytes:
    # A carriage return at the very end may be half of a CRLF: it waits for its other half.
    held = data.endswith(b"\r")
    body = data[:-1] if held else data
    body = body.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return body + b"\r" if held else body


def _payload(block: bytes) -> bytes | None:
    """The data of an event, its lines joined; None for comments, names and empty blocks."""
    lines = block.count(b"\n")
    if lines == 0 and block.startswith(b"data: "):
        return block[6:]
    if lines == 1 and block.startswith(b"event:"):
        rest = block[block.index(b"\n") + 1 :]
        if rest.startswith(b"data: "):
            return rest[6:]
    return _join_data(block)


def _join_data(block: bytes) -> bytes | None:
    lines = [
        line[5:].removeprefix(b" ")
        for line in block.removeprefix(_BOM).split(b"\n")
        if line.startswith(b"data:")
    ]
    return b"\n".join(lines).strip() or None

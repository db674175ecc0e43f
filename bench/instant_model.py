"""A model server that costs next to nothing: echoes the last user message as a chat stream.

`python bench/instant_model.py --port 0 [--delay 3]` prints `{"port": N}`. GET /stats says how
many calls it has had, when, and how many bytes the body of the last one had.
"""

import argparse
import asyncio
import time

import msgspec


class Part(msgspec.Struct):
    text: str = ""


class ChatMessage(msgspec.Struct):
    role: str
    content: str | list[Part] | None = None


class Call(msgspec.Struct):
    messages: list[ChatMessage]


class Stats(msgspec.Struct):
    calls: int = 0
    last_bytes: int = 0
    first_call_at: float = 0.0  # on the monotonic clock, which all processes share
    last_call_at: float = 0.0


CALLS = msgspec.json.Decoder(Call)
TEXT = msgspec.json.Encoder()
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNK = '{"id":"c","object":"chat.completion.chunk","created":0,"model":"instant","choices":['
TAIL = (
    f'data: {CHUNK}{{"index":0,"delta":{{}},"finish_reason":"stop"}}]}}\n\n'
    f'data: {CHUNK}],"usage":{{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}}}\n\n'
    "data: [DONE]\n\n"
).encode()


def last_user_text(body: bytes) -> str:
    for message in reversed(CALLS.decode(body).messages):
        if message.role == "user":
            content = message.content or ""
            return content if isinstance(content, str) else "".join(p.text for p in content)
    return ""


def delta(text: str) -> bytes:
    quoted = TEXT.encode(text).decode()
    choice = f'{{"index":0,"delta":{{"content":{quoted}}},"finish_reason":null}}'
    return f"data: {CHUNK}{choice}]}}\n\n".encode()


def stream(text: str) -> bytes:
    """A whole answer of a few deltas, as one chunk: one write here, one read there."""
    middle = len(text) // 2
    events = delta("echo: ") + delta(text[:middle]) + delta(text[middle:]) + TAIL
    return HEAD + b"%x\r\n%b\r\n0\r\n\r\n" % (len(events), events)


class ModelConnection(asyncio.Protocol):
    """One keep-alive HTTP/1.1 connection; requests must carry a Content-Length."""

    def __init__(self, *, stats: Stats, delay: float) -> None:
        self._stats = stats
        self._delay = delay
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:end]
            lower = head.lower()
            at = lower.find(b"content-length:")
            length = int(lower[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self._buffer) < end + 4 + length:
                return
            body = self._buffer[end + 4 : end + 4 + length]
            self._buffer = self._buffer[end + 4 + length :]
            self._respond(head, body)

    def _respond(self, head: bytes, body: bytes) -> None:
        if head.startswith(b"GET"):
            content = msgspec.json.encode(self._stats)
            self._write(
                b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(content), content)
            )
            return
        self._count(body)
        answer = stream(last_user_text(body))
        if self._delay:
            asyncio.get_running_loop().call_later(self._delay, self._write, answer)
        else:
            self._write(answer)

    def _count(self, body: bytes) -> None:
        self._stats.calls += 1
        self._stats.last_bytes = len(body)
        self._stats.last_call_at = time.monotonic()
        self._stats.first_call_at = self._stats.first_call_at or self._stats.last_call_at

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)


async def serve(*, port: int, delay: float) -> None:
    stats = Stats()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: ModelConnection(stats=stats, delay=delay), "127.0.0.1", port, backlog=4096
    )
    print(msgspec.json.encode({"port": server.sockets[0].getsockname()[1]}).decode(), flush=True)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--delay", type=float, default=0.0, help="seconds before each answer")
    options = parser.parse_args()
    asyncio.run(serve(port=options.port, delay=options.delay))


if __name__ == "__main__":
    main()

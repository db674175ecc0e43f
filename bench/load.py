"""The load: each session sends a message, waits for the answer and sends the next one.

`python bench/load.py --url http://127.0.0.1:P --sessions 64 --turns 20` prints one JSON object.
Every answer is checked: a status other than 200 or a wrong text is an error, and errors exit 1.
"""

import argparse
import asyncio
import sys
import time
from urllib.parse import urlsplit

import msgspec

CONNECTS_AT_ONCE = 50  # more would overflow a listen backlog and measure SYN retries


class Message(msgspec.Struct):
    content: str


class Choice(msgspec.Struct):
    message: Message


class Completion(msgspec.Struct):
    choices: list[Choice]


COMPLETIONS = msgspec.json.Decoder(Completion)


class Report(msgspec.Struct, kw_only=True):
    """What a run was like; latencies are in milliseconds."""

    turns: int
    seconds: float
    turns_per_second: float
    p50: float
    p90: float
    p99: float
    longest: float
    errors: list[str]  # the first few
    error_count: int


class LoadConnection(asyncio.Protocol):
    """One keep-alive connection with at most one request under way."""

    def __init__(self) -> None:
        self._buffer = b""
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0 or self._answer is None:
            return
        head = self._buffer[:end].lower()
        at = head.find(b"content-length:")
        if at < 0:
            self._fail("the answer has no Content-Length")
            return
        length = int(head[at + 15 :].split(b"\r\n", 1)[0])
        if len(self._buffer) >= end + 4 + length:
            answer, self._answer = self._answer, None
            body = self._buffer[end + 4 : end + 4 + length]
            self._buffer = self._buffer[end + 4 + length :]
            answer.set_result((int(head[9:12]), body))

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(f"the connection was lost: {exc}")

    def _fail(self, why: str) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionError(why))
        self._answer = None

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        if self._transport is None or self._transport.is_closing():
            raise ConnectionError("the connection is closed")
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class Load:
    """Owns the connections and what was measured on them."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._address = urlsplit(options.url)
        self._latencies: list[float] = []
        self._errors: list[str] = []

    async def run(self) -> Report:
        connections = await self._connect()
        first, number = self._options.first, self._options.sessions
        sessions = [f"{self._options.prefix}{i}" for i in range(first, first + number)]
        shares = [sessions[i :: len(connections)] for i in range(len(connections))]
        began = time.perf_counter()
        pairs = zip(connections, shares, strict=True)
        await asyncio.gather(*(self._serve_out(c, share) for c, share in pairs))
        seconds = time.perf_counter() - began
        for connection in connections:
            connection.close()
        return self._report(seconds)

    async def _connect(self) -> list[LoadConnection]:
        """All connections stand before the clock starts, so that it times turns alone."""
        loop = asyncio.get_running_loop()
        connections: list[LoadConnection] = []
        needed = self._options.connections or self._options.sessions
        while len(connections) < needed:
            number = min(CONNECTS_AT_ONCE, needed - len(connections))
            pairs = await asyncio.gather(
                *(
                    loop.create_connection(
                        LoadConnection, self._address.hostname, self._address.port
                    )
                    for _ in range(number)
                )
            )
            connections.extend(protocol for _, protocol in pairs)
        return connections

    async def _serve_out(self, connection: LoadConnection, sessions: list[str]) -> None:
        for session in sessions:
            for turn in range(self._options.turns):
                await self._turn(connection, session, self._options.text or f"{session}.{turn}")

    async def _turn(self, connection: LoadConnection, session: str, text: str) -> None:
        request = self._request(session, text)
        began = time.perf_counter()
        try:
            status, body = await connection.ask(request)
        except ConnectionError as error:
            self._errors.append(f"{session}: {error}")
            return
        self._latencies.append(time.perf_counter() - began)
        self._check(session, status, body, expected=f"echo: {text}")

    def _request(self, session: str, text: str) -> bytes:
        body = msgspec.json.encode(
            {"model": "bench", "messages": [{"role": "user", "content": text}]}
        )
        head = (
            "POST /v1/chat/completions HTTP/1.1\r\n"
            f"Host: {self._address.netloc}\r\n"
            f"Authorization: Bearer {self._options.token}\r\n"
            f"X-Holdfast-Session: {session}\r\n"
            "Content-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    def _check(self, session: str, status: int, body: bytes, *, expected: str) -> None:
        if status != 200:
            self._errors.append(f"{session}: {status} {body[:200]!r}")
            return
        try:
            text = COMPLETIONS.decode(body).choices[0].message.content
        except (msgspec.MsgspecError, IndexError) as error:
            self._errors.append(f"{session}: {error} in {body[:200]!r}")
            return
        if text != expected:
            self._errors.append(f"{session}: {text!r} instead of {expected!r}")

    def _report(self, seconds: float) -> Report:
        ranked = sorted(self._latencies) or [0.0]

        def percentile(share: float) -> float:
            return ranked[min(len(ranked) - 1, int(share * len(ranked)))] * 1000

        return Report(
            turns=len(self._latencies),
            seconds=seconds,
            turns_per_second=len(self._latencies) / seconds,
            p50=percentile(0.5),
            p90=percentile(0.9),
            p99=percentile(0.99),
            longest=ranked[-1] * 1000,
            errors=self._errors[:5],
            error_count=len(self._errors),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--url", required=True, help="http://host:port of the server")
    parser.add_argument("--token", default="none")
    parser.add_argument("--sessions", type=int, default=64)
    parser.add_argument("--turns", type=int, default=20, help="of each session, one by one")
    parser.add_argument(
        "--connections", type=int, default=0, help="sessions at a time; 0: all of them"
    )
    parser.add_argument("--prefix", default="s", help="of the session names")
    parser.add_argument("--first", type=int, default=0, help="number of the first session")
    parser.add_argument("--text", default="", help="the message; empty: differs in each turn")
    report = asyncio.run(Load(parser.parse_args()).run())
    print(msgspec.json.encode(report).decode(), flush=True)
    sys.exit(1 if report.error_count else 0)


if __name__ == "__main__":
    main()

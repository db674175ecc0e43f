"""The floor: the least that a durable turn can cost on asyncio, aiohttp and apsw.

One handler parses a chat completion, waits for three durable commits (accept, begin, end) of
one small row each, asks the model in between with one streamed call, and answers. It
authorises no one, remembers no history, de-duplicates nothing and recovers nothing: whatever
the gateway costs above this is what its promises cost.

`python bench/floor.py --model http://127.0.0.1:P/v1 --db PATH` prints `{"port": N}`.
"""

import argparse
import asyncio
import queue
import signal
import threading
import time
from pathlib import Path
from typing import NamedTuple

import aiohttp
import apsw
import msgspec
from aiohttp import web


class ChatMessage(msgspec.Struct):
    role: str
    content: str


class ChatRequest(msgspec.Struct):
    messages: list[ChatMessage]
    model: str = "floor"


class ChunkDelta(msgspec.Struct):
    content: str | None = None


class ChunkChoice(msgspec.Struct):
    delta: ChunkDelta


class Chunk(msgspec.Struct):
    choices: list[ChunkChoice]


REQUESTS = msgspec.json.Decoder(ChatRequest)
CHUNKS = msgspec.json.Decoder(Chunk)
ENCODER = msgspec.json.Encoder()


class Write(NamedTuple):
    row: tuple[str, str, float, str]  # session, kind, at, body
    done: "asyncio.Future[None]"


class Journal:
    """Owns the writer thread: whatever has queued up shares one transaction and one fsync."""

    def __init__(self, path: Path, *, loop: asyncio.AbstractEventLoop) -> None:
        self._path = path
        self._loop = loop
        self._queue: queue.SimpleQueue[Write | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="writer")

    def __enter__(self) -> "Journal":
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._queue.put(None)
        self._thread.join()

    def commit(self, session: str, kind: str, body: str) -> "asyncio.Future[None]":
        done = self._loop.create_future()
        self._queue.put(Write((session, kind, time.time(), body), done))
        return done

    def _run(self) -> None:
        database = apsw.Connection(str(self._path))
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=FULL")
        database.execute(
            "CREATE TABLE log (id INTEGER PRIMARY KEY, session TEXT, kind TEXT, at REAL, body TEXT)"
        )
        while (first := self._queue.get()) is not None:
            batch, more = self._drain(first)
            database.execute("BEGIN IMMEDIATE")
            for write in batch:
                database.execute(
                    "INSERT INTO log (session, kind, at, body) VALUES (?, ?, ?, ?)", write.row
                )
            database.execute("COMMIT")
            self._loop.call_soon_threadsafe(_resolve, batch)
            if not more:
                break
        database.close()

    def _drain(self, first: Write) -> tuple[list[Write], bool]:
        batch = [first]
        try:
            while True:
                write = self._queue.get_nowait()
                if write is None:
                    return batch, False
                batch.append(write)
        except queue.Empty:
            return batch, True


def _resolve(batch: list[Write]) -> None:
    for write in batch:
        if not write.done.done():
            write.done.set_result(None)


class Floor:
    """The whole of the server: one route, one pool, one journal."""

    def __init__(self, journal: Journal, *, http: aiohttp.ClientSession, model_url: str) -> None:
        self._journal = journal
        self._http = http
        self._completions = model_url.rstrip("/") + "/chat/completions"

    async def turn(self, request: web.Request) -> web.Response:
        session = request.headers["X-Holdfast-Session"]
        asked = REQUESTS.decode(await request.read()).messages[-1].content
        await self._journal.commit(session, "accept", asked)
        await self._journal.commit(session, "begin", asked)
        text = await self._ask(asked)
        await self._journal.commit(session, "end", text)
        return _answer(text)

    async def _ask(self, text: str) -> str:
        body = ENCODER.encode(
            {"model": "m", "stream": True, "messages": [{"role": "user", "content": text}]}
        )
        headers = {"Content-Type": "application/json"}
        pieces: list[str] = []
        async with self._http.post(self._completions, data=body, headers=headers) as response:
            rest = b""
            async for data in response.content.iter_any():
                *events, rest = (rest + data).split(b"\n\n")
                pieces.extend(_text_of(event) for event in events)
        return "".join(pieces)


def _text_of(event: bytes) -> str:
    data = event.removeprefix(b"data: ")
    if data == b"[DONE]":
        return ""
    return "".join(choice.delta.content or "" for choice in CHUNKS.decode(data).choices)


def _answer(text: str) -> web.Response:
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    completion = {
        "id": "c",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": "floor",
        "choices": [choice],
    }
    return web.Response(body=ENCODER.encode(completion), content_type="application/json")


async def healthz(request: web.Request) -> web.Response:
    return web.Response(text="ok")


async def wait_for_stop_signal() -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await stop.wait()


async def serve(*, port: int, model_url: str, database: Path) -> None:
    connector = aiohttp.TCPConnector(limit=0)
    with Journal(database, loop=asyncio.get_running_loop()) as journal:
        async with aiohttp.ClientSession(connector=connector) as http:
            floor = Floor(journal, http=http, model_url=model_url)
            app = web.Application()
            app.add_routes(
                [web.post("/v1/chat/completions", floor.turn), web.get("/healthz", healthz)]
            )
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", port, backlog=4096).start()
            print(ENCODER.encode({"port": runner.addresses[0][1]}).decode(), flush=True)
            await wait_for_stop_signal()
            await runner.cleanup()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--port", type=int, default=0, help="0: any free one; it is printed")
    parser.add_argument("--model", required=True, help="base URL of the model, ending in /v1")
    parser.add_argument("--db", type=Path, required=True, help="a file that does not exist yet")
    options = parser.parse_args()
    asyncio.run(serve(port=options.port, model_url=options.model, database=options.db))


if __name__ == "__main__":
    main()

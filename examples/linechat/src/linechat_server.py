"""The vendor: a server that stores every message, and sends a bot what it has not acknowledged.

    python -m linechat_server --port 4040 --token secret

The first line of a client says who it is, as JSON: {"person": "ann"} or {"bot": "secret"}. A person
then writes {"text": "hi"} to the bot, or {"chat": "#family", "text": "hi", "mention": true}.
"""

import argparse
import asyncio
import json
from asyncio import StreamReader, StreamWriter
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

Frame = dict[str, Any]
MAX_LENGTH = 1000
BOT = "bot"


class Server:
    """Owns the messages, the events that the bot has not acknowledged, and the connections."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.messages: list[Frame] = []
        self.unacked: list[Frame] = []  # events
        self.acknowledged = 0
        self.next_responses: deque[Frame] = deque()  # to the bot's messages, set by tests
        self._accepted: dict[str, str] = {}  # by delivery id
        self._events = 0
        self._bot: StreamWriter | None = None
        self._people: dict[str, StreamWriter] = {}
        self._connections: dict[asyncio.Task[None], StreamWriter] = {}

    @asynccontextmanager
    async def serving(self, port: int = 0) -> AsyncIterator[int]:
        listener = await asyncio.start_server(self._serve, "127.0.0.1", port)
        try:
            yield listener.sockets[0].getsockname()[1]
        finally:
            listener.close()
            for writer in self._connections.values():
                writer.close()
            await asyncio.gather(*self._connections)

    def say(self, by: str, frame: Frame) -> str:
        """A person writes; returns the id of the message."""
        replied = self._find(frame.get("reply_to"))
        message = self._add(frame.get("chat") or by, by, frame["text"], frame.get("reply_to"))
        self._events += 1
        event = {"event": self._events, "mention": bool(frame.get("mention")), **message}
        event["program"] = bool(frame.get("program"))
        event["reply_to"], event["ours"] = replied, bool(replied and replied["by"] == BOT)
        self.unacked.append(event)
        _write(self._bot, event)
        return str(message["id"])

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "asyncio serves each connection in a task"
        self._connections[task] = writer
        try:
            hello = json.loads(await reader.readline() or "{}")
            if "person" in hello:
                await self._serve_person(str(hello["person"]), reader, writer)
            elif hello.get("bot") == self.token:
                await self._serve_bot(reader, writer)
            else:
                _write(writer, {"no": "this is not the token of the bot"})
        except (ConnectionError, ValueError):
            pass  # a client that disconnects, or writes no JSON, is dropped
        finally:
            writer.close()
            del self._connections[task]

    async def _serve_person(self, name: str, reader: StreamReader, writer: StreamWriter) -> None:
        self._people[name] = writer
        while line := await reader.readline():
            self.say(name, json.loads(line))

    async def _serve_bot(self, reader: StreamReader, writer: StreamWriter) -> None:
        self._bot = writer
        _write(writer, {"welcome": BOT})
        for event in self.unacked:
            _write(writer, event)
        while line := await reader.readline():
            _write(writer, self._respond(json.loads(line)))

    def _respond(self, frame: Frame) -> Frame | None:
        if "ack" in frame:
            self.acknowledged += sum(each["event"] == frame["ack"] for each in self.unacked)
            self.unacked = [each for each in self.unacked if each["event"] != frame["ack"]]
            return None
        if "ping" in frame:
            return {"re": frame["ping"]}
        return {"re": frame["send"], **self._accept(frame)}

    def _accept(self, frame: Frame) -> Frame:
        if self.next_responses:
            return self.next_responses.popleft()
        if not frame["text"].strip() or len(frame["text"]) > MAX_LENGTH:
            return {"no": f"a text of 1 to {MAX_LENGTH} characters"}
        if frame["send"] not in self._accepted:
            message = self._add(frame["chat"], BOT, frame["text"], frame.get("reply_to"))
            self._accepted[frame["send"]] = message["id"]
            for name, person in self._people.items():
                if frame["chat"] in (name, "#family"):
                    _write(person, message)
        return {"id": self._accepted[frame["send"]]}

    def _add(self, chat: str, by: str, text: str, reply_to: str | None) -> Frame:
        message = {"id": f"m{len(self.messages) + 1}", "chat": chat, "by": by, "text": text}
        self.messages.append({**message, "reply_to": reply_to})
        return self.messages[-1]

    def _find(self, message_id: str | None) -> Frame | None:
        return next((each for each in self.messages if each["id"] == message_id), None)


def _write(writer: StreamWriter | None, frame: Frame | None) -> None:
    if writer is not None and frame is not None and not writer.is_closing():
        writer.write(json.dumps(frame).encode() + b"\n")


async def _main(port: int, token: str) -> None:
    async with Server(token).serving(port) as bound:
        print(f"linechat listens on 127.0.0.1:{bound}; the bot's token is {token}", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A chat of JSON lines.")
    parser.add_argument("--port", type=int, default=4040)
    parser.add_argument("--token", default="linechat-secret")
    given = parser.parse_args()
    asyncio.run(_main(given.port, given.token))

"""The vendor: a server that keeps every message, and gives a bot what it has not acknowledged.

    python -m linechat_server --port 4040 --token secret

Whoever connects first says who they are, as a line of JSON: {"person": "ann"}, {"bot": "secret"}.
A person then writes {"text": "hi"} to the bot, or {"chat": "#family", "text": "hi", "named": true}.
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
LONGEST = 1000
BOT = "bot"


class Server:
    """Owns the messages, the events that the bot has not acknowledged, and every line."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.messages: list[Frame] = []
        self.waiting: list[Frame] = []  # events
        self.acknowledged = 0
        self.next_answers: deque[Frame] = deque()  # to what the bot sends, in the place of ours
        self._taken: dict[str, str] = {}  # by delivery id
        self._events = 0
        self._bot: StreamWriter | None = None
        self._people: dict[str, StreamWriter] = {}
        self._lines: dict[asyncio.Task[None], StreamWriter] = {}

    @asynccontextmanager
    async def serving(self, port: int = 0) -> AsyncIterator[int]:
        listener = await asyncio.start_server(self._serve, "127.0.0.1", port)
        try:
            yield listener.sockets[0].getsockname()[1]
        finally:
            listener.close()
            for writer in self._lines.values():
                writer.close()
            await asyncio.gather(*self._lines)

    def say(self, by: str, frame: Frame) -> str:
        """Somebody writes; the name of the message."""
        answers = self._find(frame.get("answers"))
        message = self._add(frame.get("chat") or by, by, frame["text"], frame.get("answers"))
        self._events += 1
        event = {"event": self._events, "named": bool(frame.get("named")), **message}
        event["program"] = bool(frame.get("program"))
        event["answers"], event["ours"] = answers, bool(answers and answers["by"] == BOT)
        self.waiting.append(event)
        _tell(self._bot, event)
        return str(message["id"])

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        line = asyncio.current_task()
        assert line is not None, "every line is served by a task"
        self._lines[line] = writer
        try:
            hello = json.loads(await reader.readline() or "{}")
            if "person" in hello:
                await self._serve_person(str(hello["person"]), reader, writer)
            elif hello.get("bot") == self.token:
                await self._serve_bot(reader, writer)
            else:
                _tell(writer, {"no": "this is not the token of the bot"})
        except (ConnectionError, ValueError):
            pass  # whoever breaks a line, or writes no JSON, has gone
        finally:
            writer.close()
            del self._lines[line]

    async def _serve_person(self, name: str, reader: StreamReader, writer: StreamWriter) -> None:
        self._people[name] = writer
        while line := await reader.readline():
            self.say(name, json.loads(line))

    async def _serve_bot(self, reader: StreamReader, writer: StreamWriter) -> None:
        self._bot = writer
        _tell(writer, {"welcome": BOT})
        for event in self.waiting:
            _tell(writer, event)
        while line := await reader.readline():
            _tell(writer, self._answer(json.loads(line)))

    def _answer(self, frame: Frame) -> Frame | None:
        if "ack" in frame:
            self.acknowledged += sum(each["event"] == frame["ack"] for each in self.waiting)
            self.waiting = [each for each in self.waiting if each["event"] != frame["ack"]]
            return None
        if "ping" in frame:
            return {"re": frame["ping"]}
        return {"re": frame["send"], **self._take(frame)}

    def _take(self, frame: Frame) -> Frame:
        if self.next_answers:
            return self.next_answers.popleft()
        if not frame["text"].strip() or len(frame["text"]) > LONGEST:
            return {"no": f"a text of 1 to {LONGEST} characters"}
        if frame["send"] not in self._taken:
            message = self._add(frame["chat"], BOT, frame["text"], frame.get("answers"))
            self._taken[frame["send"]] = message["id"]
            for name, person in self._people.items():
                if frame["chat"] in (name, "#family"):
                    _tell(person, message)
        return {"id": self._taken[frame["send"]]}

    def _add(self, chat: str, by: str, text: str, answers: str | None) -> Frame:
        name = f"m{len(self.messages) + 1}"
        self.messages.append({"id": name, "chat": chat, "by": by, "text": text, "answers": answers})
        return self.messages[-1]

    def _find(self, name: str | None) -> Frame | None:
        return next((each for each in self.messages if each["id"] == name), None)


def _tell(writer: StreamWriter | None, frame: Frame | None) -> None:
    if writer is not None and frame is not None and not writer.is_closing():
        writer.write(json.dumps(frame).encode() + b"\n")


async def _main(port: int, token: str) -> None:
    async with Server(token).serving(port) as served:
        print(f"linechat listens on 127.0.0.1:{served}; the bot's token is {token}", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A chat of JSON lines.")
    parser.add_argument("--port", type=int, default=4040)
    parser.add_argument("--token", default="linechat-secret")
    given = parser.parse_args()
    asyncio.run(_main(given.port, given.token))

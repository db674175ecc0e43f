"""A scripted model client, for tests: each call takes the next line of a script."""

import asyncio
from collections.abc import AsyncGenerator, Sequence

from holdfast.core.messages.transcript import AssistantMessage, StopReason, ToolCall
from holdfast.core.turns.model import (
    Completed,
    ModelEvent,
    ModelFailed,
    ModelRequest,
    Retrying,
    TextDelta,
)
from holdfast.core.turns.turn import Usage

USAGE = Usage(input_tokens=10, output_tokens=5, cached_tokens=2)


class ManualReply:
    """A reply that is streamed piece by piece, when the test sends the pieces."""

    def __init__(self) -> None:
        self._pieces: asyncio.Queue[str | Retrying | ModelFailed | None] = asyncio.Queue()
        self.calls: Sequence[ToolCall] = ()

    def say(self, *pieces: str) -> None:
        for piece in pieces:
            self._pieces.put_nowait(piece)

    def end(self, *calls: ToolCall) -> None:
        """That was all of it; `calls` are made after it."""
        self.calls = calls
        self._pieces.put_nowait(None)

    def fail(self, failed: ModelFailed) -> None:
        """It breaks off here."""
        self._pieces.put_nowait(failed)

    def retry(self, retrying: Retrying) -> None:
        """It breaks off here, and is made again."""
        self._pieces.put_nowait(retrying)

    async def pieces(self) -> AsyncGenerator[str | Retrying, None]:
        while (piece := await self._pieces.get()) is not None:
            if isinstance(piece, ModelFailed):
                raise piece
            yield piece


ScriptLine = str | Sequence[ToolCall] | ModelFailed | ManualReply


class ScriptedModel:
    """Owns the script and the record of what was asked.

    Each call takes the next line; one that finds none waits for it, so a test holds a turn
    still for as long as it likes. A text is streamed word by word, calls are made, an error
    is raised, a `ManualReply` is followed.
    """

    def __init__(self, *lines: ScriptLine) -> None:
        self.requests: list[ModelRequest] = []
        self.leased = 0
        self._lines: asyncio.Queue[ScriptLine] = asyncio.Queue()
        self._request_made = asyncio.Condition()
        self.say(*lines)

    def say(self, *lines: ScriptLine) -> None:
        for line in lines:
            self._lines.put_nowait(line)

    def lease(self, override: str | None = None) -> "ScriptedClient":
        self.leased += 1
        return ScriptedClient(self, name=override or "scripted")

    async def wait_for_request(self, number: int) -> ModelRequest:
        """The request of that number, from 1 on, once it has been made."""
        async with self._request_made:
            await self._request_made.wait_for(lambda: len(self.requests) >= number)
            return self.requests[number - 1]

    async def next_line(self, request: ModelRequest) -> ScriptLine:
        async with self._request_made:
            self.requests.append(request)
            self._request_made.notify_all()
        return await self._lines.get()


class ScriptedClient:
    """One agent's lease on the scripted model."""

    def __init__(self, model: ScriptedModel, *, name: str) -> None:
        self.name = name
        self._model = model

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        line = await self._model.next_line(request)
        if isinstance(line, ModelFailed):
            raise line
        if isinstance(line, str):
            for word in line.split(" "):
                yield TextDelta(f"{word} ")
                await asyncio.sleep(0)
            yield Completed(AssistantMessage(text=line, model=self.name), USAGE)
        elif isinstance(line, ManualReply):
            text = ""
            async for piece in line.pieces():
                if isinstance(piece, Retrying):
                    text = ""
                    yield piece
                    continue
                text += piece
                yield TextDelta(piece)
            calls = tuple(line.calls)
            stop = StopReason.TOOL_CALLS if calls else StopReason.END
            reply = AssistantMessage(text=text, calls=calls, model=self.name, stop=stop)
            yield Completed(reply, USAGE)
        else:
            reply = AssistantMessage(calls=tuple(line), model=self.name, stop=StopReason.TOOL_CALLS)
            yield Completed(reply, USAGE)

    def release(self) -> None:
        self._model.leased -= 1

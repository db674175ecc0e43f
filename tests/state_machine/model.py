"""The model of the machine: it says what it is told to, as slowly and as badly as it is told to."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import NamedTuple

from holdfast.core.ids import CallId
from holdfast.core.messages.transcript import AssistantMessage, StopReason, ToolCall
from holdfast.core.turns.model import (
    Completed,
    FallbackUsed,
    ModelEvent,
    ModelFailed,
    ModelFault,
    ModelRequest,
    Retrying,
    TextDelta,
)
from holdfast.core.turns.projection import projection_problems
from holdfast.core.turns.turn import Usage

MODELS = ("scripted", "another")  # what a configuration may name
HELPER = "helper"  # the model of auxiliary calls
STAND_IN = "stand-in"


class Wanted(NamedTuple):
    """A tool that the model calls."""

    name: str
    arguments: str = "{}"


class Mishap(StrEnum):
    """What goes wrong with a reply after its first words."""

    NONE = "none"
    RETRIED = "retried"  # the call is made again, and what was streamed is void
    FELL_BACK = "fell_back"  # another model takes it over
    FAILED = "failed"
    TOO_LONG = "too_long"


class Spoken(NamedTuple):
    """A text, word by word; with a pause before each, in seconds, people see it grow."""

    text: str
    pause: float = 0.0
    mishap: Mishap = Mishap.NONE


Line = Spoken | Sequence[Wanted]


class Ask:
    """A request that waits for its answer."""

    def __init__(self, request: ModelRequest, client: "VoiceClient") -> None:
        self.client = client
        self.system = request.system
        self.messages = request.messages
        self.tools = request.tools
        self.line: asyncio.Future[Line] = asyncio.get_running_loop().create_future()


class Voice:
    """Owns the requests that wait, and what was wrong with any of them."""

    def __init__(self, complaints: list[str], *, model: str) -> None:
        self.asks: list[Ask] = []
        self.leased = 0
        self.model = model
        self.complaints = complaints

    def lease(self, override: str | None) -> "VoiceClient":
        self.leased += 1
        return VoiceClient(self, override or self.model)

    @contextmanager
    def hear(self, ask: Ask) -> Iterator[None]:
        if wrong := projection_problems(ask.messages):
            self.complaints.append(f"a request that no provider takes: {wrong}")
        if any(other.client is ask.client for other in self.asks):
            self.complaints.append("one client was asked twice at once")
        if ask.client.released:
            self.complaints.append("a client was asked that had been given back")
        self.asks.append(ask)
        try:
            yield
        finally:
            self.asks.remove(ask)


class VoiceClient:
    def __init__(self, voice: Voice, name: str) -> None:
        self.name = name
        self.released = False
        self.helped_out = False  # by a stand-in
        self._voice = voice

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        ask = Ask(request, self)
        # As if each message took some of the window, so that a long talk is compacted.
        usage = Usage(input_tokens=25 * len(request.messages), output_tokens=5, cached_tokens=2)
        with self._voice.hear(ask):
            line = await ask.line
            if isinstance(line, Spoken):
                async for event in _words(line):
                    self.helped_out = self.helped_out or isinstance(event, FallbackUsed)
                    yield event
        yield Completed(_said(line, self.name), usage)

    def release(self) -> None:
        if self.released:
            self._voice.complaints.append("a client was given back twice")
        self.released = True
        self._voice.leased -= 1


async def _words(line: Spoken) -> AsyncGenerator[ModelEvent, None]:
    words = line.text.split(" ")
    if line.mishap is not Mishap.NONE:
        for word in words[:2]:
            yield TextDelta(f"{word} ")
            await asyncio.sleep(line.pause)
        yield _broken(line.mishap)
    for number, word in enumerate(words, 1):
        yield TextDelta(word if number == len(words) else f"{word} ")
        await asyncio.sleep(line.pause)


def _broken(mishap: Mishap) -> ModelEvent:
    if mishap is Mishap.RETRIED:
        return Retrying("the line broke", attempt=1, delay=0.0)
    if mishap is Mishap.FELL_BACK:
        return FallbackUsed("the first model is ill.", model=STAND_IN)
    fault = ModelFault.CONTEXT_TOO_LONG if mishap is Mishap.TOO_LONG else ModelFault.SERVER
    raise ModelFailed("the model is ill", fault=fault)


def _said(line: Line, model: str) -> AssistantMessage:
    if isinstance(line, Spoken):
        return AssistantMessage(text=line.text, model=model)
    calls = tuple(
        ToolCall(id=CallId(f"call_{number}"), name=each.name, arguments=each.arguments)
        for number, each in enumerate(line)
    )
    return AssistantMessage(calls=calls, model=model, stop=StopReason.TOOL_CALLS)

"""The model of the state machine: each request waits until a rule decides its output, speed and
faults."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import NamedTuple

from holdfast.core.ids import CallId
from holdfast.core.messages.transcript import AssistantMessage, StopReason, ToolCall
from holdfast.core.text.translatable import Translatable
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
AUXILIARY_MODEL = "auxiliary"  # the model of auxiliary calls
FALLBACK_MODEL = "fallback"


class ToolRequest(NamedTuple):
    """A tool call of the model."""

    name: str
    arguments: str = "{}"


class StreamFault(StrEnum):
    """What goes wrong with a reply after its first words."""

    NONE = "none"
    RETRIED = "retried"  # the request is repeated, and what was streamed is void
    FELL_BACK = "fell_back"  # the fallback model takes over
    FAILED = "failed"
    TOO_LONG = "too_long"


class TextReply(NamedTuple):
    """A text that is streamed word by word, with a pause in seconds after each."""

    text: str
    pause: float = 0.0
    fault: StreamFault = StreamFault.NONE


ModelOutput = TextReply | Sequence[ToolRequest]


class PendingRequest:
    """A request that waits for its output."""

    def __init__(self, request: ModelRequest, client: "SteppedModelClient") -> None:
        self.client = client
        self.system = request.system
        self.messages = request.messages
        self.tools = request.tools
        self.output: asyncio.Future[ModelOutput] = asyncio.get_running_loop().create_future()


class SteppedModel:
    """Owns the pending requests, and records what was wrong with any of them."""

    def __init__(self, request_problems: list[str], *, model: str) -> None:
        self.pending: list[PendingRequest] = []
        self.leased = 0
        self.model = model
        self.request_problems = request_problems

    def lease(self, override: str | None) -> "SteppedModelClient":
        self.leased += 1
        return SteppedModelClient(self, override or self.model)

    @contextmanager
    def track(self, request: PendingRequest) -> Iterator[None]:
        if problems := projection_problems(request.messages):
            self.request_problems.append(f"a request that no provider accepts: {problems}")
        if any(other.client is request.client for other in self.pending):
            self.request_problems.append("one client has two requests at once")
        if request.client.released:
            self.request_problems.append("a released client was used")
        self.pending.append(request)
        try:
            yield
        finally:
            self.pending.remove(request)


class SteppedModelClient:
    """One leased client of the model."""

    def __init__(self, model: SteppedModel, name: str) -> None:
        self.name = name
        self.released = False
        self.used_fallback = False
        self._model = model

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        pending = PendingRequest(request, self)
        # Each message takes some of the context window, so that a long conversation is compacted.
        usage = Usage(input_tokens=25 * len(request.messages), output_tokens=5, cached_tokens=2)
        with self._model.track(pending):
            output = await pending.output
            if isinstance(output, TextReply):
                async for event in _stream(output):
                    self.used_fallback = self.used_fallback or isinstance(event, FallbackUsed)
                    yield event
        yield Completed(_completed(output, self.name), usage)

    def release(self) -> None:
        if self.released:
            self._model.request_problems.append("a client was released twice")
        self.released = True
        self._model.leased -= 1


async def _stream(output: TextReply) -> AsyncGenerator[ModelEvent, None]:
    words = output.text.split(" ")
    if output.fault is not StreamFault.NONE:
        for word in words[:2]:
            yield TextDelta(f"{word} ")
            await asyncio.sleep(output.pause)
        yield _fault_event(output.fault)
    for number, word in enumerate(words, 1):
        yield TextDelta(word if number == len(words) else f"{word} ")
        await asyncio.sleep(output.pause)


def _fault_event(fault: StreamFault) -> ModelEvent:
    if fault is StreamFault.RETRIED:
        return Retrying(
            "the output broke", attempt=1, delay=0.0, attempts=5, fault=ModelFault.MALFORMED
        )
    if fault is StreamFault.FELL_BACK:
        return FallbackUsed(Translatable("the first model is ill."), model=FALLBACK_MODEL)
    fault = ModelFault.CONTEXT_TOO_LONG if fault is StreamFault.TOO_LONG else ModelFault.SERVER
    raise ModelFailed("the model is ill", fault=fault)


def _completed(output: ModelOutput, model: str) -> AssistantMessage:
    if isinstance(output, TextReply):
        return AssistantMessage(text=output.text, model=model)
    calls = tuple(
        ToolCall(id=CallId(f"call_{number}"), name=each.name, arguments=each.arguments)
        for number, each in enumerate(output)
    )
    return AssistantMessage(calls=calls, model=model, stop=StopReason.TOOL_CALLS)

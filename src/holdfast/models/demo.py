"""The demo model: a client that needs no key and no network, and says so."""

import asyncio
from collections.abc import AsyncGenerator

from holdfast.core.ids import CallId
from holdfast.core.messages.message import AssistantMessage, StopReason, ToolCall
from holdfast.core.turns.model import Completed, ModelEvent, ModelRequest, TextDelta
from holdfast.core.turns.turn import Usage
from holdfast.models import errors
from holdfast.models.demo_plays import DemoReply, next_reply
from holdfast.models.patience import Sleep
from holdfast.models.target import ModelTarget

_SECONDS_PER_WORD = 0.01
_MAX_STREAM_SECONDS = 0.8  # seconds that the streaming of one reply may take


class DemoModel:
    """Plays a part from the transcript alone, so that it goes on after any crash."""

    __slots__ = ("_released", "_sleep", "_target", "name")

    def __init__(self, target: ModelTarget, *, sleep: Sleep = asyncio.sleep) -> None:
        self._target = target
        self._sleep = sleep
        self._released = False
        self.name = target.name

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        line = next_reply(request)
        words = line.text.split(" ")
        pause = min(_SECONDS_PER_WORD, _MAX_STREAM_SECONDS / len(words))
        for place, word in enumerate(words):
            if self._released:
                raise errors.released_error(self._target)
            yield TextDelta(word if place == 0 else f" {word}")
            await self._sleep(pause)
        if self._released:
            raise errors.released_error(self._target)
        yield Completed(_message(line, request, self.name), _usage(line, request))

    def release(self) -> None:
        self._released = True


def _message(reply: DemoReply, request: ModelRequest, model: str) -> AssistantMessage:
    calls = tuple(
        ToolCall(
            # From the place in the conversation: unique there, and the same after a restart.
            id=CallId(f"call_demo_{len(request.messages)}_{place}"),
            name=call.tool,
            arguments=call.arguments,
        )
        for place, call in enumerate(reply.calls)
    )
    stop = StopReason.TOOL_CALLS if calls else StopReason.END
    return AssistantMessage(text=reply.text, calls=calls, model=model, stop=stop)


def _usage(reply: DemoReply, request: ModelRequest) -> Usage:
    """Four characters a token: there is no tokeniser, and the page should show a number."""
    read = len(request.system) + sum(len(m.text) for m in request.messages)
    return Usage(input_tokens=read // 4, output_tokens=len(reply.text) // 4)

"""Checks one model: is it reachable, does it stream, does it use tools, how fast is it."""

from collections.abc import Callable
from contextlib import aclosing

import msgspec

from holdfast.core.messages.transcript import UserMessage
from holdfast.core.ports.runtime import ModelClient
from holdfast.core.turns.model import (
    Completed,
    ModelFailed,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    ToolSchema,
)

_MAX_TOKENS = 400  # tokens: one that thinks first must still get to say something
_TEXT_PROMPT = UserMessage(text="Count from one to ten in words, on one line.")
_TOOL_PROMPT = UserMessage(text="Call the tool `report` with the word `ready`. Do nothing else.")
_REPORT_TOOL = ToolSchema(
    name="report",
    description="Reports a word.",
    parameters={
        "type": "object",
        "properties": {"word": {"type": "string"}},
        "required": ["word"],
    },
)


class ModelCheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """What was found out; None: it was not got to."""

    reachable: bool
    streams: bool | None = None
    tools: bool | None = None
    first_token_ms: float | None = None
    tokens_per_second: float | None = None
    problem: str = ""


async def check_model(client: ModelClient, *, now: Callable[[], float]) -> ModelCheckResult:
    """Two short calls: one to be timed, one that asks for a tool. `now` is a monotonic clock."""
    try:
        timed = await _measure(client, now)
    except ModelFailed as failed:
        return ModelCheckResult(reachable=False, problem=str(failed))
    try:
        tools = await _uses_tools(client)
    except ModelFailed as failed:
        return msgspec.structs.replace(timed, tools=False, problem=str(failed))
    return msgspec.structs.replace(timed, tools=tools)


async def _measure(client: ModelClient, now: Callable[[], float]) -> ModelCheckResult:
    request = ModelRequest(
        system="Be brief.",
        messages=(_TEXT_PROMPT,),
        reasoning="minimal",
        max_output_tokens=_MAX_TOKENS,
    )
    began = now()
    first = ended = None
    pieces = tokens = 0
    async with aclosing(client.stream(request)) as events:
        async for event in events:
            if isinstance(event, TextDelta | ReasoningDelta):
                first = first or now()
                pieces += 1
            elif isinstance(event, Completed):
                ended = now()
                tokens = event.usage.output_tokens
    speed = tokens / (ended - first) if first and ended and ended > first else None
    return ModelCheckResult(
        reachable=True,
        streams=pieces > 1,
        first_token_ms=(first - began) * 1000 if first else None,
        tokens_per_second=speed if tokens > 1 else None,
    )


async def _uses_tools(client: ModelClient) -> bool:
    request = ModelRequest(
        system="Use the tools you are given.",
        messages=(_TOOL_PROMPT,),
        tools=(_REPORT_TOOL,),
        reasoning="minimal",
        max_output_tokens=_MAX_TOKENS,
    )
    calls = []
    async with aclosing(client.stream(request)) as events:
        async for event in events:
            if isinstance(event, Completed):
                calls = [call.name for call in event.message.calls]
    return _REPORT_TOOL.name in calls

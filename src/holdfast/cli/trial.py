"""A trial: one tiny call to a model, to see whether its key, its name and its address are right."""

import asyncio
import time
from contextlib import aclosing
from dataclasses import dataclass

from holdfast.core.messages.message import UserMessage
from holdfast.core.turns.model import Completed, ModelRequest, TextDelta
from holdfast.models.pool import ModelPool
from holdfast.models.target import ModelTarget

_TEST_PROMPT = "Say hello in three words."


@dataclass(frozen=True, kw_only=True)
class ModelTrial:
    """What the model said, and how many seconds it took to the first word."""

    text: str
    first_token_seconds: float


def try_model(target: ModelTarget) -> ModelTrial:
    """Raises `ModelFailed`, which says what to do."""
    return asyncio.run(_try_model(target))


async def _try_model(target: ModelTarget) -> ModelTrial:
    request = ModelRequest(system="You are brief.", messages=(UserMessage(text=_TEST_PROMPT),))
    began, first, text = time.monotonic(), 0.0, ""
    async with ModelPool() as pool:
        client = pool.lease(target)
        async with aclosing(client.stream(request)) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    first = first or time.monotonic() - began
                elif isinstance(event, Completed):
                    text = event.message.text
    return ModelTrial(text=text.strip(), first_token_seconds=first)

"""When a model fails for good the next one of the list answers, and the first is tried again."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast.core.config.settings import ApiMode, FallbackModel, ModelSettings, Provider
from holdfast.core.messages.transcript import Message, ToolMessage, UserMessage
from holdfast.core.ports.runtime import ModelClient
from holdfast.core.secrets import Secret
from holdfast.core.turns.model import (
    Completed,
    FallbackUsed,
    ModelEvent,
    ModelFailed,
    ModelFault,
    ModelRequest,
)
from holdfast.models.fallback import ModelLeases
from holdfast.models.pool import ModelPool
from holdfast.testing.misbehaving_model.process import ModelProcess

KEY = "sk-the-whole-key"


@pytest.fixture
async def voices(model: ModelProcess) -> AsyncIterator[ModelLeases]:
    """Three models at one server, each with its own mode."""
    others = (
        FallbackModel(
            provider=Provider.ANTHROPIC,
            name="second",
            base_url=model.base_url,
            api_key="env:B",
        ),
        FallbackModel(
            provider=Provider.OPENAI,
            name="third",
            base_url=model.base_url,
            api_key="env:C",
            api_mode=ApiMode.RESPONSES,
        ),
    )
    settings = ModelSettings(
        provider=Provider.LOCAL,
        name="first",
        base_url=model.base_url,
        api_key="env:A",
        fallbacks=others,
        retries=0,
    )
    paths = ("model.api_key", "model.fallbacks[0].api_key", "model.fallbacks[1].api_key")
    async with ModelPool() as pool:
        yield ModelLeases(settings, pool, secrets={path: Secret(KEY) for path in paths})


async def said(client: ModelClient, *messages: Message) -> list[ModelEvent]:
    request = ModelRequest(system="s", messages=messages)
    return [event async for event in client.stream(request)]


def asked(model: ModelProcess) -> list[str]:
    return [body["model"] for body in model.requests()["requests"]]


async def test_the_fallback_model_answers_and_is_reported_once(
    voices: ModelLeases, model: ModelProcess
) -> None:
    model.script({"status": 401, "times": 1})
    fallen, *_, last = await said(voices.lease(), UserMessage(text="hi"))
    assert isinstance(fallen, FallbackUsed)
    assert fallen.model == "second"
    assert "API key" in fallen.why
    assert isinstance(last, Completed)
    assert (last.message.model, last.message.text) == ("second", "You said: hi")


async def test_a_client_stays_with_its_fallback_and_the_next_lease_starts_with_the_first_model(
    voices: ModelLeases, model: ModelProcess
) -> None:
    """A5: a lease is a turn's, once another has taken it over."""
    client = voices.lease()
    model.script({"status": 500, "times": 1}, {"calls": [{"name": "t"}]})
    hi = UserMessage(text="hi")
    reply = (await said(client, hi))[-1].message  # type: ignore[union-attr]
    result = ToolMessage(call_id=reply.calls[0].id, name="t", text="ok")
    *events, last = await said(client, hi, reply, result)
    assert not [event for event in events if isinstance(event, FallbackUsed)]
    await said(client, hi, reply, result, last.message, UserMessage(text="and?"))  # type: ignore[union-attr]
    await said(voices.lease(), hi)
    assert asked(model) == ["first", "second", "second", "second", "first"]
    assert client.name == "first"


async def test_a_conversation_that_is_too_long_does_not_fall_back(
    voices: ModelLeases, model: ModelProcess
) -> None:
    """A shorter one mends it; whoever asked makes it shorter and asks again."""
    model.script({"status": 400, "message": "maximum context length exceeded", "times": 1})
    with pytest.raises(ModelFailed) as failed:
        await said(voices.lease(), UserMessage(text="hi"))
    assert failed.value.fault is ModelFault.CONTEXT_TOO_LONG
    assert asked(model) == ["first"]


async def test_the_failure_of_the_last_fallback_is_the_failure_of_the_call(
    voices: ModelLeases, model: ModelProcess
) -> None:
    model.script({"status": 400, "times": 1}, {"fault": "cut"}, {"status": 429, "message": "no"})
    with pytest.raises(ModelFailed, match="third") as failed:
        await said(voices.lease(), UserMessage(text="hi"))
    assert failed.value.fault is ModelFault.RATE_LIMIT
    assert asked(model) == ["first", "second", "third"]


async def test_a_released_client_does_not_fall_back(
    voices: ModelLeases, model: ModelProcess
) -> None:
    client = voices.lease()
    client.release()
    with pytest.raises(ModelFailed, match="ended by its owner"):
        await said(client, UserMessage(text="hi"))
    assert asked(model) == []


async def test_a_model_override_of_a_session_keeps_the_fallbacks(
    voices: ModelLeases, model: ModelProcess
) -> None:
    model.script({"status": 404, "times": 1})
    await said(voices.lease("other"), UserMessage(text="hi"))
    assert asked(model) == ["other", "second"]


async def test_without_fallbacks_the_client_is_not_wrapped() -> None:
    async with ModelPool() as pool:
        client: Any = ModelLeases(ModelSettings(provider=Provider.DEMO), pool, secrets={}).lease()
        assert type(client).__name__ == "DemoModel"

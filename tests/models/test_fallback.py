"""When a model fails permanently, the next fallback answers; a new lease starts with the first."""

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
async def leases(model: ModelProcess) -> AsyncIterator[ModelLeases]:
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


async def collect_events(client: ModelClient, *messages: Message) -> list[ModelEvent]:
    request = ModelRequest(system="s", messages=messages)
    return [event async for event in client.stream(request)]


def requested_models(model: ModelProcess) -> list[str]:
    return [body["model"] for body in model.requests()["requests"]]


async def test_the_fallback_model_answers_and_is_reported_once(
    leases: ModelLeases, model: ModelProcess
) -> None:
    model.script({"status": 401, "times": 1})
    fallback, *_, last = await collect_events(leases.lease(), UserMessage(text="hi"))
    assert isinstance(fallback, FallbackUsed)
    assert fallback.model == "second"
    assert "API key" in str(fallback.why)
    assert isinstance(last, Completed)
    assert (last.message.model, last.message.text) == ("second", "You said: hi")


async def test_a_client_stays_with_its_fallback_and_the_next_lease_starts_with_the_first_model(
    leases: ModelLeases, model: ModelProcess
) -> None:
    """A5: a lease is a turn's, once another has taken it over."""
    client = leases.lease()
    model.script({"status": 500, "times": 1}, {"calls": [{"name": "t"}]})
    hi = UserMessage(text="hi")
    reply = (await collect_events(client, hi))[-1].message  # type: ignore[union-attr]
    result = ToolMessage(call_id=reply.calls[0].id, name="t", text="ok")
    *events, last = await collect_events(client, hi, reply, result)
    assert not [event for event in events if isinstance(event, FallbackUsed)]
    await collect_events(client, hi, reply, result, last.message, UserMessage(text="and?"))  # type: ignore[union-attr]
    await collect_events(leases.lease(), hi)
    assert requested_models(model) == ["first", "second", "second", "second", "first"]
    assert client.name == "first"


async def test_a_conversation_that_is_too_long_does_not_fall_back(
    leases: ModelLeases, model: ModelProcess
) -> None:
    """Only a shorter request helps: the caller shortens it and asks again."""
    model.script({"status": 400, "message": "maximum context length exceeded", "times": 1})
    with pytest.raises(ModelFailed) as failed:
        await collect_events(leases.lease(), UserMessage(text="hi"))
    assert failed.value.fault is ModelFault.CONTEXT_TOO_LONG
    assert requested_models(model) == ["first"]


async def test_the_failure_of_the_last_fallback_is_the_failure_of_the_call(
    leases: ModelLeases, model: ModelProcess
) -> None:
    model.script({"status": 400, "times": 1}, {"fault": "cut"}, {"status": 429, "message": "no"})
    with pytest.raises(ModelFailed, match="third") as failed:
        await collect_events(leases.lease(), UserMessage(text="hi"))
    assert failed.value.fault is ModelFault.RATE_LIMIT
    assert requested_models(model) == ["first", "second", "third"]


async def test_a_released_client_does_not_fall_back(
    leases: ModelLeases, model: ModelProcess
) -> None:
    client = leases.lease()
    client.release()
    with pytest.raises(ModelFailed, match="was cancelled"):
        await collect_events(client, UserMessage(text="hi"))
    assert requested_models(model) == []


async def test_a_model_override_of_a_session_keeps_the_fallbacks(
    leases: ModelLeases, model: ModelProcess
) -> None:
    model.script({"status": 404, "times": 1})
    await collect_events(leases.lease("other"), UserMessage(text="hi"))
    assert requested_models(model) == ["other", "second"]


async def test_without_fallbacks_the_client_is_not_wrapped() -> None:
    async with ModelPool() as pool:
        client: Any = ModelLeases(ModelSettings(provider=Provider.DEMO), pool, secrets={}).lease()
        assert type(client).__name__ == "DemoModel"

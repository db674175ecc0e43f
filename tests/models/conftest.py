"""Fixtures for tests of models: the misbehaving model in its own process, and a pool that calls
it."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.support.model_process import KEY

from holdfast.core.config.settings import ApiMode, Provider
from holdfast.core.messages.transcript import Message, UserMessage
from holdfast.core.ports.runtime import ModelClient
from holdfast.core.secrets import Secret
from holdfast.core.turns.model import ModelEvent, ModelRequest
from holdfast.models.pool import ModelPool
from holdfast.models.target import CallLimits, ModelTarget
from holdfast.testing.misbehaving_model.process import ModelProcess

Lease = Callable[..., ModelClient]


@pytest.fixture
def model(keyed_model: ModelProcess) -> ModelProcess:
    return keyed_model


@pytest.fixture
def waits() -> list[float]:
    """The waits of the retries of the pool, which return at once."""
    return []


@pytest.fixture
async def pool(waits: list[float]) -> AsyncIterator[ModelPool]:
    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async with ModelPool(sleep=sleep, jitter=lambda: 1.0) as opened:
        yield opened


@pytest.fixture(params=list(ApiMode))
def mode(request: pytest.FixtureRequest) -> ApiMode:
    """The API mode of the leases: each test runs in every mode."""
    return ApiMode(request.param)


@pytest.fixture
def lease(pool: ModelPool, model: ModelProcess, mode: ApiMode) -> Lease:
    def make(*, key: str = KEY, base_url: str = "", **rest: Any) -> ModelClient:
        limits = rest.pop(
            "limits", CallLimits(connect=5, first_token=20, between_tokens=20, total=40)
        )
        return pool.lease(
            ModelTarget(
                provider=Provider.LOCAL,
                name="scripted",
                api_mode=mode,
                base_url=base_url or model.base_url,
                api_key=Secret(key),
                key_reference="env:THE_KEY",
                limits=limits,
                retries=rest.pop("retries", 0),
                **rest,
            )
        )

    return make


CollectEvents = Callable[..., Any]


@pytest.fixture
def collect_events() -> CollectEvents:
    """Collect the events of a reply to a text, or to a conversation."""

    async def ask(client: ModelClient, *messages: str | Message) -> list[ModelEvent]:
        request_messages = tuple(UserMessage(text=m) if isinstance(m, str) else m for m in messages)
        request = ModelRequest(system="be brief", messages=request_messages)
        return [event async for event in client.stream(request)]

    return ask

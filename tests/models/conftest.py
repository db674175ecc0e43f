"""The misbehaving model in a process of its own, and a pool that calls it."""

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
    """How long the pool's retries would have waited: they do not."""
    return []


@pytest.fixture
async def pool(waits: list[float]) -> AsyncIterator[ModelPool]:
    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async with ModelPool(sleep=sleep, jitter=lambda: 1.0) as opened:
        yield opened


@pytest.fixture(params=list(ApiMode))
def mode(request: pytest.FixtureRequest) -> ApiMode:
    """The API mode the leases speak: what holds for one provider holds for each."""
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


Say = Callable[..., Any]


@pytest.fixture
def said() -> Say:
    """Everything a client answers to a text, or to a conversation."""

    async def ask(client: ModelClient, *messages: str | Message) -> list[ModelEvent]:
        spoken = tuple(UserMessage(text=m) if isinstance(m, str) else m for m in messages)
        request = ModelRequest(system="be brief", messages=spoken)
        return [event async for event in client.stream(request)]

    return ask

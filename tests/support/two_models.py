"""Two models for a harness: the main one, and an auxiliary one called `helper`."""

from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec
from tests.support.gateway_harness import GatewayHarness

from holdfast.core.config.settings import (
    AuxiliarySettings,
    CompactionSettings,
    ModelSettings,
    Settings,
)
from holdfast.core.ports.runtime import ModelClient
from holdfast.core.turns.compaction import estimate_text_tokens, estimate_tokens
from holdfast.core.turns.model import Completed, ModelEvent, ModelRequest
from holdfast.core.turns.turn import Usage
from holdfast.testing.scripted_model import ScriptedModel

HELPER = "helper"


class CountingClient:
    """Reports estimated token counts, as a provider does."""

    def __init__(self, client: ModelClient) -> None:
        self._client = client
        self.name = client.name

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        async for event in self._client.stream(request):
            if isinstance(event, Completed):
                input_tokens = estimate_text_tokens(request.system) + sum(
                    map(estimate_tokens, request.messages)
                )
                output_tokens = estimate_tokens(event.message)
                event = Completed(
                    event.message, Usage(input_tokens=input_tokens, output_tokens=output_tokens)
                )
            yield event

    def release(self) -> None:
        self._client.release()


class TwoModels(ScriptedModel):
    """The model of a harness; `helper` answers to its own name."""

    def __init__(self) -> None:
        super().__init__()
        self.helper = ScriptedModel()

    def lease(self, override: str | None = None) -> CountingClient:  # type: ignore[override]  # CountingClient has the interface of a client
        if override == HELPER:
            return CountingClient(self.helper.lease(HELPER))
        return CountingClient(super().lease(override))


def small_harness(
    path: Path, *, auxiliary: AuxiliarySettings, window: int = 4_000
) -> GatewayHarness:
    """A harness whose model has a small context window; it is not started."""
    harness = GatewayHarness(path / "state.db")
    harness.settings = msgspec.structs.replace(
        harness.settings,
        model=ModelSettings(context_window=window),
        auxiliary=auxiliary,
        compaction=CompactionSettings(at=0.8, keep=0.25),
    )
    harness.model = TwoModels()
    return harness


def auxiliary_model(harness: GatewayHarness) -> ScriptedModel:
    assert isinstance(harness.model, TwoModels)
    return harness.model.helper


def with_auxiliary(settings: Settings, **changes: object) -> Settings:
    auxiliary = msgspec.structs.replace(settings.auxiliary, **changes)
    return msgspec.structs.replace(settings, auxiliary=auxiliary)

"""Tests of model fallback over real HTTP: another model answers the rest of a failed turn (A5)."""

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support.gateway_harness import GatewayHarness, Until

from holdfast.core.config.settings import ApiMode, FallbackModel, ModelSettings, Provider
from holdfast.core.messages.inbox import InboxState
from holdfast.core.messages.outbox import DeliveryKind
from holdfast.core.messages.transcript import AssistantMessage
from holdfast.core.ports.store_queries import (
    GetTurn,
    ListDeliveriesForMessage,
    ListSessions,
    ListUndelivered,
)
from holdfast.models.fallback import ModelLeases
from holdfast.models.pool import ModelPool
from holdfast.testing.misbehaving_model.process import ModelProcess


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[ModelProcess, ModelProcess]]:
    with ModelProcess() as first, ModelProcess() as second:
        yield first, second


@dataclass
class Providers:
    """Two vendors, each with its own server and API mode, and the harness that asks them."""

    first: ModelProcess
    second: ModelProcess
    harness: GatewayHarness

    def requests(self) -> tuple[list[Any], list[Any]]:
        return self.first.requests()["requests"], self.second.requests()["requests"]

    def counts(self) -> tuple[int, int]:
        return self.first.requests()["count"], self.second.requests()["count"]

    def refused(self) -> int:
        return int(self.first.requests()["refused"] + self.second.requests()["refused"])


def settings_for(
    first: ModelProcess, second: ModelProcess, *, name: str = "second"
) -> ModelSettings:
    fallback = FallbackModel(
        provider=Provider.LOCAL,
        name=name,
        api_mode=ApiMode.ANTHROPIC_MESSAGES,
        base_url=second.base_url,
    )
    return ModelSettings(
        provider=Provider.LOCAL,
        name="first",
        api_mode=ApiMode.RESPONSES,
        base_url=first.base_url,
        fallbacks=(fallback,),
        retries=0,
    )


@pytest.fixture
async def providers(
    servers: tuple[ModelProcess, ModelProcess], tmp_path: Path
) -> AsyncIterator[Providers]:
    for server in servers:
        server.reset()
    async with ModelPool() as pool:
        harness = GatewayHarness(tmp_path / "state.db")
        harness.model = ModelLeases(settings_for(*servers), pool, secrets={})  # type: ignore[assignment]  # it leases clients, as `ScriptedModel` does
        await harness.start()
        yield Providers(*servers, harness)
        await harness.stop()


REASONS: dict[str, dict[str, Any]] = {
    "a refused key": {"status": 401},
    "no credit": {"status": 402},
    "a quota": {"status": 429, "message": "insufficient_quota"},
    "a model that is gone": {"status": 404, "message": "no such model"},
    "lasting overload": {"status": 503},
    "a truncated stream": {"fault": "cut"},
}


@pytest.mark.parametrize("reason", REASONS)
async def test_the_fallback_answers_and_the_first_model_is_asked_again_next_turn(
    providers: Providers, reason: str
) -> None:
    harness = providers.harness
    providers.first.script(REASONS[reason] | {"times": 1})
    ended = await harness.end_of(await harness.accept("hi"))
    assert (ended.state, ended.text) == (InboxState.ANSWERED, "You said: hi")
    assert providers.counts() == (1, 1)
    await harness.end_of(await harness.accept("again"))
    assert providers.counts() == (2, 1)
    replies = await harness.transcript(await harness.only_session())
    models = [m.model for m in replies if isinstance(m, AssistantMessage)]
    assert models == ["second", "first"]


async def test_the_fallback_keeps_the_rest_of_the_turn_and_drops_its_own_cache_entry_only(
    providers: Providers, until: Until
) -> None:
    """A5: after the running turn; no other entry is touched."""
    harness = providers.harness
    cache = harness.gateway.cache
    await harness.end_of(await harness.accept("hello", chat="other"))
    await until(lambda: len(harness.gateway.lanes) == 0)
    (other,) = await harness.store.read(ListSessions(limit=10))
    providers.first.script({"match": "work", "status": 500, "times": 1})
    providers.second.script(
        {"match": "work", "calls": [{"name": "safe"}]},
        {"match": "work", "calls": [{"name": "never"}]},
        {"match": "work", "text": "done"},
    )
    ended = await harness.end_of(await harness.accept("work"))
    await until(lambda: len(harness.gateway.lanes) == 0)
    assert ended.text == "done"
    assert providers.counts() == (2, 3)
    assert ended.session_id is not None
    assert ended.session_id not in cache
    assert other.id in cache
    hits = cache.hits
    await harness.end_of(await harness.accept("still there?", chat="other"))
    assert cache.hits == hits + 1


async def test_a_steer_does_not_bring_the_first_model_back(
    providers: Providers, until: Until
) -> None:
    """The fallback keeps the whole rest of the turn, steers included."""
    harness = providers.harness
    tool = next(tool for replay, tool in harness.held_tools.items() if replay == "never")
    tool.go.clear()
    providers.first.script({"status": 500, "times": 1})
    providers.second.script({"calls": [{"name": "never"}]}, {"text": "steered and done"})
    asked = await harness.accept("work")
    await tool.wait_until_started(1)
    await harness.accept("/steer mind the gap")
    session = await harness.only_session()
    await until(
        lambda: (
            (lane := harness.gateway.lanes.get(session)) is not None and bool(lane.waiting_messages)
        )
    )
    tool.go.set()
    assert (await harness.end_of(asked)).text == "steered and done"
    assert providers.counts() == (1, 2)
    assert "mind the gap" in json.dumps(providers.requests()[1][-1])


async def test_the_user_gets_one_fallback_notice_before_the_answer(providers: Providers) -> None:
    harness = providers.harness
    providers.first.script({"status": 401, "times": 1})
    providers.second.script({"calls": [{"name": "safe"}]}, {"text": "done"})
    harness.say("work")
    notice, answer = await harness.texts(2)
    assert answer == "done"
    assert notice.startswith("second answered this time: ")
    assert "API key" in notice
    harness.say("more")
    assert (await harness.texts(3))[2] == "You said: more"
    rows = await harness.store.read(ListUndelivered())
    assert not [row for row in rows if row.kind is DeliveryKind.NOTICE]


async def test_a_fetched_answer_has_the_fallback_reason_in_its_turn(providers: Providers) -> None:
    """The page shows the reason below the answer; an API client gets the answer alone."""
    harness = providers.harness
    providers.first.script({"status": 401, "times": 1})
    accepted = await harness.accept("hi")
    ended = await harness.end_of(accepted)
    assert ended.text == "You said: hi"
    assert ended.turn_id is not None
    turn = await harness.store.read(GetTurn(turn_id=ended.turn_id))
    assert turn is not None
    assert turn.reason.startswith("second answered this time: ")
    assert len(await harness.store.read(ListDeliveriesForMessage(inbox_id=accepted.row.id))) == 1


async def test_the_last_failure_is_reported_when_all_models_fail(providers: Providers) -> None:
    providers.first.script({"status": 401, "times": 1})
    providers.second.script({"status": 404, "times": 1})
    ended = await providers.harness.end_of(await providers.harness.accept("hi"))
    assert ended.state is InboxState.FAILED
    assert "second" in ended.text


async def test_reasoning_of_one_provider_is_never_sent_to_another(providers: Providers) -> None:
    """Law 16: signed by one provider, it would be refused by the other; each gets its own."""
    harness = providers.harness
    providers.first.script(
        {"reasoning": "first-thought", "calls": [{"name": "safe"}]},
        {"status": 500},
        {"text": "back"},
    )
    providers.second.script({"reasoning": "second-thought", "text": "taken over"})
    assert (await harness.end_of(await harness.accept("work"))).text == "taken over"
    assert (await harness.end_of(await harness.accept("and?"))).text == "back"
    first, second = providers.requests()
    assert "first-thought" not in json.dumps(second)
    assert "second-thought" not in json.dumps(first)
    assert "first-thought" in json.dumps(first[-1])
    assert providers.refused() == 0


async def test_a_model_of_the_same_name_at_another_address_gets_no_signed_reasoning(
    servers: tuple[ModelProcess, ModelProcess], tmp_path: Path
) -> None:
    """Two accounts with one model: what the one signed, the other cannot verify."""
    first, second = servers
    for server in servers:
        server.reset()
    settings = settings_for(first, second, name="first")
    async with ModelPool() as pool:
        harness = GatewayHarness(tmp_path / "state.db")
        harness.model = ModelLeases(settings, pool, secrets={})  # type: ignore[assignment]
        await harness.start()
        providers = Providers(first, second, harness)
        first.script({"reasoning": "deep", "calls": [{"name": "safe"}]}, {"status": 500})
        second.script({"reasoning": "other-deep", "text": "taken over"})
        assert (await harness.end_of(await harness.accept("work"))).text == "taken over"
        await harness.end_of(await harness.accept("and?"))
        asked_first, asked_second = providers.requests()
        assert "deep" not in json.dumps(asked_second)
        assert "other-deep" not in json.dumps(asked_first)
        assert providers.refused() == 0
        await harness.stop()

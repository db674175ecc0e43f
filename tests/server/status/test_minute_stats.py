"""Per-minute statistics: counted, merged, priced, stored and charted."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.support.settable_clock import SettableClock

from holdfast.core.ids import (
    CallId,
    InboxId,
    PrincipalId,
    SessionId,
    SessionKey,
    TurnId,
)
from holdfast.core.jobs.job import JobId, RunRequest
from holdfast.core.messages.inbox import Accepted, Inbound, InboxRow
from holdfast.core.messages.source import Source
from holdfast.core.messages.transcript import AssistantMessage, ToolMessage
from holdfast.core.ops.stats import MINUTE_SECONDS, DurationSum, MinuteStats, aggregate_minutes
from holdfast.core.ops.status import AgentCacheStatus
from holdfast.core.ports.command import Committed
from holdfast.core.ports.store_commands import AcceptMessage, AddMinuteStats
from holdfast.core.ports.store_queries import ListMinuteStats
from holdfast.core.turns.pricing import Price, total_cost
from holdfast.core.turns.turn import EndTurn, TurnFigures, TurnRowState, Usage
from holdfast.gateway.live.counters import Counters, model_of
from holdfast.server.status.minute_stats import DAY, MinuteHistory, hour_stats
from holdfast.store.sqlite.store import SqliteStore

CALL = CallId("c")
NOON = 1_800_000_000 // DAY * DAY + DAY // 2


def turn_end(
    state: TurnRowState = TurnRowState.ANSWERED,
    *,
    at: float = NOON,
    model: str = "big",
    first_text_at: float | None = None,
) -> EndTurn:
    return EndTurn(
        turn_id=TurnId("t"),
        session_id=SessionId("s"),
        state=state,
        messages=(AssistantMessage(text="x", model=model),),
        usage=Usage(input_tokens=1000, output_tokens=100, cached_tokens=400),
        figures=TurnFigures(
            started_at=NOON, first_text_at=first_text_at, model=model, user_text=""
        ),
        at=at,
    )


def count_turn(counters: Counters, end: EndTurn) -> None:
    counters.on_committed(Committed(end, None))


def count_message(
    counters: Counters, *, run: RunRequest | None = None, duplicate: bool = False
) -> None:
    source = Source(platform="sim", chat_id="c", user_id="u")
    inbound = Inbound(source=source, event_id="e", message_id="m", text="hi", run=run)
    route, principal = SessionKey("r"), PrincipalId("p")
    accept = AcceptMessage(inbound=inbound, route=route, principal=principal, at=NOON)
    row = InboxRow(
        id=InboxId(1), route=route, principal=principal, inbound=inbound, accepted_at=NOON
    )
    accepted = Accepted(row=row, duplicate=duplicate, route_session=None)
    counters.on_committed(Committed(accept, accepted))


def minute_history(store: SqliteStore, clock: SettableClock, counters: Counters) -> MinuteHistory:
    return MinuteHistory(
        counters,
        store,
        clock=clock,
        agents=lambda: AgentCacheStatus(hits=3, misses=1),
        lag=lambda: 0.02,
        memory=lambda: 50_000_000,
    )


def test_a_turn_is_counted_with_its_times_and_its_tokens() -> None:
    counters = Counters()
    count_message(counters)
    count_turn(counters, turn_end(at=NOON + 3, first_text_at=NOON + 1))
    count_turn(counters, turn_end(TurnRowState.FAILED, model="small"))
    minute = counters.current_minute(at=NOON)
    assert (minute.accepted, minute.turns, minute.failed) == (1, 2, 1)
    assert (minute.first_token.mean, minute.duration.worst) == (1.0, 3.0)
    assert {model: usage.output_tokens for model, usage in minute.usage_by_model.items()} == {
        "big": 100,
        "small": 100,
    }
    counters.start_minute()
    assert counters.current_minute(at=NOON).idle


def test_a_repeated_message_and_one_of_a_job_are_not_counted() -> None:
    counters = Counters()
    count_message(counters, duplicate=True)
    count_message(counters, run=RunRequest(id="r", job_id=JobId(1), name="daily", due_at=NOON))
    assert counters.current_minute(at=NOON).accepted == 0


def test_usage_before_an_interruption_counts_for_the_model_that_replied_then() -> None:
    """A turn that failed before any reply has no usage, and makes no sum unknown."""
    counters = Counters()
    said = (
        AssistantMessage(text="first", model="big"),
        ToolMessage(call_id=CALL, name="t", text=""),
    )
    cut = msgspec.structs.replace(
        turn_end(TurnRowState.SUPERSEDED, model=model_of(said)), messages=said[1:]
    )
    count_turn(counters, cut)
    none = msgspec.structs.replace(cut, state=TurnRowState.FAILED, messages=(), usage=Usage())
    count_turn(counters, none)
    assert {
        model: usage.output_tokens
        for model, usage in counters.current_minute(at=NOON).usage_by_model.items()
    } == {"big": 100}


def test_a_clock_set_back_makes_no_duration_negative() -> None:
    counters = Counters()
    count_turn(counters, turn_end(at=NOON - 100, first_text_at=NOON - 50))
    assert counters.current_minute(at=NOON).duration == DurationSum(count=1)


def test_minutes_are_merged_into_longer_spans() -> None:
    usage = {"big": Usage(input_tokens=1)}
    minutes = [
        MinuteStats(
            at=NOON,
            turns=1,
            usage_by_model=usage,
            lag=0.1,
            first_token=DurationSum(count=1, total=2, worst=2),
        ),
        MinuteStats(
            at=NOON + MINUTE_SECONDS,
            turns=2,
            usage_by_model=usage,
            first_token=DurationSum(count=1, total=4, worst=4),
        ),
        MinuteStats(at=NOON + 15 * MINUTE_SECONDS, turns=4),
    ]
    first, second = aggregate_minutes(minutes, per=15 * MINUTE_SECONDS)
    assert (first.at, first.turns, first.lag, first.first_token.mean) == (NOON, 3, 0.1, 3.0)
    assert first.usage_by_model == {"big": Usage(input_tokens=2)}
    assert (second.at, second.turns) == (NOON + 15 * MINUTE_SECONDS, 4)


@pytest.mark.parametrize(
    ("model", "expected"),
    [("big-1", 0.6 * 3 + 0.4 * 0.3 + 0.1 * 15), ("big-2", 1.0 * 1 + 0.1 * 2), ("other", None)],
)
def test_cost_uses_the_price_with_the_best_match(model: str, expected: float | None) -> None:
    prices = {
        "big-*": Price(input=1, output=2),
        "big-1": Price(input=3, output=15, cached=0.3),
        "b*": Price(input=99, output=99),
    }
    usage = {model: Usage(input_tokens=1000, output_tokens=100, cached_tokens=400)}
    spent = total_cost(usage, prices)
    assert spent == (None if expected is None else pytest.approx(expected / 1000))


async def test_minutes_survive_a_restart_and_idle_ones_are_not_written(
    tmp_path: Path,
) -> None:
    clock, path = SettableClock(NOON + 10), tmp_path / "state.db"
    async with SqliteStore(path) as store:
        counters = Counters()
        minutes = minute_history(store, clock, counters)
        await minutes.open()
        count_turn(counters, turn_end())
        [present] = minutes.since(NOON)
        assert (present.turns, present.hits, present.memory) == (1, 3, 50_000_000)
        await minutes.close()
        idle = minute_history(store, clock, Counters())
        await idle.open()
        await idle.close()
        assert [(each.at, each.turns) for each in await store.read(ListMinuteStats(since=0))] == [
            (NOON, 1)
        ]
    async with SqliteStore(path) as store:
        counters = Counters()
        again = minute_history(store, clock, counters)
        await again.open()
        count_turn(counters, turn_end())
        [whole] = aggregate_minutes(again.since(NOON), per=MINUTE_SECONDS)
        assert whole.turns == 2
        await again.close()
        [kept] = await store.read(ListMinuteStats(since=0))
        assert kept.turns == 2
        await store.write(AddMinuteStats(stats=MinuteStats(at=NOON + DAY, turns=1), since=NOON + 1))
        assert [each.at for each in await store.read(ListMinuteStats(since=0))] == [NOON + DAY]


@pytest.fixture
def until() -> Callable[..., object]:
    async def wait(ready: Callable[[], object]) -> None:
        async with asyncio.timeout(30):
            while not ready():
                await asyncio.sleep(0.01)

    return wait


async def test_a_minute_is_closed_by_the_clock(
    tmp_path: Path, until: Callable[..., object]
) -> None:
    clock = SettableClock(NOON + MINUTE_SECONDS - 1)
    async with SqliteStore(tmp_path / "state.db") as store:
        counters = Counters()
        minutes = minute_history(store, clock, counters)
        count_message(counters)
        await minutes.open()
        clock.at += 2
        await until(lambda: len(minutes.since(0)) == 2)  # type: ignore[misc]
        assert [(each.at, each.accepted) for each in minutes.since(0)] == [
            (NOON, 1),
            (NOON + MINUTE_SECONDS, 0),
        ]
        await minutes.close()


def test_totals_only_grow_and_are_not_cleared_with_the_minute() -> None:
    counters = Counters()
    count_turn(counters, turn_end(at=NOON + 3, first_text_at=NOON + 1))
    counters.start_minute()
    count_turn(counters, turn_end(TurnRowState.SUPERSEDED))
    totals = counters.totals()
    assert (
        totals.turns_by_state[TurnRowState.ANSWERED],
        totals.turns_by_state[TurnRowState.SUPERSEDED],
    ) == (1, 1)
    assert (totals.first_token.count, totals.duration.count, totals.duration.total) == (1, 1, 3.0)
    assert totals.usage_by_model["big"].input_tokens == 2000
    counters.start_minute()
    assert counters.totals() == totals


def test_memory_is_bounded_for_any_number_of_model_names() -> None:
    """No count decreases, wherever a minute ends."""
    counters = Counters()
    sums = []
    for number in range(1000):
        count_turn(counters, turn_end(model=f"m{number}"))
        if number % 70 == 0:
            before = counters.totals().usage_by_model
            counters.start_minute()
            assert counters.totals().usage_by_model == before
        sums.append(sum(usage.input_tokens for usage in counters.totals().usage_by_model.values()))
    assert sums == [1000 * (number + 1) for number in range(1000)]
    usage = counters.totals().usage_by_model
    assert len(usage) <= 52 and usage["m0"].input_tokens == 1000


def test_hour_stats_cover_the_last_hour_minute_by_minute() -> None:
    usage = {"big": Usage(input_tokens=10, cached_tokens=4, output_tokens=2)}
    seconds = DurationSum(count=2, total=4, worst=3)
    minutes = [
        MinuteStats(at=NOON - 58 * MINUTE_SECONDS, turns=1, failed=1),
        MinuteStats(at=NOON, turns=2, first_token=seconds, duration=seconds, usage_by_model=usage),
        MinuteStats(at=NOON, turns=4),
        MinuteStats(at=NOON + MINUTE_SECONDS, turns=8, usage_by_model=usage),
    ]
    stats = hour_stats(
        minutes, now=NOON + MINUTE_SECONDS + 30, prices={"big": Price(input=1, output=1)}
    )
    assert len(stats.turns) == 60 and sum(stats.turns) == 15
    assert (stats.turns[0], stats.turns[-2:]) == (1, (6, 8))
    assert (stats.first_token_mean, stats.duration_worst, stats.failed) == (2.0, 3.0, 1)
    assert (stats.input_tokens, stats.cached_tokens, stats.output_tokens) == (20, 8, 4)
    assert stats.cost == pytest.approx(24e-6)
    assert hour_stats([], now=NOON, prices={}).first_token_mean is None

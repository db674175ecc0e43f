"""Minutes: what was counted, joined, priced, kept over lives, and charted."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from holdfast.core.ids import CallId, SessionId, TurnId
from holdfast.core.messages.transcript import AssistantMessage, ToolMessage
from holdfast.core.ops.stats import MINUTE_SECONDS, DurationSum, MinuteStats, aggregate_minutes
from holdfast.core.ops.status import AgentCacheStatus
from holdfast.core.turns.pricing import Price, total_cost
from holdfast.core.turns.turn import EndTurn, TurnState, Usage
from holdfast.gateway.live.counters import Counters
from holdfast.server.status.minute_stats import DAY, MinuteHistory, hour_stats
from holdfast.store.sqlite.store import SqliteStore

CALL = CallId("c")
NOON = 1_800_000_000 // DAY * DAY + DAY // 2


class Time:
    def __init__(self, at: float) -> None:
        self.at = at

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at


def ended(
    state: TurnState = TurnState.ANSWERED, *, at: float = NOON, model: str = "big"
) -> EndTurn:
    return EndTurn(
        turn_id=TurnId("t"),
        session_id=SessionId("s"),
        state=state,
        messages=(AssistantMessage(text="x", model=model),),
        usage=Usage(input_tokens=1000, output_tokens=100, cached_tokens=400),
        at=at,
    )


def minutes_of(store: SqliteStore, time: Time, tally: Counters) -> MinuteHistory:
    return MinuteHistory(
        tally,
        store,
        clock=time,
        agents=lambda: AgentCacheStatus(hits=3, misses=1),
        lag=lambda: 0.02,
        memory=lambda: 50_000_000,
    )


def test_a_turn_is_counted_with_its_times_and_its_tokens() -> None:
    tally = Counters()
    tally.message_accepted()
    tally.turn_ended(ended(at=NOON + 3), started_at=NOON, first_text_at=NOON + 1)
    tally.turn_ended(ended(TurnState.FAILED, model="small"), started_at=NOON, first_text_at=None)
    minute = tally.current_minute(at=NOON)
    assert (minute.accepted, minute.turns, minute.failed) == (1, 2, 1)
    assert (minute.first_token.mean, minute.duration.worst) == (1.0, 3.0)
    assert {model: used.output_tokens for model, used in minute.usage_by_model.items()} == {
        "big": 100,
        "small": 100,
    }
    tally.start_minute()
    assert tally.current_minute(at=NOON).idle


def test_what_was_used_before_a_cut_is_counted_with_the_model_that_replied_then() -> None:
    """One that failed before any reply has used nothing, and makes no sum unknown."""
    tally = Counters()
    said = (
        AssistantMessage(text="first", model="big"),
        ToolMessage(call_id=CALL, name="t", text=""),
    )
    cut = msgspec.structs.replace(ended(TurnState.SUPERSEDED), messages=said[1:])
    tally.turn_ended(cut, started_at=NOON, first_text_at=None, messages=said)
    none = msgspec.structs.replace(cut, state=TurnState.FAILED, messages=(), usage=Usage())
    tally.turn_ended(none, started_at=NOON, first_text_at=None)
    assert {
        model: used.output_tokens
        for model, used in tally.current_minute(at=NOON).usage_by_model.items()
    } == {"big": 100}


def test_a_clock_that_was_set_back_makes_no_time_negative() -> None:
    tally = Counters()
    tally.turn_ended(ended(at=NOON - 100), started_at=NOON, first_text_at=NOON - 50)
    assert tally.current_minute(at=NOON).duration == DurationSum(count=1)


def test_minutes_are_joined_to_longer_stretches() -> None:
    used = {"big": Usage(input_tokens=1)}
    minutes = [
        MinuteStats(
            at=NOON,
            turns=1,
            usage_by_model=used,
            lag=0.1,
            first_token=DurationSum(count=1, total=2, worst=2),
        ),
        MinuteStats(
            at=NOON + MINUTE_SECONDS,
            turns=2,
            usage_by_model=used,
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
def test_money_is_tokens_by_the_price_that_fits_best(model: str, expected: float | None) -> None:
    prices = {
        "big-*": Price(input=1, output=2),
        "big-1": Price(input=3, output=15, cached=0.3),
        "b*": Price(input=99, output=99),
    }
    used = {model: Usage(input_tokens=1000, output_tokens=100, cached_tokens=400)}
    spent = total_cost(used, prices)
    assert spent == (None if expected is None else pytest.approx(expected / 1000))


async def test_what_happened_is_there_after_a_restart_and_idle_minutes_are_not_written(
    tmp_path: Path,
) -> None:
    time, path = Time(NOON + 10), tmp_path / "state.db"
    async with SqliteStore(path) as store:
        tally = Counters()
        minutes = minutes_of(store, time, tally)
        await minutes.open()
        tally.turn_ended(ended(), started_at=NOON, first_text_at=None)
        [present] = minutes.since(NOON)
        assert (present.turns, present.hits, present.memory) == (1, 3, 50_000_000)
        await minutes.close()
        idle = minutes_of(store, time, Counters())
        await idle.open()
        await idle.close()
        assert [(each.at, each.turns) for each in await store.minute_stats(since=0)] == [(NOON, 1)]
    async with SqliteStore(path) as store:
        tally = Counters()
        again = minutes_of(store, time, tally)
        await again.open()
        tally.turn_ended(ended(), started_at=NOON, first_text_at=None)
        [whole] = aggregate_minutes(again.since(NOON), per=MINUTE_SECONDS)
        assert whole.turns == 2
        await again.close()
        [kept] = await store.minute_stats(since=0)
        assert kept.turns == 2
        await store.add_minute_stats(MinuteStats(at=NOON + DAY, turns=1), since=NOON + 1)
        assert [each.at for each in await store.minute_stats(since=0)] == [NOON + DAY]


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
    time = Time(NOON + MINUTE_SECONDS - 1)
    async with SqliteStore(tmp_path / "state.db") as store:
        tally = Counters()
        minutes = minutes_of(store, time, tally)
        tally.message_accepted()
        await minutes.open()
        time.at += 2
        await until(lambda: len(minutes.since(0)) == 2)  # type: ignore[misc]
        assert [(each.at, each.accepted) for each in minutes.since(0)] == [
            (NOON, 1),
            (NOON + MINUTE_SECONDS, 0),
        ]
        await minutes.close()


def test_totals_only_grow_and_are_not_cleared_with_the_minute() -> None:
    tally = Counters()
    tally.turn_ended(ended(at=NOON + 3), started_at=NOON, first_text_at=NOON + 1)
    tally.start_minute()
    tally.turn_ended(ended(TurnState.SUPERSEDED), started_at=NOON, first_text_at=None)
    totals = tally.totals()
    assert (
        totals.turns_by_state[TurnState.ANSWERED],
        totals.turns_by_state[TurnState.SUPERSEDED],
    ) == (1, 1)
    assert (totals.first_token.count, totals.duration.count, totals.duration.total) == (1, 1, 3.0)
    assert totals.usage_by_model["big"].input_tokens == 2000
    tally.start_minute()
    assert tally.totals() == totals


def test_a_vendor_of_a_thousand_names_does_not_fill_the_memory() -> None:
    """And no count goes back, wherever a minute ends."""
    tally = Counters()
    sums = []
    for number in range(1000):
        tally.turn_ended(ended(model=f"m{number}"), started_at=NOON, first_text_at=None)
        if number % 70 == 0:
            before = tally.totals().usage_by_model
            tally.start_minute()
            assert tally.totals().usage_by_model == before
        sums.append(sum(usage.input_tokens for usage in tally.totals().usage_by_model.values()))
    assert sums == [1000 * (number + 1) for number in range(1000)]
    used = tally.totals().usage_by_model
    assert len(used) <= 52 and used["m0"].input_tokens == 1000


def test_the_pace_is_of_the_last_hour_minute_by_minute() -> None:
    used = {"big": Usage(input_tokens=10, cached_tokens=4, output_tokens=2)}
    seconds = DurationSum(count=2, total=4, worst=3)
    minutes = [
        MinuteStats(at=NOON - 58 * MINUTE_SECONDS, turns=1, failed=1),
        MinuteStats(at=NOON, turns=2, first_token=seconds, duration=seconds, usage_by_model=used),
        MinuteStats(at=NOON, turns=4),
        MinuteStats(at=NOON + MINUTE_SECONDS, turns=8, usage_by_model=used),
    ]
    told = hour_stats(
        minutes, now=NOON + MINUTE_SECONDS + 30, prices={"big": Price(input=1, output=1)}
    )
    assert len(told.turns) == 60 and sum(told.turns) == 15
    assert (told.turns[0], told.turns[-2:]) == (1, (6, 8))
    assert (told.first_token_mean, told.duration_worst, told.failed) == (2.0, 3.0, 1)
    assert (told.input_tokens, told.cached_tokens, told.output_tokens) == (20, 8, 4)
    assert told.cost == pytest.approx(24e-6)
    assert hour_stats([], now=NOON, prices={}).first_token_mean is None

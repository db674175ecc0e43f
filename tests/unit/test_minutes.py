"""Minutes: what was counted, joined, priced, kept over lives, and charted."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from holdfast.core.ids import CallId, SessionId, TurnId
from holdfast.core.messages.message import AssistantMessage, ToolMessage
from holdfast.core.ops.facts import AgentFacts
from holdfast.core.ops.minute import MINUTE, Minute, Spread, joined
from holdfast.core.turns.pricing import Price, cost
from holdfast.core.turns.turn import EndTurn, TurnState, Usage
from holdfast.gateway.live.counters import Tally
from holdfast.server.status.minutes import DAY, Minutes
from holdfast.server.status.pace import pace
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


def minutes_of(store: SqliteStore, time: Time, tally: Tally) -> Minutes:
    return Minutes(
        tally,
        store,
        clock=time,
        agents=lambda: AgentFacts(hits=3, misses=1),
        lag=lambda: 0.02,
        memory=lambda: 50_000_000,
    )


def test_a_turn_is_counted_with_its_times_and_its_tokens() -> None:
    tally = Tally()
    tally.accepted()
    tally.ended(ended(at=NOON + 3), started_at=NOON, first_at=NOON + 1)
    tally.ended(ended(TurnState.FAILED, model="small"), started_at=NOON, first_at=None)
    minute = tally.now(at=NOON)
    assert (minute.accepted, minute.turns, minute.failed) == (1, 2, 1)
    assert (minute.first.mean, minute.whole.worst) == (1.0, 3.0)
    assert {model: used.output_tokens for model, used in minute.used.items()} == {
        "big": 100,
        "small": 100,
    }
    tally.clear()
    assert tally.now(at=NOON).idle


def test_what_was_used_before_a_cut_is_counted_with_the_model_that_replied_then() -> None:
    """One that failed before any reply has used nothing, and makes no sum unknown."""
    tally = Tally()
    said = (
        AssistantMessage(text="first", model="big"),
        ToolMessage(call_id=CALL, name="t", text=""),
    )
    cut = msgspec.structs.replace(ended(TurnState.SUPERSEDED), messages=said[1:])
    tally.ended(cut, started_at=NOON, first_at=None, said=said)
    none = msgspec.structs.replace(cut, state=TurnState.FAILED, messages=(), usage=Usage())
    tally.ended(none, started_at=NOON, first_at=None)
    assert {model: used.output_tokens for model, used in tally.now(at=NOON).used.items()} == {
        "big": 100
    }


def test_a_clock_that_was_set_back_makes_no_time_negative() -> None:
    tally = Tally()
    tally.ended(ended(at=NOON - 100), started_at=NOON, first_at=NOON - 50)
    assert tally.now(at=NOON).whole == Spread(count=1)


def test_minutes_are_joined_to_longer_stretches() -> None:
    used = {"big": Usage(input_tokens=1)}
    minutes = [
        Minute(at=NOON, turns=1, used=used, lag=0.1, first=Spread(count=1, total=2, worst=2)),
        Minute(at=NOON + MINUTE, turns=2, used=used, first=Spread(count=1, total=4, worst=4)),
        Minute(at=NOON + 15 * MINUTE, turns=4),
    ]
    first, second = joined(minutes, per=15 * MINUTE)
    assert (first.at, first.turns, first.lag, first.first.mean) == (NOON, 3, 0.1, 3.0)
    assert first.used == {"big": Usage(input_tokens=2)}
    assert (second.at, second.turns) == (NOON + 15 * MINUTE, 4)


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
    spent = cost(used, prices)
    assert spent == (None if expected is None else pytest.approx(expected / 1000))


async def test_what_happened_is_there_after_a_restart_and_idle_minutes_are_not_written(
    tmp_path: Path,
) -> None:
    time, path = Time(NOON + 10), tmp_path / "state.db"
    async with SqliteStore(path) as store:
        tally = Tally()
        minutes = minutes_of(store, time, tally)
        await minutes.open()
        tally.ended(ended(), started_at=NOON, first_at=None)
        [present] = minutes.since(NOON)
        assert (present.turns, present.hits, present.memory) == (1, 3, 50_000_000)
        await minutes.close()
        idle = minutes_of(store, time, Tally())
        await idle.open()
        await idle.close()
        assert [(each.at, each.turns) for each in await store.minutes(since=0)] == [(NOON, 1)]
    async with SqliteStore(path) as store:
        tally = Tally()
        again = minutes_of(store, time, tally)
        await again.open()
        tally.ended(ended(), started_at=NOON, first_at=None)
        [whole] = joined(again.since(NOON), per=MINUTE)
        assert whole.turns == 2
        await again.close()
        [kept] = await store.minutes(since=0)
        assert kept.turns == 2
        await store.keep_minute(Minute(at=NOON + DAY, turns=1), since=NOON + 1)
        assert [each.at for each in await store.minutes(since=0)] == [NOON + DAY]


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
    time = Time(NOON + MINUTE - 1)
    async with SqliteStore(tmp_path / "state.db") as store:
        tally = Tally()
        minutes = minutes_of(store, time, tally)
        tally.accepted()
        await minutes.open()
        time.at += 2
        await until(lambda: len(minutes.since(0)) == 2)  # type: ignore[misc]
        assert [(each.at, each.accepted) for each in minutes.since(0)] == [
            (NOON, 1),
            (NOON + MINUTE, 0),
        ]
        await minutes.close()


def test_totals_only_grow_and_are_not_cleared_with_the_minute() -> None:
    tally = Tally()
    tally.ended(ended(at=NOON + 3), started_at=NOON, first_at=NOON + 1)
    tally.clear()
    tally.ended(ended(TurnState.SUPERSEDED), started_at=NOON, first_at=None)
    totals = tally.totals()
    assert (totals.ends[TurnState.ANSWERED], totals.ends[TurnState.SUPERSEDED]) == (1, 1)
    assert (totals.first.count, totals.whole.count, totals.whole.total) == (1, 1, 3.0)
    assert totals.used["big"].input_tokens == 2000
    tally.clear()
    assert tally.totals() == totals


def test_a_vendor_of_a_thousand_names_does_not_fill_the_memory() -> None:
    """And no count goes back, wherever a minute ends."""
    tally = Tally()
    sums = []
    for number in range(1000):
        tally.ended(ended(model=f"m{number}"), started_at=NOON, first_at=None)
        if number % 70 == 0:
            before = tally.totals().used
            tally.clear()
            assert tally.totals().used == before
        sums.append(sum(usage.input_tokens for usage in tally.totals().used.values()))
    assert sums == [1000 * (number + 1) for number in range(1000)]
    used = tally.totals().used
    assert len(used) <= 52 and used["m0"].input_tokens == 1000


def test_the_pace_is_of_the_last_hour_minute_by_minute() -> None:
    used = {"big": Usage(input_tokens=10, cached_tokens=4, output_tokens=2)}
    seconds = Spread(count=2, total=4, worst=3)
    minutes = [
        Minute(at=NOON - 58 * MINUTE, turns=1, failed=1),
        Minute(at=NOON, turns=2, first=seconds, whole=seconds, used=used),
        Minute(at=NOON, turns=4),
        Minute(at=NOON + MINUTE, turns=8, used=used),
    ]
    told = pace(minutes, now=NOON + MINUTE + 30, prices={"big": Price(input=1, output=1)})
    assert len(told.turns) == 60 and sum(told.turns) == 15
    assert (told.turns[0], told.turns[-2:]) == (1, (6, 8))
    assert (told.first, told.whole_worst, told.failed) == (2.0, 3.0, 1)
    assert (told.input_tokens, told.cached_tokens, told.output_tokens) == (20, 8, 4)
    assert told.cost == pytest.approx(24e-6)
    assert pace([], now=NOON, prices={}).first is None

"""Metrics: counters balance and only grow, and Prometheus can parse the page."""

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from tests.support.gateway_process import SpawnedGateway
from tests.support.prometheus_text import Exposition, Samples

from holdfast.core.messages.inbox import OPEN_STATES, InboxState
from holdfast.core.ops.stats import BUCKET_BOUNDS, Histogram, ProcessTotals
from holdfast.core.ops.status import GatewaySnapshot, StatusReport
from holdfast.core.turns.pricing import Price
from holdfast.core.turns.turn import TurnRowState, Usage
from holdfast.server.metrics import family, histogram, render_metrics, samples, single_sample
from holdfast.store.sqlite.store import SqliteStore

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


async def read_metrics(http: aiohttp.ClientSession) -> Samples:
    async with http.get("/metrics") as response:
        assert response.status == 200
        assert response.headers["Content-Type"] == CONTENT_TYPE
        return Exposition(await response.text()).samples


END_STATES = [state for state in TurnRowState if state is not TurnRowState.OPEN]


def turns(samples: Samples, state: str) -> float:
    return samples["holdfast_turns_total", f'state="{state}"']


async def test_prometheus_can_parse_the_metrics(http: aiohttp.ClientSession) -> None:
    samples = await read_metrics(http)
    assert ("holdfast_loop_lag_seconds", "") in samples
    assert samples["holdfast_account_connected", 'platform="api:default"'] == 1
    for state in InboxState:
        assert ("holdfast_messages", f'state="{state}"') in samples, "a zero is a figure too"


async def test_the_counts_of_the_metrics_balance(
    http: aiohttp.ClientSession, shared_gateway: SpawnedGateway
) -> None:
    """G3: accepted - ended = in flight + queued."""
    before = await read_metrics(http)
    for content in ("counted", "[status 400] counted"):
        body = {"messages": [{"role": "user", "content": content}]}
        async with http.post("/v1/chat/completions", json=body) as response:
            await response.read()
    after = await read_metrics(http)

    def grown(state: str) -> float:
        key = "holdfast_messages", f'state="{state}"'
        return after[key] - before[key]

    assert (grown("answered"), grown("failed")) == (1, 1)
    assert {state: turns(after, state) - turns(before, state) for state in END_STATES} == {
        "answered": 1,
        "failed": 1,
        "interrupted": 0,
        "superseded": 0,
    }
    whole = "holdfast_turn_seconds_count", ""
    assert after[whole] - before[whole] == 1, "a turn that failed has no answer to wait for"
    states = {s: after["holdfast_messages", f'state="{s}"'] for s in InboxState}
    ended = sum(value for state, value in states.items() if state not in OPEN_STATES)
    accepted = after["holdfast_messages_accepted_total", ""]
    assert (
        accepted - ended
        == after["holdfast_messages_in_flight", ""]
        == sum(states[s] for s in OPEN_STATES)
    )
    ledger = shared_gateway.ledger()
    assert {state: ledger[state] for state in states} == states


def test_labels_are_escaped() -> None:
    names = ['"', "\\", "\n", 'a"} 1\nb{c="', "\\n", "Ünï", "\ud800", ""]
    text = "\n".join(family("a_total", "A.", "model", dict.fromkeys(names, 1))) + "\n"
    models = [labels["model"] for labels, _ in Exposition(text).labelled("a_total")]
    assert models == [name.replace("\ud800", "?") for name in names]


def test_a_histogram_has_each_duration_in_every_bucket_that_is_wide_enough() -> None:
    durations = Histogram()
    for seconds in (0.0, BUCKET_BOUNDS[0], 0.7, 1e6):
        durations.add(seconds)
    page = Exposition("\n".join(histogram("a_seconds", "A.", durations.snapshot())) + "\n")
    buckets = {labels["le"]: count for labels, count in page.labelled("a_seconds_bucket")}
    assert (buckets["0.1"], buckets["0.5"], buckets["1.0"], buckets["1800.0"]) == (2, 2, 3, 3)
    assert buckets["+Inf"] == page.samples["a_seconds_count", ""] == 4
    assert page.samples["a_seconds_sum", ""] == pytest.approx(1_000_000.8)


@pytest.mark.parametrize(
    "broken",
    [
        "# HELP a A.\n# TYPE a gauge\na 1",
        "# HELP a A.\n# TYPE a gauge\na 1\na 1\n",
        '# HELP a A.\n# TYPE a gauge\na{b="\\x"} 1\n',
        "# HELP a A.\n# TYPE a gauge\nb 1\n",
        "# HELP a A.\n# TYPE a counter\na 1\n",
        '# HELP a A.\n# TYPE a histogram\na_bucket{le="+Inf"} 2\na_sum 1\na_count 3\n',
    ],
)
def test_the_parser_of_these_tests_is_as_strict_as_prometheus(broken: str) -> None:
    with pytest.raises(AssertionError):
        Exposition(broken)


def test_samples_with_several_labels_and_without_labels_are_rendered() -> None:
    lines = [*single_sample("a", "A.", 1), *samples("b_total", "B.", [({"c": "d", "e": "f"}, 2.5)])]
    page = Exposition("\n".join(lines) + "\n")
    assert page.samples == {("a", ""): 1, ("b_total", 'c="d",e="f"'): 2.5}


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    async with SqliteStore(tmp_path / "state.db") as store:
        yield store


def totals(**used: Usage) -> ProcessTotals:
    nothing = Histogram().snapshot()
    return ProcessTotals(
        turns_by_state=dict.fromkeys(END_STATES, 0),
        first_token=nothing,
        duration=nothing,
        usage_by_model=used,
    )


async def test_tokens_are_counted_by_model_and_kind_and_cost_where_a_price_is_set(
    store: SqliteStore,
) -> None:
    usage = Usage(input_tokens=1000, cached_tokens=400, output_tokens=100, reasoning_tokens=30)

    async def fresh() -> GatewaySnapshot:
        return GatewaySnapshot(state="running", runs=2, subagents={"waited_for": 1})

    def document(snapshot: GatewaySnapshot) -> StatusReport:
        return StatusReport(
            state="running",
            pid=1,
            version="1.2",
            home="/h",
            started_at=0,
            uptime=1,
            snapshot=snapshot,
        )

    page = Exposition(
        await render_metrics(
            store,
            fresh_snapshot=fresh,
            status_report=document,
            totals=totals(big=usage, small=usage),
            prices={"big": Price(input=1, output=10)},
        )
    )
    tokens = {
        labels["kind"]: value
        for labels, value in page.labelled("holdfast_tokens_total")
        if labels["model"] == "small"
    }
    assert tokens == {"input": 1000, "cached": 400, "output": 100, "reasoning": 30}
    ((labels, cost),) = page.labelled("holdfast_cost_total")
    assert labels == {"model": "big"} and cost == pytest.approx(0.002)
    assert page.samples["holdfast_job_runs", 'state="running"'] == 2
    assert page.samples["holdfast_build_info", 'version="1.2"'] == 1

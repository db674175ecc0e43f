"""Metrics of a running gateway in the Prometheus text format."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from typing import Any

from holdfast.core.ops.stats import BUCKET_BOUNDS, HistogramSnapshot, ProcessTotals
from holdfast.core.ops.status import GatewaySnapshot, StatusReport, Workload
from holdfast.core.ports.store import StoreReader
from holdfast.core.ports.store_queries import CountOutbox, GetWorkload
from holdfast.core.turns.pricing import Prices, find_price
from holdfast.core.turns.turn import Usage

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, str]


def single_sample(name: str, text: str, value: float) -> Iterator[str]:
    yield from _header(name, text)
    yield f"{name} {value}"


def family(name: str, text: str, label: str, values: Mapping[Any, float]) -> Iterator[str]:
    """One sample for each value of one label."""
    yield from samples(name, text, (({label: str(key)}, each) for key, each in values.items()))


def samples(name: str, text: str, values: Iterable[tuple[Labels, float]]) -> Iterator[str]:
    yield from _header(name, text)
    for labels, value in values:
        yield f"{name}{_label_text(labels)} {value}"


def histogram(name: str, text: str, durations: HistogramSnapshot) -> Iterator[str]:
    yield from _header(name, text, kind="histogram")
    for bound, count in zip(BUCKET_BOUNDS, durations.cumulative_counts, strict=True):
        yield f'{name}_bucket{{le="{bound}"}} {count}'
    yield f'{name}_bucket{{le="+Inf"}} {durations.count}'
    yield f"{name}_sum {durations.total}"
    yield f"{name}_count {durations.count}"


def _header(name: str, text: str, *, kind: str = "") -> Iterator[str]:
    """A metric whose name ends in `_total` is a counter, as Prometheus names them."""
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind or ('counter' if name.endswith('_total') else 'gauge')}"


def _label_text(labels: Labels) -> str:
    return (
        "{" + ",".join(f'{name}="{_escape_label(value)}"' for name, value in labels.items()) + "}"
    )


def _escape_label(value: str) -> str:
    """What a vendor or a person called something may hold anything: one bad label, and all the
    figures of the page would be refused."""
    text = value.encode("utf-8", "replace").decode()
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


async def render_metrics(
    reads: StoreReader,
    *,
    fresh_snapshot: Callable[[], Coroutine[Any, Any, GatewaySnapshot]],
    status_report: Callable[[GatewaySnapshot], StatusReport],
    totals: ProcessTotals,
    prices: Prices,
) -> str:
    """The facts that `status` shows, the totals since the start, and what the store counts.
    `status_report` reads the disk, so it is called in a thread."""
    deliveries = await reads.read(CountOutbox())
    workload = await reads.read(GetWorkload())
    document = await asyncio.to_thread(status_report, await fresh_snapshot())
    snapshot = document.snapshot
    lines = [
        *_messages(snapshot),
        *_turns(totals),
        *_usage(totals.usage_by_model, prices),
        *family("holdfast_deliveries", "Deliveries by state.", "state", deliveries),
        *_live(snapshot),
        *_background_work(workload, snapshot),
        *_platforms(snapshot, now=document.started_at + document.uptime),
        *_store(snapshot),
        *_process(document),
    ]
    return "\n".join(lines) + "\n"


def _messages(snapshot: GatewaySnapshot) -> Iterator[str]:
    ledger = dict(snapshot.inbox_counts)
    accepted = ledger.pop("accepted", 0)
    yield from single_sample("holdfast_messages_accepted_total", "Messages taken.", accepted)
    yield from family("holdfast_messages", "Accepted messages by state.", "state", ledger)


def _turns(totals: ProcessTotals) -> Iterator[str]:
    yield from family("holdfast_turns_total", "Turns that ended.", "state", totals.turns_by_state)
    text = "From the start of a turn to its first token."
    yield from histogram("holdfast_turn_first_token_seconds", text, totals.first_token)
    text = "From the beginning of a turn to its answer."
    yield from histogram("holdfast_turn_seconds", text, totals.duration)


def _usage(usage_by_model: Mapping[str, Usage], prices: Prices) -> Iterator[str]:
    tokens = (
        ({"model": model, "kind": kind}, count)
        for model, usage in usage_by_model.items()
        for kind, count in _token_kinds(usage).items()
    )
    yield from samples("holdfast_tokens_total", "Tokens by model and kind.", tokens)
    priced = ((model, usage, find_price(model, prices)) for model, usage in usage_by_model.items())
    spent = {model: price.cost_of(usage) for model, usage, price in priced if price is not None}
    yield from family("holdfast_cost_total", "Money, where prices are set.", "model", spent)


def _token_kinds(usage: Usage) -> Mapping[str, int]:
    """The cached are among the input, the reasoning among the output."""
    return {
        "input": usage.input_tokens,
        "cached": usage.cached_tokens,
        "output": usage.output_tokens,
        "reasoning": usage.reasoning_tokens,
    }


def _background_work(workload: Workload, now: GatewaySnapshot) -> Iterator[str]:
    text = "Approvals that wait for a person."
    yield from single_sample("holdfast_approvals_waiting", text, workload.approvals)
    yield from single_sample("holdfast_processes", "Background processes.", workload.processes)
    jobs = {"active": workload.jobs - workload.paused_jobs, "paused": workload.paused_jobs}
    yield from family("holdfast_jobs", "Jobs by state.", "state", jobs)
    runs = {"waiting": workload.waiting_runs, "running": now.runs}
    yield from family("holdfast_job_runs", "Runs of jobs that have not ended.", "state", runs)
    yield from family("holdfast_subagents", "Subagents at work.", "kind", now.subagents)


def _live(now: GatewaySnapshot) -> Iterator[str]:
    agents = now.agents
    yield from family("holdfast_lanes", "Live sessions by state.", "state", now.turns)
    yield from single_sample(
        "holdfast_messages_in_flight", "Messages that have not ended.", now.in_flight
    )
    yield from single_sample(
        "holdfast_messages_queued", "Messages that no turn has taken.", now.queued
    )
    yield from single_sample(
        "holdfast_messages_orphaned", "Accepted messages that no turn works on.", now.orphaned
    )
    help_text = "Deliveries that are not finished."
    yield from single_sample("holdfast_deliveries_pending", help_text, now.outbox)
    yield from single_sample("holdfast_agents_cached", "Agents in the cache.", agents.cached)
    yield from single_sample("holdfast_agents_mid_turn", "Of those, mid-turn.", agents.mid_turn)
    yield from single_sample("holdfast_agents_bytes", "Bytes of cached buffers.", agents.bytes)
    yield from single_sample("holdfast_cache_hits_total", "Turns with an agent.", agents.hits)
    yield from single_sample("holdfast_cache_misses_total", "Agents built.", agents.misses)
    yield from single_sample("holdfast_runners", "Runners that live.", now.runners)


def _platforms(snapshot: GatewaySnapshot, *, now: float) -> Iterator[str]:
    named = {f"{each.name}:{each.account}": each for each in snapshot.platforms}
    connected = {name: int(each.connected(now)) for name, each in named.items()}
    text = "1 for each account that is proven to be connected, else 0."
    yield from family("holdfast_account_connected", text, "platform", connected)
    proven = {name: each.last_ok_at for name, each in named.items() if each.last_ok_at is not None}
    text = "When each platform last answered, in seconds since the epoch."
    yield from family("holdfast_account_last_ok_timestamp_seconds", text, "platform", proven)


def _store(now: GatewaySnapshot) -> Iterator[str]:
    store = now.store
    yield from single_sample("holdfast_store_commits_total", "Commits.", store.commits)
    yield from single_sample("holdfast_store_failures_total", "Failed writes.", store.failures)
    yield from single_sample(
        "holdfast_store_commit_seconds", "The last commit.", store.commit_seconds
    )


def _process(report: StatusReport) -> Iterator[str]:
    machine, loop = report.machine, report.loop
    lag, worst = (0.0, 0.0) if loop is None else (loop.lag, loop.worst_minute)
    yield from samples(
        "holdfast_build_info", "1, with the version.", [({"version": report.version}, 1)]
    )
    yield from single_sample("holdfast_loop_lag_seconds", "Lateness of the loop's tick.", lag)
    text = "The worst of that within the last minute."
    yield from single_sample("holdfast_loop_lag_worst_seconds", text, worst)
    yield from single_sample("holdfast_uptime_seconds", "Since the start.", report.uptime)
    yield from single_sample("holdfast_database_bytes", "The database.", machine.database)
    yield from single_sample("holdfast_database_wal_bytes", "Its log.", machine.wal)
    if machine.disk_free is not None:
        yield from single_sample(
            "holdfast_disk_free_bytes", "Left for the home.", machine.disk_free
        )
    if machine.memory is not None:
        yield from single_sample("holdfast_memory_bytes", "Resident memory.", machine.memory)
    if machine.files is not None:
        yield from single_sample("holdfast_open_files", "Open files.", machine.files)
    problems = dict.fromkeys((problem.code for problem in report.problems), 1)
    yield from family("holdfast_problem", "What is wrong.", "code", problems)

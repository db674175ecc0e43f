"""Metrics in the text format that Prometheus reads."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any

from holdfast.core.facts import Document, Snapshot
from holdfast.core.library import Library

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Renders the facts that `status` shows, and the store's count of deliveries; counts nothing
    itself."""

    def __init__(
        self,
        library: Library,
        *,
        fresh: Callable[[], Coroutine[Any, Any, Snapshot]],
        document: Callable[[Snapshot], Document],
    ) -> None:
        """`document` reads the disk, and is asked in a thread."""
        self._library = library
        self._fresh = fresh
        self._document = document

    async def render(self) -> str:
        deliveries = await self._library.outbox_ledger()
        document = await asyncio.to_thread(self._document, await self._fresh())
        snapshot = document.snapshot
        lines = [
            *_messages(snapshot),
            *_family("holdfast_deliveries", "Deliveries by state.", "state", deliveries),
            *_present(snapshot),
            *_platforms(snapshot, now=document.started_at + document.uptime),
            *_store(snapshot),
            *_process(document),
        ]
        return "\n".join(lines) + "\n"


def _messages(snapshot: Snapshot) -> Iterator[str]:
    ledger = dict(snapshot.ledger)
    accepted = ledger.pop("accepted", 0)
    yield from _single("holdfast_messages_accepted_total", "Messages taken.", accepted)
    yield from _family("holdfast_messages", "Accepted messages by state.", "state", ledger)


def _present(now: Snapshot) -> Iterator[str]:
    agents = now.agents
    yield from _family("holdfast_lanes", "Live sessions by state.", "state", now.turns)
    yield from _single("holdfast_in_flight", "Messages that have not ended.", now.in_flight)
    yield from _single("holdfast_queued", "Messages that no turn has taken.", now.queued)
    yield from _single("holdfast_outbox", "Deliveries that are owed.", now.outbox)
    yield from _single("holdfast_agents_cached", "Agents in the cache.", agents.cached)
    yield from _single("holdfast_agents_mid_turn", "Of those, mid-turn.", agents.mid_turn)
    yield from _single("holdfast_agents_bytes", "Bytes of cached buffers.", agents.bytes)
    yield from _single("holdfast_cache_hits_total", "Turns with an agent.", agents.hits)
    yield from _single("holdfast_cache_misses_total", "Agents built.", agents.misses)
    yield from _single("holdfast_runners", "Runners that live.", now.runners)


def _platforms(snapshot: Snapshot, *, now: float) -> Iterator[str]:
    named = {f"{each.name}:{each.account}": each for each in snapshot.platforms}
    connected = {name: int(each.connected(now)) for name, each in named.items()}
    text = "1 for each account that is proven to be connected, else 0."
    yield from _family("holdfast_platform_connected", text, "platform", connected)
    proven = {name: each.proven_at for name, each in named.items() if each.proven_at is not None}
    text = "When each platform last answered, in seconds since the epoch."
    yield from _family("holdfast_platform_proven_seconds", text, "platform", proven)


def _store(now: Snapshot) -> Iterator[str]:
    store = now.store
    yield from _single("holdfast_store_commits_total", "Commits.", store.commits)
    yield from _single("holdfast_store_failures_total", "Failed writes.", store.failures)
    yield from _single("holdfast_store_commit_seconds", "The last commit.", store.commit_seconds)


def _process(document: Document) -> Iterator[str]:
    machine, loop = document.machine, document.loop
    lag = 0.0 if loop is None else loop.lag
    yield from _single("holdfast_loop_lag_seconds", "Lateness of the loop's tick.", lag)
    yield from _single("holdfast_uptime_seconds", "Since the start.", document.uptime)
    yield from _single("holdfast_database_bytes", "The database.", machine.database)
    yield from _single("holdfast_database_log_bytes", "Its log.", machine.database_log)
    if machine.disk_free is not None:
        yield from _single("holdfast_disk_free_bytes", "Left for the home.", machine.disk_free)
    if machine.memory is not None:
        yield from _single("holdfast_memory_bytes", "Resident memory.", machine.memory)
    if machine.files is not None:
        yield from _single("holdfast_open_files", "Open files.", machine.files)
    problems = dict.fromkeys((problem.code for problem in document.problems), 1)
    yield from _family("holdfast_problem", "What is wrong.", "code", problems)


def _family(name: str, text: str, label: str, values: Mapping[Any, float]) -> Iterator[str]:
    yield from _head(name, text)
    for key, value in values.items():
        yield f'{name}{{{label}="{key}"}} {value}'


def _single(name: str, text: str, value: float) -> Iterator[str]:
    yield from _head(name, text)
    yield f"{name} {value}"


def _head(name: str, text: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {'counter' if name.endswith('_total') else 'gauge'}"

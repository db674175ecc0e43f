"""Metrics in the text format that Prometheus reads."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from holdfast.core.inbox import InboxState
from holdfast.core.library import Library

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Renders what the gateway's snapshot and the store's ledger say; counts nothing itself."""

    def __init__(
        self,
        library: Library,
        *,
        snapshot: Callable[[], Mapping[str, Any]],
        lag: Callable[[], float],
    ) -> None:
        self._library = library
        self._snapshot = snapshot
        self._lag = lag

    async def render(self) -> str:
        messages = await self._library.ledger()
        deliveries = await self._library.outbox_ledger()
        lines = [
            *_single("holdfast_messages_accepted_total", "Messages taken.", sum(messages.values())),
            *_family("holdfast_messages", "Accepted messages by state.", "state", messages),
            *_family("holdfast_deliveries", "Deliveries by state.", "state", deliveries),
            *self._present(),
        ]
        return "\n".join(lines) + "\n"

    def _present(self) -> Iterator[str]:
        now = self._snapshot()
        yield from _family("holdfast_lanes", "Live sessions by state.", "state", now["turns"])
        agents = now["agents"]
        yield from _single("holdfast_in_flight", "Messages that have not ended.", now["in_flight"])
        yield from _single("holdfast_agents_cached", "Agents in the cache.", agents["cached"])
        yield from _single("holdfast_agents_bytes", "Bytes of cached buffers.", agents["bytes"])
        yield from _single("holdfast_cache_hits_total", "Turns with an agent.", agents["hits"])
        yield from _single("holdfast_cache_misses_total", "Agents built.", agents["misses"])
        yield from _single("holdfast_loop_lag_seconds", "Lateness of the loop's tick.", self._lag())


def balance(ledger: Mapping[InboxState, int]) -> dict[str, int]:
    """The ledger as it is shown: what was accepted, by what became of it."""
    return {
        "accepted": sum(ledger.values()),
        **{state: ledger.get(state, 0) for state in InboxState},
    }


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

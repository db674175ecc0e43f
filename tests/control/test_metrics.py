"""Metrics, read by a parser that is as strict as Prometheus' own."""

import re

import aiohttp
from tests.platforms.served import Served

from holdfast.core.inbox import OPEN, InboxState

_SAMPLE = re.compile(
    r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)"
    r'(?:\{(?P<labels>[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*"(?:,[a-zA-Z_]\w*="[^"\n]*")*)\})?'
    r" (?P<value>[-+]?(?:\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|Inf|NaN))"
)
Samples = dict[tuple[str, str], float]


def parse(text: str) -> Samples:
    """Every sample by name and labels; raises where Prometheus would refuse the page."""
    assert text.endswith("\n")
    samples: Samples = {}
    kinds: dict[str, str] = {}
    helped: set[str] = set()
    family = ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            family = line.split(" ")[2]
            assert family not in helped, f"{family} comes in two groups"
            helped.add(family)
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == family and name not in kinds
            assert kind in {"counter", "gauge"}
            assert (kind == "counter") == name.endswith("_total")
            kinds[name] = kind
        else:
            found = _SAMPLE.fullmatch(line)
            assert found, line
            assert found["name"] == family and family in kinds
            key = found["name"], found["labels"] or ""
            assert key not in samples, f"{key} is there twice"
            samples[key] = float(found["value"])
    return samples


async def read(http: aiohttp.ClientSession) -> Samples:
    async with http.get("/metrics") as response:
        assert response.status == 200
        assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        return parse(await response.text())


async def test_the_page_is_one_that_prometheus_reads(http: aiohttp.ClientSession) -> None:
    samples = await read(http)
    assert ("holdfast_loop_lag_seconds", "") in samples
    assert samples["holdfast_platform_connected", 'platform="api:default"'] == 1
    for state in InboxState:
        assert ("holdfast_messages", f'state="{state}"') in samples, "a zero is a figure too"


async def test_the_ledger_there_balances(http: aiohttp.ClientSession, served: Served) -> None:
    """G3: accepted - ended = in flight + queued."""
    before = await read(http)
    for content in ("counted", "[status 400] counted"):
        body = {"messages": [{"role": "user", "content": content}]}
        async with http.post("/v1/chat/completions", json=body) as response:
            await response.read()
    after = await read(http)

    def grown(state: str) -> float:
        key = "holdfast_messages", f'state="{state}"'
        return after[key] - before[key]

    assert (grown("answered"), grown("failed")) == (1, 1)
    states = {s: after["holdfast_messages", f'state="{s}"'] for s in InboxState}
    ended = sum(value for state, value in states.items() if state not in OPEN)
    accepted = after["holdfast_messages_accepted_total", ""]
    assert accepted - ended == after["holdfast_in_flight", ""] == sum(states[s] for s in OPEN)
    ledger = served.ledger()
    assert {state: ledger[state] for state in states} == states

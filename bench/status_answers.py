"""Measures the status socket while a gateway starts, stops or hangs."""

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from processes import BenchmarkFailed, ServerProcess, running
from subjects import HOLDFAST, free_port, gateway_env

from holdfast.server.local.control_client import GatewayDown, read_status
from holdfast.system.paths import Paths

ASKED = 40
EVERY = 0.02
LIMIT = 60.0  # seconds; more would be a hang
READY, HANG_SECONDS = "running", 1.0

Document = dict[str, Any]


def longest_answers(directory: Path, *, model_url: str) -> dict[str, float]:
    """By state: the longest of so many answers, in milliseconds."""

    def ask(stall: str, there: Callable[[Document], bool], *, stop: bool = False) -> float:
        return _longest(directory, stall, there, model_url=model_url, stop=stop)

    return {
        "starting": ask("opening the store:hang", _in_phase("opening the store")),
        "stopping": ask("interrupt:hang", _in_phase("interrupt"), stop=True),
        "hanging": ask("running:block", lambda found: found["snapshot_age"] > HANG_SECONDS),
    }


def _longest(
    directory: Path, stall: str, there: Callable[[Document], bool], *, model_url: str, stop: bool
) -> float:
    port = free_port()
    home = directory / f"home-{port}"
    home.mkdir(mode=0o700)
    env = gateway_env(home, port=port, model_url=model_url) | {"HOLDFAST_STALL_AT": stall}
    with running(
        [HOLDFAST, "run"], log=directory / f"s-{port}.log", env=env, prints_first_line=False
    ) as server:
        try:
            if stop:
                _until(home, server, lambda found: found["state"] == READY)
                server.process.send_signal(signal.SIGTERM)
            _until(home, server, there)
            return max(_asked(home) for _ in range(ASKED))
        finally:
            server.process.kill()  # what hangs on purpose listens to nothing else


def _asked(home: Path) -> float:
    time.sleep(EVERY)
    began = time.perf_counter()
    read_status(Paths(home))
    return (time.perf_counter() - began) * 1000


def _in_phase(name: str) -> Callable[[Document], bool]:
    return lambda found: bool(found["snapshot"]["phase"] == name)


def _until(home: Path, server: ServerProcess, there: Callable[[Document], bool]) -> None:
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline and server.process.poll() is None:
        time.sleep(EVERY)
        try:
            if there(read_status(Paths(home))):
                return
        except GatewayDown:
            continue
    raise BenchmarkFailed(f"the gateway did not reach the state to measure; see {server.tail()}")

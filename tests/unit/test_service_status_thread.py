"""Status from its thread: it answers whatever the event loop does."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.control.client import GatewayDown, read_status
from holdfast.control.heartbeat import Heartbeat
from holdfast.control.status_thread import StatusThread
from holdfast.service.clock import SystemClock
from holdfast.service.paths import Paths


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(tmp_path)


@pytest.fixture
def status(paths: Paths) -> Iterator[StatusThread]:
    with StatusThread(paths, clock=SystemClock(), hanging_after=0.3) as thread:
        yield thread


def test_it_answers_before_anything_is_published(status: StatusThread, paths: Paths) -> None:
    document = read_status(paths)
    assert document["state"] == "starting"
    assert document["loop"] is None
    assert document["home"] == str(paths.home)


def test_it_serves_what_was_published_last(status: StatusThread, paths: Paths) -> None:
    status.publish({"state": "running", "sessions": 1})
    status.publish({"state": "draining", "sessions": 2})
    document = read_status(paths)
    assert document["state"] == "draining"
    assert document["snapshot"] == {"state": "draining", "sessions": 2}


def test_it_says_hanging_while_the_loop_is_blocked_and_recovers(
    status: StatusThread, paths: Paths
) -> None:
    """The state is computed from proof: "running" was said, and is not believed."""
    seen: list[str] = []

    def look() -> None:
        time.sleep(0.6)
        seen.append(read_status(paths)["state"])

    async def gateway() -> dict[str, float]:
        status.publish({"state": "running"})
        with Heartbeat(asyncio.get_running_loop(), clock=SystemClock(), tick=0.05) as heart:
            status.watch(heart)
            await asyncio.sleep(0.12)
            seen.append((await asyncio.to_thread(read_status, paths))["state"])
            watcher = threading.Thread(target=look)
            watcher.start()
            time.sleep(1.0)
            await asyncio.to_thread(watcher.join)
            await asyncio.sleep(0.12)
            document = await asyncio.to_thread(read_status, paths)
            seen.append(document["state"])
            loop: dict[str, float] = document["loop"]
            return loop

    loop = asyncio.run(gateway())
    assert seen == ["running", "hanging", "running"]
    assert loop["worst"] > 0.5


def test_a_socket_left_by_a_killed_process_is_replaced(paths: Paths) -> None:
    """E4: a socket file never blocks a start."""
    paths.run.mkdir()
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(paths.status_socket))
    with pytest.raises(GatewayDown, match="No gateway is running"):
        read_status(paths)
    with StatusThread(paths, clock=SystemClock()):
        assert read_status(paths)["state"] == "starting"
    assert not paths.status_socket.exists()


def test_a_client_that_never_reads_delays_no_other(status: StatusThread, paths: Paths) -> None:
    status.publish({"state": "running", "filler": "x" * 5_000_000})
    with socket.socket(socket.AF_UNIX) as lazy:
        lazy.connect(str(paths.status_socket))
        status.publish({"state": "running"})
        assert read_status(paths, timeout=10)["state"] == "running"


def test_the_socket_is_its_owners_alone(status: StatusThread, paths: Paths) -> None:
    assert paths.status_socket.stat().st_mode & 0o777 == 0o600
    assert paths.run.stat().st_mode & 0o777 == 0o700


def test_many_ask_at_once(status: StatusThread, paths: Paths) -> None:
    status.publish({"state": "running"})
    answers: list[str] = []

    def ask() -> None:
        answers.append(read_status(paths)["state"])

    threads = [threading.Thread(target=ask) for _ in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == ["running"] * 32


def test_a_snapshot_of_odd_things_is_still_json(status: StatusThread, paths: Paths) -> None:
    status.publish({"state": "running", "where": Path("/x"), "n": {1: 2.5}})
    assert read_status(paths)["snapshot"]["where"] == "/x"
    assert json.dumps(read_status(paths))


def test_a_deep_home_is_served_too(tmp_path: Path) -> None:
    deep = Paths(tmp_path / ("d" * 100))
    with StatusThread(deep, clock=SystemClock()):
        assert read_status(deep)["home"] == str(deep.home)
    deep.run.rmdir()

"""The status thread: it answers whatever the event loop does."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.support.settable_clock import SettableClock

from holdfast.core.ops.status import GatewaySnapshot
from holdfast.server.local.control_client import GatewayDown, read_status
from holdfast.server.status.thread import Heartbeat, StatusThread
from holdfast.system.clock import SystemClock
from holdfast.system.paths import Paths


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(tmp_path)


@pytest.fixture
def status(paths: Paths) -> Iterator[StatusThread]:
    with StatusThread(paths, clock=SystemClock(), hanging_after=0.3) as thread:
        yield thread


def test_status_answers_before_anything_is_published(status: StatusThread, paths: Paths) -> None:
    document = read_status(paths)
    assert document["state"] == "starting"
    assert document["loop"] is None
    assert document["home"] == str(paths.home)


def test_status_serves_the_last_published_snapshot(status: StatusThread, paths: Paths) -> None:
    status.publish(GatewaySnapshot(state="running", outbox=1))
    status.publish(GatewaySnapshot(state="stopping", phase="draining", outbox=2))
    document = read_status(paths)
    assert document["state"] == "stopping"
    assert (document["snapshot"]["phase"], document["snapshot"]["outbox"]) == ("draining", 2)
    assert document["snapshot_age"] < 60


def test_status_is_hanging_while_the_loop_is_blocked_and_recovers(
    status: StatusThread, paths: Paths
) -> None:
    """The state is computed from heartbeats: a published "running" alone is not trusted."""

    def until(state: str) -> dict[str, Any]:
        deadline = time.monotonic() + 30
        while (document := read_status(paths))["state"] != state:
            assert time.monotonic() < deadline, f"the state was never {state!r}: {document}"
            time.sleep(0.02)
        return document

    async def gateway() -> dict[str, Any]:
        status.publish(GatewaySnapshot(state="running"))
        with Heartbeat(asyncio.get_running_loop(), clock=SystemClock(), tick=0.05) as heart:
            status.watch_heartbeat(heart)
            await asyncio.to_thread(until, "running")
            watcher = threading.Thread(target=until, args=("hanging",))
            watcher.start()
            watcher.join()  # the loop is blocked until the status was hanging
            return await asyncio.to_thread(until, "running")

    assert asyncio.run(gateway())["loop"]["worst"] > 0.2


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
    status.publish(GatewaySnapshot(state="running", phase="x" * 5_000_000))
    with socket.socket(socket.AF_UNIX) as lazy:
        lazy.connect(str(paths.status_socket))
        status.publish(GatewaySnapshot(state="running"))
        assert read_status(paths, timeout=10)["state"] == "running"


def test_only_the_owner_can_open_the_status_socket(status: StatusThread, paths: Paths) -> None:
    assert paths.status_socket.stat().st_mode & 0o777 == 0o600
    assert paths.run.stat().st_mode & 0o777 == 0o700


def test_many_clients_are_served_at_once(status: StatusThread, paths: Paths) -> None:
    status.publish(GatewaySnapshot(state="running"))
    answers: list[str] = []

    def ask() -> None:
        answers.append(read_status(paths)["state"])

    threads = [threading.Thread(target=ask) for _ in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == ["running"] * 32


@pytest.fixture
def waiting_status(paths: Paths) -> Iterator[StatusThread]:
    """A status thread that waits for the loop, however busy the machine is."""
    with StatusThread(paths, clock=SystemClock(), answer_timeout=30) as thread:
        yield thread


async def test_status_asks_the_loop_for_a_fresh_snapshot(
    waiting_status: StatusThread, paths: Paths
) -> None:
    """The snapshot is of this moment, not of the last change."""
    counted = count(1)

    async def fresh() -> GatewaySnapshot:
        return GatewaySnapshot(state="running", outbox=next(counted))

    waiting_status.attach_loop(asyncio.get_running_loop(), fresh)
    assert (await asyncio.to_thread(read_status, paths))["snapshot"]["outbox"] == 1
    async with asyncio.timeout(30):
        while (await asyncio.to_thread(read_status, paths))["snapshot"]["outbox"] < 3:
            pass


async def test_requests_at_the_same_moment_share_one_snapshot(paths: Paths) -> None:
    """Requests keep the loop free: within 50 ms they get the same answer."""
    clock = SettableClock(100.0)
    asked = count(1)

    async def fresh() -> GatewaySnapshot:
        return GatewaySnapshot(state="running", outbox=next(asked))

    with StatusThread(paths, clock=clock, answer_timeout=30) as status_thread:
        status_thread.attach_loop(asyncio.get_running_loop(), fresh)
        answers = []
        for moment in (100.0, 100.04, 100.1):
            clock.at = moment
            document = await asyncio.to_thread(read_status, paths)
            answers.append(document["snapshot"]["outbox"])
    assert answers == [1, 1, 2]


async def test_a_loop_that_does_not_answer_is_replaced_by_its_last_snapshot_with_its_age(
    status: StatusThread, paths: Paths
) -> None:
    """A request does not wait for the loop; once the loop answers again, it is used again."""
    asked, answer = asyncio.Event(), asyncio.Event()

    async def fresh() -> GatewaySnapshot:
        asked.set()
        await answer.wait()
        return GatewaySnapshot(state="running", outbox=2)

    status.publish(GatewaySnapshot(state="running", outbox=1))
    status.attach_loop(asyncio.get_running_loop(), fresh)
    first = await asyncio.to_thread(read_status, paths)
    second = await asyncio.to_thread(read_status, paths)
    assert asked.is_set() and first["snapshot"]["outbox"] == second["snapshot"]["outbox"] == 1
    assert second["snapshot_age"] > first["snapshot_age"] >= 0
    answer.set()
    async with asyncio.timeout(30):
        while (await asyncio.to_thread(read_status, paths))["snapshot"]["outbox"] != 2:
            pass


async def test_status_answers_when_the_snapshot_fails(
    waiting_status: StatusThread, paths: Paths, caplog: pytest.LogCaptureFixture
) -> None:
    async def fresh() -> GatewaySnapshot:
        raise RuntimeError("a bug")

    waiting_status.attach_loop(asyncio.get_running_loop(), fresh)
    for _ in range(2):
        assert (await asyncio.to_thread(read_status, paths))["state"] == "starting"
    assert "a bug" in caplog.text


def test_status_works_for_a_home_with_a_long_path(tmp_path: Path) -> None:
    deep = Paths(tmp_path / ("d" * 100))
    with StatusThread(deep, clock=SystemClock()):
        assert read_status(deep)["home"] == str(deep.home)
    deep.run.rmdir()

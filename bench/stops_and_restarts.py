"""Measures how long stops and restarts take, and what they add to turns that are running."""

import asyncio
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import aiohttp
import apsw
from processes import BenchmarkFailed, load
from subjects import Subject

from holdfast.server.local.control_client import GatewayDown, read_status
from holdfast.system.paths import Paths

LIMIT = 60.0  # seconds; more would be a hang
ASKS_AGAIN_AFTER = 0.05


@dataclass(frozen=True, kw_only=True)
class RestartDelay:
    """A restart while turns ran: seconds that it added to them, beside turns left alone."""

    added_median: float
    added_most: float


def stop_seconds(subject: Subject) -> float:
    """From SIGTERM to the end of the process."""
    began = time.perf_counter()
    subject.server.process.send_signal(signal.SIGTERM)
    code = subject.server.process.wait(timeout=LIMIT)
    if code != 0:
        raise BenchmarkFailed(f"a stop ended with {code}; see {subject.server.tail()}")
    return time.perf_counter() - began


def stop_with_turns(subject: Subject, *, turns: int) -> float:
    """The same while so many turns wait for their model; each must be marked for a successor."""
    home = home_of(subject)
    with _asking(subject, turns):
        _until(lambda: _running(home) == turns, f"{turns} running turns")
        took = stop_seconds(subject)
    marked = _count(home, "SELECT count(*) FROM sessions WHERE resume_pending")
    if marked != turns:
        raise BenchmarkFailed(
            f"{marked} of {turns} sessions were marked; see {subject.server.tail()}"
        )
    return took


def restart_seconds(subject: Subject) -> float:
    """From SIGUSR1 to a successor that takes messages. What runs afterwards is ended here."""
    home = home_of(subject)
    began = time.perf_counter()
    subject.server.process.send_signal(signal.SIGUSR1)
    _until(lambda: _succeeded(subject), "a successor")
    took = time.perf_counter() - began
    subject.server.process.wait(timeout=LIMIT)
    end_successor(home)
    return took


def restart_with_turns(subject: Subject, *, turns: int, model_seconds: float) -> RestartDelay:
    """So many turns run when the restart comes; each is asked for until it is answered."""
    alone = asyncio.run(_answers(subject, turns=turns, prefix="alone."))
    restarted_turns = asyncio.run(
        _answers(subject, turns=turns, prefix="restarted.", then=model_seconds / 2)
    )
    _until(lambda: _succeeded(subject), "a successor")
    end_successor(home_of(subject))
    usual = median(alone)
    added = [took - usual for took in restarted_turns]
    return RestartDelay(added_median=median(added), added_most=max(added))


def home_of(subject: Subject) -> Path:
    assert subject.home is not None, "only a gateway is restarted"
    return subject.home


def end_successor(home: Path) -> None:
    """The successor is not a child of this process: it is ended by its id, and waited for."""
    pid = read_status(Paths(home))["pid"]
    handle = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(handle, signal.SIGTERM)
        if not select.select([handle], [], [], LIMIT)[0]:
            raise BenchmarkFailed(f"process {pid} did not end")
    finally:
        os.close(handle)


async def _answers(
    subject: Subject, *, turns: int, prefix: str, then: float | None = None
) -> list[float]:
    """The seconds each of them took; `then`: so long after they were asked comes a restart."""
    limit = aiohttp.ClientTimeout(total=LIMIT)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=limit, connector=connector) as http:
        asking = [_answer(http, subject, f"{prefix}{number}") for number in range(turns)]
        together = asyncio.gather(*asking)
        if then is not None:
            await asyncio.sleep(then)
            subject.server.process.send_signal(signal.SIGUSR1)
        return await together


async def _answer(http: aiohttp.ClientSession, subject: Subject, name: str) -> float:
    """Asked under one id until there is an answer: one message, however often it is asked for."""
    began = time.perf_counter()
    headers = {
        "Authorization": f"Bearer {subject.token}",
        "X-Holdfast-Session": name,
        "X-Holdfast-Message-Id": "one",
    }
    body = {"model": "bench", "messages": [{"role": "user", "content": name}]}
    while True:
        try:
            url = f"{subject.url}/v1/chat/completions"
            async with http.post(url, json=body, headers=headers) as response:
                answer = await response.json()
        except aiohttp.ClientConnectorError as error:
            raise BenchmarkFailed(f"a connection was refused: {error}") from error
        except aiohttp.ClientError:
            answer = {}
        if "choices" in answer:
            break
        await asyncio.sleep(ASKS_AGAIN_AFTER)
    if answer["choices"][0]["message"]["content"] != f"echo: {name}":
        raise BenchmarkFailed(f"{name} was answered with {answer!r}")
    return time.perf_counter() - began


@contextmanager
def _asking(subject: Subject, turns: int) -> Iterator[None]:
    """So many requests under way; what becomes of them is not looked at."""
    loop = asyncio.new_event_loop()

    async def ask() -> None:
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as http:
            asking = (_left_alone(http, subject, f"interrupted.{n}") for n in range(turns))
            await asyncio.gather(*asking, return_exceptions=True)

    thread = threading.Thread(target=loop.run_until_complete, args=(ask(),))
    thread.start()
    try:
        yield
    finally:
        thread.join(timeout=LIMIT)
        loop.close()


async def _left_alone(http: aiohttp.ClientSession, subject: Subject, name: str) -> None:
    headers = {"Authorization": f"Bearer {subject.token}", "X-Holdfast-Session": name}
    body = {"model": "bench", "messages": [{"role": "user", "content": name}]}
    async with http.post(
        f"{subject.url}/v1/chat/completions", json=body, headers=headers
    ) as response:
        await response.read()


def fill_store(subject: Subject, *, sessions: int) -> None:
    """So many sessions of one exchange are in the store."""
    load(
        subject.url,
        token=subject.token,
        sessions=sessions,
        turns=1,
        connections=32,
        prefix="known.",
    )


def _running(home: Path) -> int:
    return _count(home, "SELECT count(*) FROM turns WHERE state = 'open'")


def _count(home: Path, query: str) -> int:
    database = apsw.Connection(str(Paths(home).db), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return int(database.execute(query).fetchone()[0])
    finally:
        database.close()


def _succeeded(subject: Subject) -> bool:
    return _ready_as(home_of(subject)) not in (None, subject.server.process.pid)


def _ready_as(home: Path) -> int | None:
    try:
        document = read_status(Paths(home))
    except (GatewayDown, OSError):
        return None
    return int(document["pid"]) if document["state"] == "running" else None


def _until(fact: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + LIMIT
    while not fact():
        if time.monotonic() > deadline:
            raise BenchmarkFailed(f"{what}: not within {LIMIT:g} s")
        time.sleep(0.005)

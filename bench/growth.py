"""`make growth`: how costs grow with the length of a conversation, with the number of sessions and
with the number of open event streams.

Each cost is printed at every size, with its exponent (the slope on logarithmic axes) between the
two largest sizes, beside the exponent of the work that it is for. A cost whose exponent is larger
grows faster than its work.
"""

import argparse
import asyncio
import http.client
import json
import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from statistics import median
from urllib.parse import quote, urlsplit

import msgspec
from big_stores import PREFIX, fill_history, fill_sessions
from growth_chart import draw
from measures import model_stats
from processes import HERE, BenchmarkFailed, load, model
from subjects import HOLDFAST, Subject, gateway

sys.path.insert(0, str(HERE.parent))  # statements are counted as the guard in tests/ counts them

from tests.bench.counts import count_statements

HISTORY_SIZES = (10, 100, 1_000, 10_000)
SESSION_SIZES = (1_000, 10_000, 100_000)
MILLION = 1_000_000
STREAM_SIZES = (10, 100, 1_000, 10_000)
TURNS = 20  # of which one figure is the mean
CALLS = 9  # of an endpoint, of which a figure is the median
# What noise does to the slope between two sizes: a cost is named only if it grows faster by more.
MARGIN = 0.25
RECORD = HERE / "growth.json"
CHART = HERE / "growth.svg"
_CONNECTS_AT_ONCE = 50
_STREAM_TIMEOUT = 120.0
_IDLE_CPU = 10.0  # milliseconds in half a second
_number = count(1)


@dataclass(frozen=True, kw_only=True)
class Cost:
    """One curve. `work` is the exponent of what has to be done: 0 for the same at every size, 1
    for as much as there is."""

    name: str
    unit: str
    work: float
    points: dict[int, float] = field(default_factory=dict)

    @property
    def exponent(self) -> float:
        """Of the last two sizes, where what is the same at every size weighs least."""
        (size, cost), (larger_size, larger_cost) = sorted(self.points.items())[-2:]
        if min(cost, larger_cost) <= 0:
            return math.nan
        return math.log(larger_cost / cost) / math.log(larger_size / size)

    @property
    def grows_faster(self) -> bool:
        return self.exponent > self.work + MARGIN


@dataclass(frozen=True, kw_only=True)
class Family:
    """The curves over one axis."""

    title: str
    axis: str
    costs: tuple[Cost, ...]

    def note(self, size: int, name: str, value: float) -> None:
        next(cost for cost in self.costs if cost.name == name).points[size] = value


def history_family() -> Family:
    return Family(
        title="One session",
        axis="messages of history",
        costs=(
            Cost(name="a turn, CPU", unit="ms", work=1),
            Cost(name="the first turn after a start, CPU", unit="ms", work=1),
            Cost(name="statements of a turn", unit="", work=0),
            Cost(name="request to the model", unit="kB", work=1),
            Cost(name="resident memory", unit="MB", work=1),
            Cost(name="open the session in the API, CPU", unit="ms", work=0),
            Cost(name="compacted: a turn, CPU", unit="ms", work=0),
            Cost(name="compacted: the first turn after a start, CPU", unit="ms", work=0),
            Cost(name="compacted: statements of a turn", unit="", work=0),
            Cost(name="compacted: request to the model", unit="kB", work=0),
            Cost(name="compacted: resident memory", unit="MB", work=0),
        ),
    )


def sessions_family() -> Family:
    return Family(
        title="Sessions in the store",
        axis="sessions",
        costs=(
            Cost(name="start to ready", unit="s", work=0),
            Cost(name="start to ready, CPU", unit="ms", work=0),
            Cost(name="the 5 s after a start, CPU", unit="ms", work=0),
            Cost(name="a turn of a new session, CPU", unit="ms", work=0),
            Cost(name="a turn of a stored session, CPU", unit="ms", work=0),
            Cost(name="first page of the list, CPU", unit="ms", work=0),
            Cost(name="first page with summaries, CPU", unit="ms", work=0),
            Cost(name="a page in the middle, CPU", unit="ms", work=0),
            Cost(name="page by a title that one has, CPU", unit="ms", work=1),
            Cost(name="first search after a start, CPU", unit="ms", work=0),
            Cost(name="search for a rare word, CPU", unit="ms", work=0),
            Cost(name="search for a common word, CPU", unit="ms", work=1),
            Cost(name="status, CPU", unit="ms", work=0),
            Cost(name="metrics, CPU", unit="ms", work=0),
            Cost(name="deliveries of a platform that has none, CPU", unit="ms", work=0),
            Cost(name="/sessions of a person who has them all, CPU", unit="ms", work=0),
            Cost(name="/usage of a person who has them all, CPU", unit="ms", work=1),
            Cost(name="delete a session, CPU", unit="ms", work=0),
            Cost(name="backup", unit="s", work=1),
            Cost(name="resident memory", unit="MB", work=0),
        ),
    )


def streams_family() -> Family:
    return Family(
        title="Open event streams",
        axis="streams",
        costs=(
            Cost(name="memory of each", unit="kB", work=0),
            Cost(name="open one, CPU", unit="ms", work=0),
            Cost(name="close one, CPU", unit="ms", work=0),
            Cost(name="a turn of another session, CPU", unit="ms", work=0),
            Cost(name="a turn of the watched session, CPU", unit="ms", work=1),
            Cost(name="message to its event, first stream", unit="ms", work=1),
            Cost(name="message to its event, last stream", unit="ms", work=1),
            Cost(name="each on its own session: open one, CPU", unit="ms", work=0),
            Cost(name="each on its own session: a turn of one, CPU", unit="ms", work=0),
            Cost(name="each on its own session: message to its event", unit="ms", work=0),
        ),
    )


class Client:
    """Requests to one gateway, and the CPU that each costs it."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self._address = urlsplit(subject.url)

    def cpu(self) -> float:
        """Milliseconds of all threads so far, finer than the ticks of /proc/PID/stat."""
        tasks = Path(f"/proc/{self.subject.server.process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e6

    def cpu_with_ended_threads(self) -> float:
        """Milliseconds, in ticks of ten; some long reads have a thread of their own."""
        pid = self.subject.server.process.pid
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")

    def get(self, path: str) -> bytes:
        return self._request("GET", path)

    def delete(self, path: str) -> None:
        self._request("DELETE", path)

    def cost_of(self, path: str) -> float:
        """CPU of the gateway for one such request, once its modules are loaded."""
        self.get(path)
        return self._median(CALLS, lambda: self.get(path))

    def cost_of_command(self, text: str) -> float:
        """CPU of the gateway for one chat command, once its modules are loaded."""
        body = json.dumps({"model": "bench", "messages": [{"role": "user", "content": text}]})

        def run() -> None:
            self._request("POST", "/v1/chat/completions", body)

        run()
        costs = []
        for _ in range(3):
            fine, coarse = self.cpu(), self.cpu_with_ended_threads()
            run()
            costs.append(max(self.cpu() - fine, self.cpu_with_ended_threads() - coarse))
        return median(costs)

    def cost_of_turns(self, prefix: str, *, turns: int = TURNS, first: int = 0) -> float:
        """CPU of one turn, each in the next of the sessions so named."""
        before = self.cpu()
        self.run_turns(prefix, sessions=turns, first=first)
        return (self.cpu() - before) / turns

    def run_turns(self, prefix: str, *, sessions: int = 1, turns: int = 1, first: int = 0) -> None:
        load(
            self.subject.url,
            token=self.subject.token,
            sessions=sessions,
            turns=turns,
            connections=1,
            prefix=prefix,
            first=first,
        )

    def rss_mb(self) -> float:
        return self.subject.server.rss_kb() / 1024

    def _median(self, times: int, work: Callable[[], object]) -> float:
        costs = []
        for _ in range(times):
            before = self.cpu()
            work()
            costs.append(self.cpu() - before)
        return median(costs)

    async def wait_until_idle(self) -> None:
        """What was caused before is done: the gateway uses no more than a heartbeat needs."""
        before = self.cpu()
        while True:
            await asyncio.sleep(0.5)
            now = self.cpu()
            if now - before < _IDLE_CPU:
                return
            before = now

    def _request(self, method: str, path: str, body: str | None = None) -> bytes:
        connection = http.client.HTTPConnection(
            self._address.hostname or "", self._address.port, timeout=600
        )
        try:
            headers = {"Authorization": f"Bearer {self.subject.token}"}
            if body is not None:
                headers["Content-Type"] = "application/json"
            connection.request(method, path, body, headers=headers)
            response = connection.getresponse()
            answer = response.read()
        finally:
            connection.close()
        if response.status >= 300:
            raise BenchmarkFailed(f"{method} {path} answered {response.status}: {answer[:300]!r}")
        return answer


@contextmanager
def running_on(directory: Path, home: Path, *, model_url: str) -> Iterator[Client]:
    """A gateway on that home, which makes no backup by itself and compacts nothing."""
    settings = {"BACKUP_EVERY_HOURS": "0", "MODEL_CONTEXT_WINDOW": "100000000"}
    with gateway(directory, model_url=model_url, home=home, **settings) as subject:
        yield Client(subject)


def new_home(directory: Path) -> Path:
    home = directory / f"home{next(_number)}"
    home.mkdir(mode=0o700)
    return home


def measure_history(directory: Path, sizes: Sequence[int]) -> Family:
    family = history_family()
    with model(directory) as url:
        for size in sizes:
            for prefix, compacted in (("", False), ("compacted: ", True)):
                _measure_history(directory, family, size, url=url, prefix=prefix, by=compacted)
    return family


def _measure_history(
    directory: Path, family: Family, size: int, *, url: str, prefix: str, by: bool
) -> None:
    say(f"a session of {size:,} messages{', compacted' if by else ''}")
    home = new_home(directory)
    fill_history(home, messages=size, compacted=by)
    with running_on(directory, home, model_url=url) as client:
        client.run_turns("warm.", sessions=3)
        before = client.cpu()
        client.run_turns(PREFIX)
        family.note(size, f"{prefix}the first turn after a start, CPU", client.cpu() - before)
        family.note(size, f"{prefix}request to the model", model_stats(url)["last_bytes"] / 1000)
        before = client.cpu()
        client.run_turns(PREFIX, turns=TURNS)
        family.note(size, f"{prefix}a turn, CPU", (client.cpu() - before) / TURNS)
        family.note(size, f"{prefix}resident memory", client.rss_mb())
        if not by:
            session_id = _first_session(client)
            cost = client.cost_of(f"/api/v1/sessions/{session_id}")
            family.note(size, "open the session in the API, CPU", cost)
    statements = asyncio.run(count_statements(home, session=f"{PREFIX}0"))
    family.note(size, f"{prefix}statements of a turn", statements)
    shutil.rmtree(home)


def _first_session(client: Client) -> str:
    return str(json.loads(client.get("/api/v1/sessions?limit=1"))["sessions"][0]["id"])


def measure_sessions(directory: Path, sizes: Sequence[int]) -> Family:
    family = sessions_family()
    with model(directory) as url:
        for size in sizes:
            say(f"a store of {size:,} sessions")
            home = new_home(directory)
            fill_sessions(home, sessions=size)
            _measure_sessions(directory, family, size, home=home, url=url)
            shutil.rmtree(home)
    return family


def _measure_sessions(directory: Path, family: Family, size: int, *, home: Path, url: str) -> None:
    with running_on(directory, home, model_url=url):
        pass  # a new schema is migrated to, once
    with running_on(directory, home, model_url=url) as client:
        family.note(size, "start to ready", client.subject.started_in)
        started = client.cpu()
        family.note(size, "start to ready, CPU", started)
        time.sleep(5)
        family.note(size, "the 5 s after a start, CPU", client.cpu() - started)
        rare, common = '"unique7"', '"topic7"'
        before = client.cpu()
        client.get(f"/api/v1/search?q={quote(rare)}")
        family.note(size, "first search after a start, CPU", client.cpu() - before)
        client.run_turns("warm.", sessions=3)
        cost = client.cost_of_turns("new.")
        family.note(size, "a turn of a new session, CPU", cost)
        cost = client.cost_of_turns(PREFIX, first=size // 2)
        family.note(size, "a turn of a stored session, CPU", cost)
        middle = f"{time.time() - 15 * 86400}~s_0"
        paths = {
            "first page of the list, CPU": "/api/v1/sessions?limit=50",
            "first page with summaries, CPU": "/api/v1/sessions?limit=50&summary=true",
            "a page in the middle, CPU": f"/api/v1/sessions?limit=50&after={middle}",
            "page by a title that one has, CPU": "/api/v1/sessions?limit=50&q=Item+77+of",
            "search for a rare word, CPU": f"/api/v1/search?q={quote(rare)}",
            "search for a common word, CPU": f"/api/v1/search?q={quote(common)}",
            "status, CPU": "/api/v1/status",
            "metrics, CPU": "/metrics",
            "deliveries of a platform that has none, CPU": "/api/v1/outbox?platform=irc",
        }
        for name, path in paths.items():
            family.note(size, name, client.cost_of(path))
        for command in ("/sessions", "/usage"):
            cost = client.cost_of_command(command)
            family.note(size, f"{command} of a person who has them all, CPU", cost)
        before = client.cpu()
        for number in range(5):
            client.delete(f"/api/v1/sessions/s_{size // 3 + number:027x}")
        family.note(size, "delete a session, CPU", (client.cpu() - before) / 5)
        family.note(size, "resident memory", client.rss_mb())
        family.note(size, "backup", _backup_seconds(home))


def _backup_seconds(home: Path) -> float:
    to = home.with_name("backup")
    to.mkdir()
    began = time.perf_counter()
    command = [HOLDFAST, "backup", "--home", home, "create", "--to", to]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    took = time.perf_counter() - began
    shutil.rmtree(to)
    if done.returncode != 0:
        raise BenchmarkFailed(f"the backup failed: {done.stdout}{done.stderr}")
    return took


def measure_streams(directory: Path, sizes: Sequence[int]) -> Family:
    family = streams_family()
    files = max(sizes) + 1000
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < files:
        raise BenchmarkFailed(f"{files} open files are needed, and {hard} are allowed: ulimit -n")
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))  # the gateway inherits it
    with model(directory) as url:
        for size in sizes:
            say(f"{size:,} event streams")
            home = new_home(directory)
            fill_sessions(home, sessions=size)
            with running_on(directory, home, model_url=url) as client:
                client.run_turns("warm.", sessions=3)
                asyncio.run(_measure_streams(client, family, size))
            with running_on(directory, home, model_url=url) as client:
                client.run_turns("warm.", sessions=3)
                asyncio.run(_measure_own_streams(client, family, size))
            shutil.rmtree(home)
    return family


async def _measure_streams(client: Client, family: Family, size: int) -> None:
    """All of them on one session."""
    streams = Streams(client)
    await streams.open([f"s_{0:027x}"] * 3)
    await streams.close()
    memory, before = client.rss_mb(), client.cpu()
    await streams.open([f"s_{0:027x}"] * size)
    family.note(size, "open one, CPU", (client.cpu() - before) / size)
    family.note(size, "memory of each", (client.rss_mb() - memory) * 1024 / size)
    cost = await asyncio.to_thread(client.cost_of_turns, "new.")
    family.note(size, "a turn of another session, CPU", cost)
    firsts, lasts = [], []
    before = client.cpu()
    for _ in range(3):
        delays = await streams.turn_delays(f"{PREFIX}0", range(size))
        firsts.append(min(delays))
        lasts.append(max(delays))
    family.note(size, "a turn of the watched session, CPU", (client.cpu() - before) / 3)
    family.note(size, "message to its event, first stream", median(firsts))
    family.note(size, "message to its event, last stream", median(lasts))
    # The last events of a turn are still being sent when its reply has been seen, and a close takes
    # as long as it takes: without both waits, one would be counted as the other.
    await client.wait_until_idle()
    before = client.cpu()
    await streams.close()
    await client.wait_until_idle()
    family.note(size, "close one, CPU", (client.cpu() - before) / size)


async def _measure_own_streams(client: Client, family: Family, size: int) -> None:
    """Each on a session of its own."""
    streams = Streams(client)
    await streams.open([f"s_{0:027x}"] * 3)
    await streams.close()
    before = client.cpu()
    await streams.open([f"s_{number:027x}" for number in range(size)])
    prefix = "each on its own session:"
    family.note(size, f"{prefix} open one, CPU", (client.cpu() - before) / size)
    delays = []
    before = client.cpu()
    for number in range(10):
        delays += await streams.turn_delays(f"{PREFIX}{number}", [number])
    family.note(size, f"{prefix} a turn of one, CPU", (client.cpu() - before) / 10)
    family.note(size, f"{prefix} message to its event", median(delays))
    await streams.close()


class Streams:
    """Owns open event streams of sessions, and when each saw the last reply."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._address = urlsplit(client.subject.url)
        self._streams: list[EventStream] = []

    async def open(self, session_ids: Sequence[str]) -> None:
        """Returns when each has got what there is already."""
        for first in range(0, len(session_ids), _CONNECTS_AT_ONCE):
            some = session_ids[first : first + _CONNECTS_AT_ONCE]
            self._streams += await asyncio.gather(*map(self._open, some))
            async with asyncio.timeout(_STREAM_TIMEOUT):
                for stream in self._streams[first:]:
                    await stream.caught_up.wait()
        await asyncio.sleep(0.2)

    async def _open(self, session_id: str) -> "EventStream":
        loop = asyncio.get_running_loop()
        _, stream = await loop.create_connection(
            EventStream, self._address.hostname, self._address.port
        )
        stream.request(
            f"GET /api/v1/sessions/{session_id}/events HTTP/1.1\r\nHost: {self._address.netloc}\r\n"
            f"Authorization: Bearer {self._client.subject.token}\r\n\r\n"
        )
        return stream

    async def turn_delays(self, session: str, numbers: Sequence[int]) -> list[float]:
        """Milliseconds from sending a message to its reply as an event of each of these streams."""
        watched = [self._streams[number] for number in numbers]
        text = f"turn{next(_number)}"
        for stream in watched:
            stream.expect(f"echo: {text}")
        body = json.dumps({"model": "bench", "messages": [{"role": "user", "content": text}]})
        reader, writer = await asyncio.open_connection(self._address.hostname, self._address.port)
        began = time.perf_counter()
        writer.write(
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: {self._address.netloc}\r\n"
            f"Authorization: Bearer {self._client.subject.token}\r\n"
            f"X-Holdfast-Session: {session}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
        )
        async with asyncio.timeout(_STREAM_TIMEOUT):
            await reader.readuntil(b"\r\n\r\n")
            for stream in watched:
                await stream.seen.wait()
        writer.close()
        await asyncio.sleep(0.2)
        return [(stream.seen_at - began) * 1000 for stream in watched]

    async def close(self) -> None:
        for stream in self._streams:
            stream.close()
        self._streams.clear()
        await asyncio.sleep(2.0)


class EventStream(asyncio.Protocol):
    """One client of server-sent events; it keeps only what it looks for."""

    def __init__(self) -> None:
        self.caught_up = asyncio.Event()
        self.seen = asyncio.Event()
        self.seen_at = 0.0
        self._expected = b"event: session"  # the last thing that a new client gets
        self._tail = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def request(self, head: str) -> None:
        assert self._transport is not None
        self._transport.write(head.encode())

    def expect(self, text: str) -> None:
        self.seen.clear()
        # In the record of the reply, not in a piece of it.
        self._expected = text.encode()
        self._tail = b""

    def data_received(self, data: bytes) -> None:
        text = self._tail + data
        if self._expected in text:
            self.seen_at = time.perf_counter()
            self.caught_up.set()
            self.seen.set()
        self._tail = text[-200:]

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def render(families: Sequence[Family]) -> str:
    """Markdown tables."""
    lines = []
    for family in families:
        sizes = sorted(family.costs[0].points)
        lines += ["", f"| {family.title}: {family.axis} |" + "".join(f" {s:,} |" for s in sizes)]
        lines[-1] += " exponent | of its work |"
        lines.append("|---|" + "---:|" * (len(sizes) + 2))
        for cost in family.costs:
            unit = f", {cost.unit}" if cost.unit else ""
            cells = "".join(f" {figure(cost.points[size])} |" for size in sizes)
            mark = " **faster**" if cost.grows_faster else ""
            lines.append(
                f"| {cost.name}{unit} |{cells} {cost.exponent:.2f}{mark} | {cost.work:g} |"
            )
    return "\n".join(lines[1:])


def figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def read_record() -> list[Family]:
    return msgspec.json.decode(RECORD.read_bytes(), type=list[Family]) if RECORD.exists() else []


def record(families: Sequence[Family]) -> None:
    """These replace the recorded ones of the same title; the chart shows all that are recorded."""
    merged = {family.title: family for family in (*read_record(), *families)}
    order = [made().title for made in (history_family, sessions_family, streams_family)]
    listed = [merged[title] for title in order if title in merged]
    RECORD.write_bytes(msgspec.json.format(msgspec.json.encode(listed)) + b"\n")
    CHART.write_text(draw(listed))


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--million", action="store_true", help="also a store of 1,000,000 sessions")
    parser.add_argument("--quick", action="store_true", help="without the largest sizes")
    parser.add_argument("--only", choices=("history", "sessions", "streams"), action="append")
    parser.add_argument(
        "--recorded", action="store_true", help=f"measure nothing; print what {RECORD.name} has"
    )
    parser.add_argument(
        "--record", action="store_true", help=f"put them into {RECORD.name}, and draw {CHART.name}"
    )
    parser.add_argument("--dir", default=None, help="where the stores go; default: a temporary")
    options = parser.parse_args()
    if options.recorded:
        print(render(read_record()))
        return
    cut = slice(0, -1 if options.quick else None)
    sessions = (*SESSION_SIZES[cut], *((MILLION,) if options.million else ()))
    measures = {
        "history": lambda directory: measure_history(directory, HISTORY_SIZES[cut]),
        "sessions": lambda directory: measure_sessions(directory, sessions),
        "streams": lambda directory: measure_streams(directory, STREAM_SIZES[cut]),
    }
    with tempfile.TemporaryDirectory(dir=options.dir, prefix="holdfast-growth-") as directory:
        try:
            families = [
                measure(Path(directory))
                for name, measure in measures.items()
                if name in (options.only or measures)
            ]
        except BenchmarkFailed as error:
            sys.exit(f"the benchmark broke: {error}")
    print(render(families))
    if options.record:
        record(families)


if __name__ == "__main__":
    main()

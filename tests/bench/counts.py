"""Counts what a start and a turn of a real gateway cost, in figures that do not depend on how
busy the machine is; `counts.toml` has the expected ones.

`make counts` (`python -m tests.bench.counts`) measures and writes that file.
"""

import asyncio
import json
import os
import sys
import tempfile
import tomllib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from statistics import median_low

import aiohttp
import msgspec
from bench.instant_model import HEAD, TAIL, delta
from tests.bench.counting_gateway import COUNT_SIGNAL
from tests.platforms.telegram.fake import FakeTelegram
from tests.platforms.telegram.fake_bot_api import FakeBotApi

from holdfast.system.paths import Paths

FILE = Path(__file__).with_name("counts.toml")
UPDATE_COMMAND = "make counts"
# By section of the file. Modules of other packages differ a little between versions of Python,
# calls depend on how often a task is resumed, and the request on the paths that its prompt names.
TOLERANCES = {"exact": 0.0, "near": 0.02, "close": 0.1}
TURNS = 3  # of each kind; the median counts: a timer may fire during one of them
STREAMED_TURNS = 2  # each takes seconds
_TIMEOUT = 60.0
_SAMPLE_SECONDS = 0.02
_IDLE_SAMPLES = 6
_START_SECONDS = 3.0

Counts = dict[str, int]
Sections = dict[str, Counts]  # as in `TOLERANCES`


class CountedTurn(msgspec.Struct, frozen=True):
    """What one process did between two reports."""

    statements: list[str]
    calls: dict[str, int]
    modules: list[str]
    garbage: int  # objects in reference cycles

    @property
    def transactions(self) -> int:
        return self.statements.count("COMMIT")

    @property
    def call_count(self) -> int:
        return sum(self.calls.values())


def without_minute_statistics(statements: Sequence[str]) -> list[str]:
    """Without the transaction that a timer writes at the end of each minute."""
    kept: list[str] = []
    transaction: list[str] = []
    for statement in statements:
        transaction.append(statement)
        if statement in ("COMMIT", "ROLLBACK"):
            if not any("INTO minutes" in each for each in transaction):
                kept += transaction
            transaction = []
    return kept + transaction


class ScriptedAnswers(asyncio.Protocol):
    """One connection of a model server. Each answer, or half of one, is a single write, so that
    it is read at once. "use a tool" and "stream a tool" ask for a call of `todo` first. "stream" is
    answered in two halves, the second when `go_on` is called."""

    def __init__(self, model: "ScriptedModelServer") -> None:
        self._model = model
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, found, rest = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        if len(rest) >= length:
            self._buffer = rest[length:]
            self._answer(rest[:length])

    def _answer(self, body: bytes) -> None:
        messages = json.loads(body)["messages"]
        text = next(each["content"] for each in reversed(messages) if each["role"] == "user")
        if not isinstance(text, str):
            text = "".join(part["text"] for part in text)
        self._model.request_sizes[text] = len(body)
        if text.startswith(("use a tool", "stream a tool")) and messages[-1]["role"] == "user":
            self._write(HEAD, _TOOL_CALL, TAIL.replace(b'"stop"', b'"tool_calls"'), end=True)
        elif text.startswith("stream"):
            self._write(HEAD, delta("echo: "), end=False)
            self._model.on_continue(lambda: self._write(delta(text), TAIL, end=True))
        else:
            self._write(HEAD, delta("echo: "), delta(text), TAIL, end=True)

    def _write(self, *parts: bytes, end: bool) -> None:
        assert self._transport is not None
        head = parts[0] if parts[0] is HEAD else b""
        events = b"".join(part for part in parts if part is not HEAD)
        closing = b"0\r\n\r\n" if end else b""
        self._transport.write(head + b"%x\r\n%b\r\n" % (len(events), events) + closing)


_TOOL_CALL = (
    b'data: {"id":"c","object":"chat.completion.chunk","created":0,"model":"m","choices":[{"index":'
    b'0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"todo"'
    b',"arguments":"{\\"items\\": [{\\"text\\": \\"x\\"}]}"}}]},"finish_reason":null}]}\n\n'
)


class ScriptedModelServer:
    """Owns the size of each request by the text of its last message, and the answers that wait."""

    def __init__(self) -> None:
        self.request_sizes: dict[str, int] = {}
        self._waiting: list[Callable[[], None]] = []

    def on_continue(self, write: Callable[[], None]) -> None:
        self._waiting.append(write)

    def go_on(self) -> None:
        """Finish the answers that wait."""
        waiting, self._waiting = self._waiting, []
        for write in waiting:
            write()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: ScriptedAnswers(self), "127.0.0.1", 0)
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        finally:
            server.close()


class CountingGateway:
    """Owns a gateway process that counts; see `counting_gateway.py`."""

    def __init__(self, folder: Path, process: asyncio.subprocess.Process, address: str) -> None:
        self._folder = folder
        self._process = process
        self._reports = 0
        self.address = address

    @property
    def token(self) -> str:
        return Paths(self._folder).api_token.read_text().strip()

    async def report(self) -> CountedTurn:
        """What it did since the last report, once all its threads wait."""
        await self.wait_until_idle()
        self._reports += 1
        self._process.send_signal(COUNT_SIGNAL)
        file = self._folder / f"{self._reports}.json"
        await wait_for(file.exists, "a report of the counts")
        found = msgspec.json.decode(file.read_bytes(), type=CountedTurn)
        kept = without_minute_statistics(found.statements)
        return msgspec.structs.replace(found, statements=kept)

    async def wait_until_idle(self) -> None:
        """Until no thread has run for a while. A thread that waits for a processor is not idle,
        however long it waits; this process, which plays model and vendor, answers meanwhile."""
        async with asyncio.timeout(_TIMEOUT):
            last, same = self._switches(), 0
            while same < _IDLE_SAMPLES:
                await asyncio.sleep(_SAMPLE_SECONDS)
                found = self._switches()
                same = same + 1 if found is not None and found == last else 0
                last = found

    def _switches(self) -> list[str] | None:
        """How often each thread has waited; None: one of them runs."""
        found = []
        for task in sorted(Path(f"/proc/{self._process.pid}/task").iterdir()):
            with suppress(FileNotFoundError, ProcessLookupError):  # the thread ended just now
                lines = (task / "status").read_text().splitlines()
                state = next(line for line in lines if line.startswith("State:"))
                if not state.split()[1].startswith(("S", "I")):
                    return None
                found += [line for line in lines if "ctxt_switches" in line]
        return found


@asynccontextmanager
async def counting_gateway(folder: Path, **settings: str) -> AsyncIterator[CountingGateway]:
    """A gateway whose home is `folder`; `settings` are its environment."""
    folder.mkdir(mode=0o700, exist_ok=True)
    program = Path(__file__).with_name("counting_gateway.py")
    with (folder / "errors").open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, program, folder, "run", "--port", "0", "--unattended"),
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(folder),
                "KEY": "sk-test",
                "HOLDFAST_HOME": str(folder),
                "HOLDFAST_MODEL_PROVIDER": "openai",
                "HOLDFAST_MODEL_NAME": "scripted",
                "HOLDFAST_MODEL_API_KEY": "env:KEY",
                # The same prompt on every machine, with the browser tool and without a sandbox.
                "HOLDFAST_RUNNER_SANDBOX": "off",
                "HOLDFAST_RUNNER_SANDBOX_OFF_AS_ROOT": "true",
                "HOLDFAST_BROWSER_CHROMIUM": sys.executable,
                **settings,
            },
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
        )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(_TIMEOUT):
            line = await process.stdout.readline()
        assert line, (folder / "errors").read_text()
        yield CountingGateway(folder, process, line.decode().split()[-1])
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


async def wait_for(fact: Callable[[], object], what: str) -> None:
    try:
        async with asyncio.timeout(_TIMEOUT):
            while not fact():
                await asyncio.sleep(_SAMPLE_SECONDS)
    except TimeoutError:
        raise AssertionError(f"no {what} within {_TIMEOUT:g} s") from None


class Measurement(msgspec.Struct, frozen=True):
    """Counts by section, and the statements of one turn of each kind, for the message of a
    failure."""

    counts: Sections
    statements: dict[str, list[str]]


async def measure(directory: Path) -> Measurement:
    """On two gateways at once: one with the API alone, one with an account at a fake Telegram."""
    model = ScriptedModelServer()
    async with model.serving() as url, asyncio.TaskGroup() as tasks:
        api = tasks.create_task(_measure_api(directory / "api", model, url))
        telegram = tasks.create_task(_measure_telegram(directory / "telegram", model, url))
    return _merge(api.result(), telegram.result())


async def _measure_api(folder: Path, model: ScriptedModelServer, url: str) -> Measurement:
    async with (
        counting_gateway(folder, HOLDFAST_MODEL_BASE_URL=url) as gateway,
        aiohttp.ClientSession() as http,
    ):
        # By then, timers of 1 s and 2 s have imported what a start leaves to them. No event tells.
        await asyncio.sleep(_START_SECONDS)
        started = await gateway.report()
        await _ask(http, gateway, "hi")
        first = await gateway.report()
        for text in ("hello", "use a tool"):  # whatever only a first turn does is over
            await _ask(http, gateway, text)
        await gateway.report()
        turns = {}
        for name, text in (("api hello", "hello"), ("api tool call", "use a tool")):
            turns[name] = []
            for _ in range(TURNS):
                await _ask(http, gateway, text)
                turns[name].append(await gateway.report())
    added = set(first.modules) - set(started.modules)
    own, own_added = _own(started.modules), _own(added)
    start: Sections = {
        "exact": {
            "modules of holdfast at start": own,
            "modules of holdfast added by the first message": own_added,
        },
        "near": {
            "other modules at start": len(started.modules) - own,
            "other modules added by the first message": len(added) - own_added,
        },
        "close": {'bytes of the request for "hi"': model.request_sizes["hi"]},
    }
    return _merge(Measurement(start, {}), _turn_counts(turns))


async def _ask(
    http: aiohttp.ClientSession, gateway: CountingGateway, text: str, *, session: str = "one"
) -> None:
    async with http.post(
        f"{gateway.address}/v1/chat/completions",
        json={"model": "any", "messages": [{"role": "user", "content": text}]},
        headers={"Authorization": f"Bearer {gateway.token}", "X-Holdfast-Session": session},
    ) as response:
        assert response.status == 200, await response.text()
        answer = (await response.json())["choices"][0]["message"]["content"]
        assert answer == f"echo: {text}", answer


async def _measure_telegram(folder: Path, model: ScriptedModelServer, url: str) -> Measurement:
    vendor = FakeTelegram(token="sk-test")
    async with (
        FakeBotApi(vendor).serving() as base_url,
        counting_gateway(
            folder,
            HOLDFAST_MODEL_BASE_URL=url,
            HOLDFAST_PLATFORMS_TELEGRAM_TOKEN="env:KEY",
            HOLDFAST_PLATFORMS_TELEGRAM_BASE_URL=base_url,
            HOLDFAST_PLATFORMS_TELEGRAM_ALLOW='["*"]',
        ) as gateway,
    ):
        turns: dict[str, list[CountedTurn]] = {}
        for name, text in (
            ("telegram stream", "stream"),
            ("telegram tool stream", "stream a tool"),
        ):
            turns[name] = []
            for number in range(STREAMED_TURNS + 1):
                await _streamed_turn(vendor, model, gateway, f"{text} {number}")
                turns[name].append(await gateway.report())
    return _turn_counts({name: each[1:] for name, each in turns.items()})  # the first does more


async def _streamed_turn(
    vendor: FakeTelegram, model: ScriptedModelServer, gateway: CountingGateway, text: str
) -> None:
    """The second half of the reply comes when the first is in the chat and recorded: else the
    reply may be sent as a whole."""
    vendor.say(text)
    await wait_for(lambda: "echo:" in vendor.texts()[-1:], "first words in the chat")
    await gateway.wait_until_idle()
    model.go_on()
    await wait_for(lambda: f"echo: {text}" in vendor.texts(), "whole reply in the chat")


async def count_statements(home: Path, *, session: str) -> int:
    """SQL statements of a turn of that API session, for the curves of `bench/growth.py`."""
    async with (
        ScriptedModelServer().serving() as url,
        counting_gateway(
            home, HOLDFAST_MODEL_BASE_URL=url, HOLDFAST_MODEL_CONTEXT_WINDOW="100000000"
        ) as gateway,
        aiohttp.ClientSession() as http,
    ):
        counted = []
        for _ in range(1 + TURNS):
            await _ask(http, gateway, "hello", session=session)
            counted.append(len((await gateway.report()).statements))
    return median_low(counted[1:])


def _own(modules: Iterable[str]) -> int:
    return sum(name.partition(".")[0] == "holdfast" for name in modules)


def _turn_counts(turns: dict[str, list[CountedTurn]]) -> Measurement:
    exact, close, statements = {}, {}, {}
    for name, each in turns.items():
        exact[f"{name}: transactions"] = median_low(turn.transactions for turn in each)
        exact[f"{name}: statements"] = median_low(len(turn.statements) for turn in each)
        exact[f"{name}: objects in reference cycles"] = min(turn.garbage for turn in each)
        close[f"{name}: function calls"] = median_low(turn.call_count for turn in each)
        statements[name] = each[-1].statements
    return Measurement({"exact": exact, "close": close}, statements)


def _merge(one: Measurement, other: Measurement) -> Measurement:
    counts = {
        section: one.counts.get(section, {}) | other.counts.get(section, {})
        for section in TOLERANCES
    }
    return Measurement(counts, one.statements | other.statements)


def expected_counts() -> Sections:
    """Those of the file."""
    return tomllib.loads(FILE.read_text())


def problems(found: Measurement, *, expected: Sections) -> str:
    """What differs from the expected counts, and what to do about it; "": nothing."""
    lines = []
    for section, tolerance in TOLERANCES.items():
        known, measured = expected.get(section, {}), found.counts.get(section, {})
        for name in {**known, **measured}:
            old, new = known.get(name), measured.get(name)
            if old is None:
                lines.append(f"{name}: not in the file, {new} measured")
            elif new is None:
                lines.append(f"{name}: {old} expected, not measured")
            elif abs(new - old) > old * tolerance:
                allowed = f" (within {tolerance:.0%})" if tolerance else ""
                lines.append(f"{name}: {old} expected, {new} measured{allowed}")
    if not lines:
        return ""
    lines.append(
        f"If this is intended, run `{UPDATE_COMMAND}` and commit {FILE.name}. A count that rises"
        " must be stated in the commit message, with the reason."
    )
    for turn, statements in found.statements.items():
        if any(line.startswith(f"{turn}: ") for line in lines):
            lines += ["", f"Statements of a turn, {turn}:", *statements]
    return "\n".join(lines)


def render(found: Measurement) -> str:
    """The text of the file."""
    lines = [f"# What a start and a turn may cost. Written by `{UPDATE_COMMAND}`; tests compare."]
    for section, tolerance in TOLERANCES.items():
        lines += ["", f"[{section}] # within {tolerance:.0%}" if tolerance else f"[{section}]"]
        lines += [f"'{name}' = {count}" for name, count in found.counts[section].items()]
    return "\n".join(lines) + "\n"


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        found = asyncio.run(measure(Path(directory)))
    FILE.write_text(render(found))
    print(render(found), end="")


if __name__ == "__main__":
    main()

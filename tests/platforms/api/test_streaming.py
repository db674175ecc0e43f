"""Tests API streams: keepalive comments, text that only grows, and slow or absent readers."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import aiohttp
import openai
import pytest
from aiohttp import web

from holdfast.core.ids import InboxId, PrincipalId
from holdfast.core.messages.events import (
    MessageEnded,
    ReasoningStreamed,
    StepEnded,
    StreamVoided,
    TextStreamed,
    TurnEvent,
)
from holdfast.core.messages.inbox import Accepted, Inbound, InboxRow, InboxState
from holdfast.core.messages.source import Attachment, Source, build_session_key
from holdfast.core.secrets import Secret
from holdfast.platforms.api.platform import ApiPlatform
from holdfast.platforms.api.responses import AnswerText
from holdfast.store.sqlite.store import SqliteStore

TOKEN = "a-token-of-the-tests"
ONE = InboxId(1)


def ended(text: str, state: InboxState = InboxState.ANSWERED, reason: str = "") -> MessageEnded:
    return MessageEnded(ONE, state, text, reason=reason)


class ScriptedIntake:
    """An intake that plays what the test tells it, and knows who is still watching."""

    def __init__(self) -> None:
        self.events: asyncio.Queue[TurnEvent | None] = asyncio.Queue()
        self.watching = 0

    def play(self, *events: TurnEvent | None) -> None:
        for event in events:
            self.events.put_nowait(event)

    async def accept(self, inbound: Inbound, attached: Sequence[Attachment] = ()) -> Accepted:
        row = InboxRow(
            id=ONE,
            route=build_session_key(inbound.source),
            principal=PrincipalId("owner"),
            inbound=inbound,
            accepted_at=1.0,
        )
        return Accepted(row=row, duplicate=False, route_session=None)

    @asynccontextmanager
    async def watch(self, inbox_id: InboxId) -> AsyncIterator[AsyncIterator[TurnEvent]]:
        self.watching += 1
        try:
            yield self._events()
        finally:
            self.watching -= 1

    def may_talk(self, source: Source) -> bool:
        return True

    async def _events(self) -> AsyncIterator[TurnEvent]:
        while (event := await self.events.get()) is not None:
            yield event


Open = Callable[..., AbstractAsyncContextManager[str]]


@pytest.fixture
def intake() -> ScriptedIntake:
    return ScriptedIntake()


@pytest.fixture
def open_api(intake: ScriptedIntake, tmp_path_factory: pytest.TempPathFactory) -> Open:
    """The API over the stage, listening; `quiet` and `patience` in seconds."""

    @asynccontextmanager
    async def new_gateway(
        *, keepalive_interval: float = 15, write_timeout: float = 15
    ) -> AsyncIterator[str]:
        async with SqliteStore(tmp_path_factory.mktemp("store") / "state.db") as store:
            platform = ApiPlatform(
                Secret(TOKEN),
                reads=store,
                new_id=lambda prefix: f"{prefix}_1",
                keepalive_interval=keepalive_interval,
                write_timeout=write_timeout,
            )
            application = web.Application()
            application.add_routes(platform.routes())
            runner = web.AppRunner(application, shutdown_timeout=0.1)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            try:
                async with platform.connect(intake):
                    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
            finally:
                await runner.cleanup()

    return new_gateway


@asynccontextmanager
async def streamed(address: str) -> AsyncIterator[aiohttp.ClientResponse]:
    body = {"messages": [{"role": "user", "content": "x"}], "stream": True}
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with (
        aiohttp.ClientSession(address, headers=headers) as http,
        http.post("/v1/chat/completions", json=body) as response,
    ):
        yield response


async def test_an_idle_stream_sends_comments(intake: ScriptedIntake, open_api: Open) -> None:
    async with open_api(keepalive_interval=0.05) as address, streamed(address) as response:
        assert response.headers["Content-Type"].startswith("text/event-stream")
        lines: list[bytes] = []
        while lines.count(b": still here\n") < 3:
            lines.append(await response.content.readline())
        intake.play(TextStreamed("at last"), ended("at last"))
        rest = await response.read()
    assert b"at last" in rest and rest.endswith(b"data: [DONE]\n\n")


async def test_the_openai_client_ignores_the_comments(
    intake: ScriptedIntake, open_api: Open
) -> None:
    async with (
        open_api(keepalive_interval=0.02) as address,
        openai.AsyncOpenAI(base_url=f"{address}/v1", api_key=TOKEN) as client,
    ):
        stream = await client.responses.create(model="holdfast", input="x", stream=True)
        asyncio.get_running_loop().call_later(0.2, intake.play, ended("patience"))
        kinds = [event.type async for event in stream]
    assert kinds[-1] == "response.completed"


async def test_a_gateway_that_stops_ends_the_stream_with_an_error(
    intake: ScriptedIntake, open_api: Open
) -> None:
    """Half an answer must not look like a whole one."""
    async with (
        open_api() as address,
        openai.AsyncOpenAI(base_url=f"{address}/v1", api_key=TOKEN, max_retries=0) as client,
    ):
        for api in ("chat", "responses"):
            intake.play(TextStreamed("half an ans"), None)
            with pytest.raises(openai.APIError, match="send it again with X-Holdfast-Message-Id"):
                await _drain(client, api)


async def _drain(client: openai.AsyncOpenAI, api: str) -> None:
    if api == "responses":
        async for _ in await client.responses.create(model="x", input="x", stream=True):
            pass
        return
    async for _ in await client.chat.completions.create(
        model="x", messages=[{"role": "user", "content": "x"}], stream=True
    ):
        pass


async def test_a_disconnected_client_is_no_longer_subscribed(
    intake: ScriptedIntake, open_api: Open
) -> None:
    async with open_api(keepalive_interval=0.02) as address:
        async with streamed(address) as response:
            await response.content.readline()
            assert intake.watching == 1
        intake.play(*[TextStreamed("x" * 1000) for _ in range(50)])
        async with asyncio.timeout(30):
            while intake.watching:
                intake.play(TextStreamed("x" * 1000))
                await asyncio.sleep(0.02)


async def test_a_client_that_reads_nothing_is_disconnected(
    intake: ScriptedIntake, open_api: Open
) -> None:
    async with open_api(keepalive_interval=0.05, write_timeout=0.2) as address:
        port = int(address.rpartition(":")[2])
        body = b'{"messages": [{"role": "user", "content": "x"}], "stream": true}'
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # a stream's is a read one
        writer.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
            + f"Authorization: Bearer {TOKEN}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        intake.play(*[TextStreamed("x" * 1_000_000) for _ in range(30)])
        async with asyncio.timeout(30):
            while intake.watching == 0:
                await asyncio.sleep(0.01)
            while intake.watching:
                await asyncio.sleep(0.01)
        assert not intake.events.empty(), "it was let go in the middle, not served to the end"
        writer.transport.abort()


async def test_a_slow_reader_gets_everything(intake: ScriptedIntake, open_api: Open) -> None:
    text = "".join(f"{n:06d}" for n in range(200_000))
    pieces = [text[at : at + 30_000] for at in range(0, len(text), 30_000)]
    async with open_api(keepalive_interval=0.05, write_timeout=5) as address:
        intake.play(*[TextStreamed(piece) for piece in pieces], ended(text))
        async with streamed(address) as response:
            got: list[bytes] = []
            async for line in response.content:
                if len(got) < 10:
                    await asyncio.sleep(0.05)
                got.append(line)
    found = b"".join(got)
    assert found.count(b'"finish_reason":"stop"') == 1
    assert sum(line.count(b"data: {") for line in got) == len(pieces) + 2


STREAMS: list[tuple[str, Sequence[TurnEvent], str]] = [
    ("the stream alone", [TextStreamed("a "), TextStreamed("b"), ended("a b")], "a b"),
    ("what was not streamed", [ended("all of it")], "all of it"),
    ("the rest", [TextStreamed("half "), ended("half and half")], "half and half"),
    ("thoughts are not told", [ReasoningStreamed("hm"), ended("a")], "a"),
    (
        "a step begins a paragraph",
        [TextStreamed("I look."), StepEnded("I look."), TextStreamed("Found."), ended("Found.")],
        "I look.\n\nFound.",
    ),
    ("a silent step begins none", [StepEnded(""), TextStreamed("a"), ended("a")], "a"),
    (
        "a call that is made again says so",
        [TextStreamed("bro"), StreamVoided("it broke"), TextStreamed("whole"), ended("whole")],
        "bro\n\n[it broke; trying again]\n\nwhole",
    ),
    ("one made again before it spoke does not", [StreamVoided("it broke"), ended("a")], "a"),
    ("another end than streamed", [TextStreamed("yes"), ended("no")], "yes\n\nno"),
    ("nothing", [ended("")], ""),
    ("an empty piece uses no gap up", [StepEnded("x"), TextStreamed(""), ended("a")], "a"),
]


@pytest.mark.parametrize(("name", "events", "expected"), STREAMS, ids=[case[0] for case in STREAMS])
def test_a_streamed_reply_only_ever_grows(
    name: str, events: Sequence[TurnEvent], expected: str
) -> None:
    telling = AnswerText()
    assert "".join(telling.delta(event) for event in events) == expected

"""Time limits of model calls, and calls that end at once when their client is released."""

import asyncio
import gc
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, suppress
from typing import Any

import pytest

from holdfast.core.config.settings import Provider
from holdfast.core.messages.transcript import UserMessage
from holdfast.core.turns.model import Completed, ModelFailed, ModelFault, ModelRequest, TextDelta
from holdfast.models.pool import ModelPool
from holdfast.models.target import CallLimits, ModelTarget
from holdfast.testing.misbehaving_model.process import ModelProcess

Lease = Callable[..., Any]
CollectEvents = Callable[..., Any]
STALLED = "[fault stall] [text " + "x" * 80 + "]"


def ask(text: str) -> ModelRequest:
    return ModelRequest(system="s", messages=(UserMessage(text=text),))


def connections(port: int) -> int:
    """Established connections from this process to the port, as the kernel counts them."""
    remote = f":{port:04X}"
    with open("/proc/net/tcp") as table:
        rows = [line.split() for line in table.readlines()[1:]]
    return sum(row[2].endswith(remote) and row[3] == "01" for row in rows)


async def wait_until_no_connection_is_left(port: int) -> None:
    await wait_for_connections(0, port)


async def wait_for_connections(number: int, port: int) -> None:
    """Those of the test before may still be closing."""
    async with asyncio.timeout(30):
        while connections(port) != number:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("script", "limits", "setting"),
    [
        ("[fault silence]", CallLimits(first_token=0.2), "first_token_timeout"),
        ("[first 30]", CallLimits(first_token=0.2), "first_token_timeout"),
        ("[fault comments]", CallLimits(first_token=0.3), "first_token_timeout"),
        ("[latency 30]", CallLimits(first_token=0.2), "first_token_timeout"),
        ("[fault stall]", CallLimits(between_tokens=0.2), "between_tokens_timeout"),
        ("[delay 0.1] [text " + "x" * 8000 + "]", CallLimits(total=0.5), "whole_timeout"),
        ("[fault silence]", CallLimits(first_token=0, total=0.3), "whole_timeout"),
    ],
)
async def test_each_limit_ends_the_call_and_names_its_setting(
    lease: Lease,
    collect_events: CollectEvents,
    script: str,
    limits: CallLimits,
    setting: str,
    model: ModelProcess,
) -> None:
    began = time.monotonic()
    with pytest.raises(ModelFailed, match=setting) as failed:
        await collect_events(lease(limits=limits), script)
    assert failed.value.fault is ModelFault.TIMEOUT
    assert time.monotonic() - began < 10
    await wait_until_no_connection_is_left(model.port)


async def test_a_connection_that_is_not_accepted_ends_at_its_limit(
    lease: Lease, collect_events: CollectEvents
) -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        address = full.getsockname()
        # The kernel drops what comes after a full queue: the connection hangs, as a firewall's.
        fillers = [socket.socket() for _ in range(3)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(address)
        client = lease(base_url=f"http://127.0.0.1:{address[1]}/v1", limits=CallLimits(connect=0.3))
        with pytest.raises(ModelFailed, match="connect_timeout") as failed:
            await collect_events(client, "hi")
        assert failed.value.fault is ModelFault.TIMEOUT
        for filler in fillers:
            filler.close()


async def test_the_first_token_has_one_limit_for_headers_and_text_together(
    lease: Lease, collect_events: CollectEvents
) -> None:
    client = lease(limits=CallLimits(first_token=1.0))
    with pytest.raises(ModelFailed, match="first_token_timeout"):
        await collect_events(client, "[latency 0.6] [first 0.6]")


async def test_a_stream_may_take_longer_than_the_time_between_two_tokens(
    lease: Lease, collect_events: CollectEvents
) -> None:
    client = lease(limits=CallLimits(between_tokens=1.5))
    events = await collect_events(client, "[delay 0.1] [text " + "x" * 80 + "]")
    assert events[-1].message.text == "x" * 80


async def test_a_slow_consumer_is_not_the_providers_fault(lease: Lease) -> None:
    client = lease(limits=CallLimits(between_tokens=1.0))
    texts = []
    async for event in client.stream(ask("[delay 0.01] [text " + "x" * 80 + "]")):
        if isinstance(event, TextDelta):
            texts.append(event.text)
            if len(texts) == 1:
                await asyncio.sleep(1.3)
    assert "".join(texts) == "x" * 80


async def test_a_complete_reply_is_not_lost_when_the_server_does_not_close_the_stream(
    pool: ModelPool,
) -> None:
    """The finish reason came, and then silence: there is nothing more to wait for."""
    finish = b'data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}\n\n'

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
        writer.write(head + finish)
        await reader.read()  # until the client leaves
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        target = ModelTarget(
            provider=Provider.LOCAL,
            name="m",
            base_url=f"http://127.0.0.1:{port}/v1",
            limits=CallLimits(between_tokens=0.2),
            retries=0,
        )
        events = [event async for event in pool.lease(target).stream(ask("hi"))]
        assert isinstance(events[-1], Completed)
        assert events[-1].message.text == "x"


async def test_a_connection_whose_end_comes_after_the_answers_is_used_again(
    pool: ModelPool,
) -> None:
    answer = (
        b'data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}\n\n'
        b"data: [DONE]\n\n"
    )
    accepted = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.append(writer)
        with suppress(asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r")[0])
                await reader.readexactly(length)
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                    b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (len(answer), answer)
                )
                await writer.drain()
                await asyncio.sleep(0.001)
                writer.write(b"0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        base_url = f"http://127.0.0.1:{port}/v1"
        client = pool.lease(ModelTarget(provider=Provider.LOCAL, name="m", base_url=base_url))
        for _ in range(10):
            assert [event async for event in client.stream(ask("hi"))]
        # The wait for that end is short: if this process is blocked, a new connection is made.
        assert len(accepted) < 5


@pytest.mark.parametrize("script", ["[fault silence]", "[fault stall]"])
async def test_release_ends_a_running_call_for_good(
    lease: Lease,
    collect_events: CollectEvents,
    script: str,
    model: ModelProcess,
    waits: list[float],
) -> None:
    """A10: release_clients gives back the model client, which fails from then on without a
    retry."""
    client = lease(retries=4)
    call = asyncio.create_task(collect_events(client, script))
    async with asyncio.timeout(30):
        while not model.requests()["count"]:
            await asyncio.sleep(0.01)
    client.release()
    client.release()
    with pytest.raises(ModelFailed, match="was cancelled"):
        await call
    assert not call.cancelling()
    assert model.requests()["count"] == 1
    await wait_until_no_connection_is_left(model.port)
    with pytest.raises(ModelFailed):
        await collect_events(client, "hi")
    assert waits == []


async def test_a_user_in_the_address_is_sent_with_the_call(pool: ModelPool) -> None:
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        address = f"http://ann:secret@127.0.0.1:{port}/v1"
        target = ModelTarget(provider=Provider.LOCAL, name="m", base_url=address, retries=0)
        with pytest.raises(ModelFailed):
            await anext(pool.lease(target).stream(ask("hi")))
    assert b"\r\nAuthorization: Basic YW5uOnNlY3JldA==\r\n" in heads[0]


async def wait_for_ever(_: float) -> None:
    await asyncio.Event().wait()


async def test_release_ends_a_call_that_waits_to_be_retried(model: ModelProcess) -> None:
    async with ModelPool(sleep=wait_for_ever) as pool:
        target = ModelTarget(provider=Provider.LOCAL, name="m", base_url="http://127.0.0.1:1/v1")
        client = pool.lease(target)
        stream = client.stream(ask("hi"))
        await anext(stream)
        waiting = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0.02)
        client.release()
        with pytest.raises(ModelFailed, match="was cancelled"):
            await waiting


async def test_release_between_two_events_closes_the_connection_at_once(
    lease: Lease, model: ModelProcess
) -> None:
    client = lease()
    stream = client.stream(ask(STALLED))
    await anext(stream)
    client.release()
    await wait_until_no_connection_is_left(model.port)
    with pytest.raises(ModelFailed):
        await anext(stream)


async def test_closing_the_iterator_early_releases_the_connection(
    lease: Lease, model: ModelProcess
) -> None:
    async with aclosing(lease().stream(ask(STALLED))) as stream:
        await anext(stream)
        await wait_for_connections(1, model.port)
    await wait_until_no_connection_is_left(model.port)


async def test_cancelling_a_call_is_quick_and_leaves_no_connection(
    lease: Lease, collect_events: CollectEvents, model: ModelProcess
) -> None:
    before = asyncio.all_tasks()
    calls = [asyncio.create_task(collect_events(lease(), "[fault silence]")) for _ in range(20)]
    await asyncio.sleep(0.2)
    for call in calls:
        call.cancel()
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes)
    await wait_until_no_connection_is_left(model.port)
    assert asyncio.all_tasks() == before


async def test_calls_share_their_connections(
    lease: Lease, collect_events: CollectEvents, model: ModelProcess
) -> None:
    await wait_until_no_connection_is_left(model.port)
    left = []
    for n in range(10):
        await collect_events(lease(), f"hi {n} [text x]" if n % 2 else f"hi {n}")
        left.append(connections(model.port))
    # One whose end comes late, from a server that was held up, is let go of and made anew.
    assert max(left) == 1 and sum(left) > 5


async def test_leaving_the_pool_ends_every_call_and_connection(model: ModelProcess) -> None:
    async def run(stream: AsyncIterator[Any]) -> list[Any]:
        return [event async for event in stream]

    before = asyncio.all_tasks()
    async with ModelPool() as pool:
        target = ModelTarget(provider=Provider.LOCAL, name="m", base_url=model.base_url, retries=4)
        await run(pool.lease(ModelTarget(provider=Provider.DEMO, name="demo")).stream(ask("hi")))
        calls = [
            asyncio.create_task(run(pool.lease(target).stream(ask("[fault silence]"))))
            for _ in range(5)
        ]
        await asyncio.sleep(0.2)
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(outcome, ModelFailed) for outcome in outcomes)
    assert asyncio.all_tasks() == before
    await wait_until_no_connection_is_left(model.port)


async def test_leaving_the_pool_ends_a_call_that_waits_to_be_retried() -> None:
    async with ModelPool(sleep=wait_for_ever) as pool:
        target = ModelTarget(provider=Provider.LOCAL, name="m", base_url="http://127.0.0.1:1/v1")
        stream = pool.lease(target).stream(ask("hi"))
        await anext(stream)
        waiting = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0.02)
    with pytest.raises(ModelFailed, match="was cancelled"):
        await waiting


async def test_a_hundred_calls_at_once_do_not_wait_for_each_other(
    lease: Lease, collect_events: CollectEvents
) -> None:
    began = time.monotonic()
    await asyncio.gather(*(collect_events(lease(), "[latency 0.5]") for _ in range(100)))
    assert time.monotonic() - began < 20  # one after the other it would be fifty seconds


async def test_a_lease_costs_less_than_six_kilobytes(pool: ModelPool) -> None:
    target = ModelTarget(provider=Provider.LOCAL, name="m", base_url="http://127.0.0.1:1/v1")
    pool.lease(target)
    gc.collect()
    before = sys.getallocatedblocks()
    leases = [pool.lease(target) for _ in range(1000)]
    assert (sys.getallocatedblocks() - before) / len(leases) < 10
    sizes = [sys.getsizeof(lease) + sys.getsizeof(set()) for lease in leases]
    assert max(sizes) < 6 * 1024


async def test_the_demo_needs_no_network_library() -> None:
    program = (
        "import asyncio, sys\n"
        "from holdfast.core.turns.model import ModelRequest\n"
        "from holdfast.core.messages.transcript import UserMessage\n"
        "from holdfast.core.config.settings import ModelSettings, Provider\n"
        "from holdfast.models.pool import ModelPool\n"
        "from holdfast.models.target import make_target\n"
        "async def main():\n"
        "    async with ModelPool() as pool:\n"
        "        demo = ModelSettings(provider=Provider.DEMO)\n"
        "        client = pool.lease(make_target(demo, api_key=None))\n"
        "        request = ModelRequest(system='', messages=(UserMessage(text='hi'),))\n"
        "        print([event async for event in client.stream(request)][-1].message.text)\n"
        "asyncio.run(main())\n"
        "assert 'aiohttp' not in sys.modules\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    assert b"demo model" in out

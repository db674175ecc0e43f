"""Each codec against a real server: llama.cpp with a small model."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from holdfast.core.config.settings import ApiMode, ModelSettings, Provider
from holdfast.core.messages.transcript import AssistantMessage, Message, UserMessage
from holdfast.core.turns.model import (
    Completed,
    ModelEvent,
    ModelFailed,
    ModelFault,
    ModelRequest,
    TextDelta,
    ToolSchema,
)
from holdfast.models.local.server import INSTALL_COMMAND, find_model_file
from holdfast.models.pool import ModelPool
from holdfast.models.target import CallLimits, InvalidTarget, ModelTarget, make_target

pytestmark = pytest.mark.timeout(240)  # a model is slow on a busy machine
LONG_LIMITS = CallLimits(connect=10, first_token=100, between_tokens=100, total=200)


@pytest.fixture(scope="session")
def llama() -> Iterator[str]:
    """The address of the real server, in a process of its own."""
    try:
        file = find_model_file("")
    except InvalidTarget:
        pytest.skip(f"no real model to test against; install it: {INSTALL_COMMAND}")
    command = [sys.executable, "-m", "holdfast.models.local", str(file)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["base_url"]
        process.communicate(timeout=30)


@pytest.fixture
async def real_pool() -> AsyncIterator[ModelPool]:
    async with ModelPool() as pool:
        yield pool


async def events(
    pool: ModelPool, target: ModelTarget, *messages: Message, **rest: int
) -> list[ModelEvent]:
    request = ModelRequest(system="Be brief.", messages=messages, **rest)
    return [event async for event in pool.lease(target).stream(request)]


@pytest.mark.parametrize("mode", list(ApiMode))
async def test_a_real_server_streams_a_reply_and_counts_it(
    real_pool: ModelPool, llama: str, mode: ApiMode
) -> None:
    target = ModelTarget(
        provider=Provider.LOCAL, name="m", api_mode=mode, base_url=llama, limits=LONG_LIMITS
    )
    messages = (
        UserMessage(text="Hello!"),
        AssistantMessage(text="Hello. How are you?"),
        UserMessage(text="Count: one, two, three,"),
    )
    *deltas, last = await events(real_pool, target, *messages, max_output_tokens=6)
    assert isinstance(last, Completed)
    streamed = "".join(event.text for event in deltas if isinstance(event, TextDelta))
    assert last.message.text == streamed
    assert streamed.strip()
    assert last.usage.input_tokens > 10
    assert 0 < last.usage.output_tokens <= 6


@pytest.mark.parametrize("mode", list(ApiMode))
async def test_an_error_of_a_real_server_is_classified(
    real_pool: ModelPool, llama: str, mode: ApiMode
) -> None:
    target = ModelTarget(
        provider=Provider.LOCAL,
        name="m",
        api_mode=mode,
        base_url=llama,
        limits=LONG_LIMITS,
        retries=0,
    )
    with pytest.raises(ModelFailed) as failed:
        await events(real_pool, target, UserMessage(text="word " * 9000), max_output_tokens=1)
    assert failed.value.fault is ModelFault.CONTEXT_TOO_LONG


def local_model_processes() -> set[int]:
    """The local models that this process has started."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            command = (entry / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if parent == os.getpid() and b"holdfast.models.local" in command:
            found.add(int(entry.name))
    return found


async def test_provider_local_without_an_address_starts_its_own_and_ends_it(llama: str) -> None:
    settings = ModelSettings(provider=Provider.LOCAL, first_token_timeout=100, whole_timeout=200)
    target = make_target(settings, api_key=None)
    tools = (ToolSchema(name="t", description="", parameters={"type": "object"}),)
    hi = ModelRequest(system="", messages=(UserMessage(text="Hi"),), tools=tools)
    before = local_model_processes()
    async with ModelPool() as pool:
        client = pool.lease(target)
        assert local_model_processes() == before  # not before it is needed
        seen = []
        for _ in range(2):
            async with aclosing(client.stream(hi)) as stream:
                async for event in stream:
                    if isinstance(event, TextDelta):
                        break
            (pid,) = local_model_processes() - before
            seen.append(pid)
            os.kill(pid, signal.SIGKILL)
            while pid in local_model_processes():
                await asyncio.sleep(0.01)
        assert seen[0] != seen[1]
        async with aclosing(client.stream(hi)) as stream:
            await anext(stream)
    assert local_model_processes() == before


async def test_a_start_that_is_cancelled_leaves_no_server(llama: str) -> None:
    before = local_model_processes()
    async with ModelPool() as pool:
        client = pool.lease(make_target(ModelSettings(provider=Provider.LOCAL), api_key=None))
        asked = ModelRequest(system="", messages=(UserMessage(text="Hi"),))
        call = asyncio.ensure_future(anext(client.stream(asked)))
        while local_model_processes() == before:
            await asyncio.sleep(0.01)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert local_model_processes() == before

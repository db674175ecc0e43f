"""A session without an agent is only rows: what was visited once holds no memory."""

import asyncio
import gc
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from tests.support.gateway_harness import GatewayHarness

from holdfast.core.config.settings import CacheSettings
from holdfast.core.messages.source import ChatType, Source, build_session_key
from holdfast.core.ports.store_queries import GetSearchStatus

CACHED, VISITED = 4, 800
ENCODED_PARTS = 1024  # of routes, which are kept for those that are used most


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[GatewayHarness]:
    harness = GatewayHarness(tmp_path / "state.db")
    harness.settings = msgspec.structs.replace(
        harness.settings, cache=CacheSettings(max_agents=CACHED)
    )
    await harness.start()
    yield harness
    await harness.stop()


async def visit(harness: GatewayHarness, sessions: range) -> int:
    """One turn in each of these sessions; the blocks of memory that Python holds after it."""
    for number in sessions:
        harness.model.say("hello")
        accepted = await harness.accept("hi", chat=f"c{number}")
        assert (await harness.end_of(accepted)).text == "hello"
    await harness.gateway.lanes.wait_until_idle()
    while (await harness.store.read(GetSearchStatus())).behind:
        await asyncio.sleep(0.01)
    harness.model.requests.clear()
    for number in range(2 * ENCODED_PARTS):
        build_session_key(
            Source(platform="api", chat_id=f"x{number}", user_id="u", chat_type=ChatType.DM)
        )
    gc.collect()
    return sys.getallocatedblocks()


async def test_sessions_without_an_agent_hold_no_memory(harness: GatewayHarness) -> None:
    """A6: memory depends on the agents in the cache, and not on the sessions that were visited
    since: neither on new ones nor on those that come back (bench/README.md)."""
    full = await visit(harness, range(200))
    new = await visit(harness, range(200, 200 + VISITED))
    back = await visit(harness, range(VISITED))
    # An object that is kept for each session is two blocks or more; threads in the background may
    # hold some hundreds at this moment.
    assert new - full < VISITED
    assert back - new < VISITED

"""Snapshots of the event loop: the newest one is served."""

import asyncio

from holdfast.core.ops.status import GatewaySnapshot
from holdfast.server.status.thread import SnapshotCache
from holdfast.system.clock import SystemClock

OLDER, NEWER = GatewaySnapshot(state="starting"), GatewaySnapshot(state="running")


async def test_an_older_snapshot_does_not_replace_a_newer_one() -> None:
    """A phase that begins while the status is read is the one that is served."""
    loop = asyncio.get_running_loop()
    word = SnapshotCache(clock=SystemClock(), timeout=30)

    async def fresh() -> GatewaySnapshot:
        loop.call_soon(word.publish, NEWER)
        return OLDER

    word.attach_loop(loop, fresh)
    await asyncio.to_thread(lambda: word.wait_for_answer(word.request_fresh()))
    assert word.latest()[0] is NEWER

"""The event loop's last word about itself: a newer one stands."""

import asyncio

from holdfast.core.ops.status import GatewaySnapshot
from holdfast.server.status.thread import SnapshotCache
from holdfast.system.clock import SystemClock

OLDER, NEWER = GatewaySnapshot(state="starting"), GatewaySnapshot(state="running")


async def test_an_answer_takes_back_nothing_that_was_said_after_it_was_known() -> None:
    """A phase that begins as the status is read is what is served then."""
    loop = asyncio.get_running_loop()
    word = SnapshotCache(clock=SystemClock(), timeout=30)

    async def fresh() -> GatewaySnapshot:
        loop.call_soon(word.publish, NEWER)
        return OLDER

    word.attach_loop(loop, fresh)
    await asyncio.to_thread(lambda: word.wait_for_answer(word.request_fresh()))
    assert word.latest()[0] is NEWER

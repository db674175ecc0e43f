"""The event loop's last word about itself: a newer one stands."""

import asyncio

from holdfast.core.ops.facts import Snapshot
from holdfast.server.status.last_word import LastWord
from holdfast.system.clock import SystemClock

OLDER, NEWER = Snapshot(state="starting"), Snapshot(state="running")


async def test_an_answer_takes_back_nothing_that_was_said_after_it_was_known() -> None:
    """A phase that begins as the status is read is what is served then."""
    loop = asyncio.get_running_loop()
    word = LastWord(clock=SystemClock(), within=30)

    async def fresh() -> Snapshot:
        loop.call_soon(word.say, NEWER)
        return OLDER

    word.listen(loop, fresh)
    await asyncio.to_thread(lambda: word.wait(word.ask()))
    assert word.now()[0] is NEWER

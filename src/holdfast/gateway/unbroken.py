"""Waiting for a write that goes on whoever waits for it."""

import asyncio
from typing import TypeVar

T = TypeVar("T")


async def wait_uncancelled(future: asyncio.Future[T]) -> T:
    """What the future gives. To cancel this ends the wait, and nothing of what is waited for.

    `asyncio.shield` promises the same, by way of a callback more, which every message would pay
    for three times. Whoever uses this has a callback of its own at the future, so that no error
    of it is ever lost.
    """
    if not future.done():
        waiter: asyncio.Future[None] = future.get_loop().create_future()

        def wake(_: asyncio.Future[T]) -> None:
            if not waiter.done():  # else nobody waits any more
                waiter.set_result(None)

        future.add_done_callback(wake)
        await waiter
    return future.result()

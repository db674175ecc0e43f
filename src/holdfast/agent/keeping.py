"""Keeping a step: a disk that takes nothing for a while is waited for, and fails no turn."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from holdfast.core.errors import TransientStoreError
from holdfast.core.ids import SessionId

log = logging.getLogger(__name__)

FIRST_RETRY_DELAY, MAX_RETRY_DELAY = 0.5, 10.0  # seconds before a store that failed is asked again


async def write_with_retry(write: Callable[[], Awaitable[None]], session_id: SessionId) -> None:
    """Returns once what `write` writes is durable; it is called anew for each try.

    What was said and done so far is in the log, and what is being written is in memory: a turn
    that waits here has lost nothing, and one that failed would have to be asked for again. Raises
    `StoreError` where waiting does not help, and whatever `write` raises of a turn that somebody
    has ended meanwhile.
    """
    wait = FIRST_RETRY_DELAY
    while True:
        try:
            await write()
        except TransientStoreError as error:
            log.error(
                "A step of session %s waits for the store: %s",
                session_id,
                error,
                extra={"action": "step_waiting_for_store", "session": session_id},
            )
        else:
            return
        await asyncio.sleep(wait)
        wait = min(wait * 2, MAX_RETRY_DELAY)

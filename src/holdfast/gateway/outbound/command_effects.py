"""Commits the effect of a chat command."""

import asyncio
import logging
from collections.abc import Callable

from holdfast.core.errors import StoreError
from holdfast.core.ports.command import Committed, WriteFailed
from holdfast.core.ports.store import StoreWriter
from holdfast.core.retry import COMMAND_RETRY, MAX_COMMAND_RETRIES
from holdfast.core.sessions.session import CommandEffect, CommandOutcome

log = logging.getLogger(__name__)

OnCommitted = Callable[[CommandOutcome], None]


class CommandEffects:
    """Owns the in-memory effect of each command, applied at its commit, before any other subscriber
    and before the next message is routed. Otherwise a chat that a command has moved to another
    session would get its next message in the old one."""

    def __init__(self, writes: StoreWriter) -> None:
        self._writes = writes
        self._on_committed: dict[int, OnCommitted] = {}  # by the identity of the effect

    async def commit(
        self,
        effect: CommandEffect,
        *,
        retries: int = MAX_COMMAND_RETRIES,
        on_committed: OnCommitted | None = None,
    ) -> CommandOutcome:
        """Commit what a command decided, with retries: a full or busy disk often recovers a moment
        later. The commit calls `on_committed`, even if the caller was cancelled meanwhile.

        Raises `StoreError` if every attempt failed; then nothing has been changed.
        """
        for failures in range(retries):
            try:
                return await self._commit_once(effect, on_committed)
            except StoreError as error:
                wait = COMMAND_RETRY.wait(failures)
                log.error(
                    "Could not commit the effect of a command: %s; retrying in %s s",
                    error,
                    wait,
                    extra={"action": "command_waiting_for_store"},
                )
                await asyncio.sleep(wait)
        return await self._commit_once(effect, on_committed)

    async def _commit_once(
        self, effect: CommandEffect, on_committed: OnCommitted | None
    ) -> CommandOutcome:
        if on_committed is not None:
            self._on_committed[id(effect)] = on_committed
        return await self._writes.write(effect)

    def on_committed(self, event: Committed) -> None:
        if (callback := self._on_committed.pop(id(event.command), None)) is not None:
            callback(event.result)

    def on_failed(self, event: WriteFailed) -> None:
        self._on_committed.pop(id(event.command), None)

"""Receipts: who waits to hear what became of a message, by the id that it went with."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holdfast.core.errors import ConnectError, OutcomeUnknown, SendError, SendRejected, Throttled
from holdfast.platforms.xmpp.rooms import NOT_IN_ROOM_ERRORS
from holdfast.platforms.xmpp.stanza import StanzaError

_DEFAULT_RETRY_AFTER = 5.0  # seconds, where a server says "later" and never how much


class NotInRoom(SendRejected):
    """The room does not know us, though we were in it."""


class XmppReceipts:
    """Owns who waits. A room answers with what was said to it, and a server with an ack: each is a
    receipt only for what it is asked for."""

    def __init__(self, *, timeout: float) -> None:
        self._timeout = timeout  # seconds within which a receipt comes
        self._waiting: dict[tuple[str, str], asyncio.Future[None]] = {}

    @asynccontextmanager
    async def wait_for(self, message_id: str, *, room: str = "") -> AsyncIterator[None]:
        """Around the sending: returns when there is a receipt. Raises a `SendError`."""
        key = room, message_id
        waiting = self._waiting[key] = asyncio.get_running_loop().create_future()
        try:
            yield
            async with asyncio.timeout(self._timeout):
                await waiting
        except TimeoutError as error:
            raise OutcomeUnknown(f"no receipt came within {self._timeout:.0f} s") from error
        finally:
            del self._waiting[key]
            if not waiting.cancel() and not waiting.cancelled():
                waiting.exception()  # also where nobody came to hear of it

    def acknowledged(self, message_id: str) -> None:
        """By the server."""
        self._settle(("", message_id), None)

    def reflected(self, message_id: str, *, room: str) -> None:
        """By a room, to everybody in it."""
        self._settle((room, message_id), None)

    def rejected(self, message_id: str, stanza_error: StanzaError, *, by: str) -> None:
        error = _to_send_error(stanza_error, by)
        self._settle(("", message_id), error)
        self._settle((by, message_id), error)

    def connection_lost(self, reason: ConnectError) -> None:
        """The line is gone: no receipt comes any more."""
        for waiting in self._waiting.values():
            if not waiting.done():
                error = OutcomeUnknown(f"the line broke before there was a receipt: {reason}")
                waiting.set_exception(error)

    def _settle(self, key: tuple[str, str], error: SendError | None) -> None:
        waiting = self._waiting.get(key)
        if waiting is None or waiting.done():
            return
        if error is None:
            waiting.set_result(None)
        else:
            waiting.set_exception(error)


def _to_send_error(stanza_error: StanzaError, by: str) -> SendError:
    told = f"{by} did not take the message: {stanza_error.description}"
    if stanza_error.kind == "wait":
        return Throttled(told, retry_after=_DEFAULT_RETRY_AFTER)
    return NotInRoom(told) if stanza_error.condition in NOT_IN_ROOM_ERRORS else SendRejected(told)

"""The socket: envelopes come over it one by one, and each is acknowledged once it is durable.

The vendor's own client takes every envelope in a task of its own and mends its line unseen; here
what was said first is accepted first, and a line that breaks is told to whoever mends lines.
https://docs.slack.dev/apis/events-api/using-socket-mode
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

import aiohttp
import msgspec

from holdfast.core.deep_json import decode
from holdfast.core.errors import (
    ConnectRefused,
    IntakeClosed,
    LineLost,
    NotConnected,
    StoreError,
)
from holdfast.core.secret import Secret
from holdfast.platforms.pauses import growing
from holdfast.platforms.slack.api import WebApi
from holdfast.platforms.slack.taking import Kind, Taking
from holdfast.platforms.slack.wire import Frame, Url

log = logging.getLogger(__name__)

PING = 15.0  # seconds between two signs of life that are asked for
_HELLO = 10.0  # seconds for the first word of a socket
_WAITING = 1000  # envelopes that are read and not taken: more stay with Slack
_GOODBYE = 1.0  # seconds that are waited for an answer to it: a half-open line gives none
_SWITCHED_OFF = "link_disabled"
_REPLACED = frozenset({"warning", "refresh_requested"})
_FRAMES = {aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.PING, aiohttp.WSMsgType.PONG}


class Socket:
    """Owns the open socket, and the envelopes that wait to be taken: events in their order, and
    commands and presses beside them, for Slack gives up on those after three seconds."""

    def __init__(
        self, api: WebApi, app_token: Secret, *, alive: Callable[[], None], ping: float = PING
    ) -> None:
        self._api = api
        self._app_token = app_token
        self._alive = alive
        self._ping = ping
        self._line: aiohttp.ClientWebSocketResponse | None = None
        self._events: asyncio.Queue[Frame] = asyncio.Queue(_WAITING)
        self._orders: asyncio.Queue[Frame] = asyncio.Queue(_WAITING)

    async def open(self) -> None:
        """Returns once Slack has said hello."""
        address = await self._api.ask_with(self._app_token, "apps.connections.open", Url)
        try:
            self._line = await self._api.line.ws_connect(
                address.url,
                autoping=False,
                timeout=aiohttp.ClientWSTimeout(ws_close=_GOODBYE),
            )
            async with asyncio.timeout(_HELLO):
                hello = await self._frame(self._line)
        except aiohttp.WSServerHandshakeError as error:  # its text has the ticket in it
            raise NotConnected(f"the socket of Slack did not open: {error.status}") from None
        except (aiohttp.ClientError, TimeoutError) as error:
            reason = str(error) or type(error).__name__
            raise NotConnected(f"the socket of Slack did not open: {reason}") from error
        if hello is None or hello.type != "hello":
            raise NotConnected("the socket of Slack did not say hello")
        if hello.num_connections > 1:
            log.warning(
                "This app has %d sockets open, and Slack brings each event to one of them: another "
                "gateway with the same app token gets what then never comes here.",
                hello.num_connections,
                extra={"action": "socket_shared"},
            )

    async def listen(self) -> None:
        """Until the line breaks, which is raised: `LineLost`, `NotConnected`, or `ConnectRefused`.
        Slack replaces a socket every few hours and says so before: then the next one is opened."""
        while (reason := await self._heard_out()) in _REPLACED:
            log.info("Slack replaces the socket (%s).", reason, extra={"action": "socket"})
            await self.close()
            await self.open()
        if reason != _SWITCHED_OFF:
            raise LineLost(f"Slack has ended the socket: {reason}")
        raise ConnectRefused(
            "Socket Mode was switched off for this app",
            remedy="switch it on under Settings > Socket Mode at https://api.slack.com/apps",
        )

    async def take_events(self, taking: Taking) -> None:
        """What was said, in its order, until cancelled."""
        await self._take_all(self._events, taking)

    async def take_orders(self, taking: Taking) -> None:
        """Commands and presses: a /stop waits neither for a file nor for the disk of another's."""
        await self._take_all(self._orders, taking)

    async def ask_for_life(self) -> None:
        """Until cancelled. What answers is told to be alive as it is heard; what does not falls
        silent, which is noticed by whoever watches lines."""
        while True:
            await asyncio.sleep(self._ping)
            if self._line is not None:
                with suppress(aiohttp.ClientError, ConnectionError):
                    await self._line.ping()

    async def close(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            await line.close()

    async def _take_all(self, waiting: asyncio.Queue[Frame], taking: Taking) -> None:
        while True:
            frame = await waiting.get()
            shown = await self._taken(frame, taking)
            if shown is not None:
                await self._acknowledge(frame, shown)

    async def _heard_out(self) -> str:
        """Why Slack wants another socket opened. Raises `LineLost`."""
        assert self._line is not None, "it was opened"
        while True:
            frame = await self._frame(self._line)
            if frame is None:
                raise LineLost("Slack has closed the socket")
            if frame.type == "disconnect":
                return frame.reason
            if frame.envelope_id:
                waiting = self._events if frame.type == Kind.EVENT else self._orders
                await waiting.put(frame)

    async def _frame(self, line: aiohttp.ClientWebSocketResponse) -> Frame | None:
        """The next that says something; None: there will be none."""
        while True:
            heard = await line.receive()
            if heard.type not in _FRAMES:
                return None
            self._alive()
            if heard.type is aiohttp.WSMsgType.PING:
                with suppress(aiohttp.ClientError, ConnectionError):
                    await line.pong(heard.data)
            elif heard.type is aiohttp.WSMsgType.TEXT:
                try:
                    return decode(heard.data, type=Frame)
                except msgspec.MsgspecError as error:
                    log.warning("Slack said nonsense: %s", error, extra={"action": "event_unread"})

    async def _taken(self, frame: Frame, taking: Taking) -> str | None:
        """Once it is durable: what follows waits behind it, as it was said behind it. None: it
        was a press or a command, which Slack calls failed after three seconds and brings once."""
        for pause in growing():
            try:
                return await taking.take(frame.type, frame.payload)
            except (StoreError, IntakeClosed, NotConnected) as error:
                log.warning(
                    "What Slack brought (%s) is not taken: %s",
                    frame.type,
                    error,
                    extra={"action": "feed_paused"},
                )
                if frame.type != Kind.EVENT:
                    return None
                await asyncio.sleep(pause)
        raise AssertionError("the pauses have no end")

    async def _acknowledge(self, frame: Frame, shown: str) -> None:
        """Over the socket that is there by now. One that cannot be written to is not missed: what
        is not acknowledged comes again, and counts once."""
        answer: dict[str, object] = {"envelope_id": frame.envelope_id}
        if shown:
            answer["payload"] = {"text": shown}
        if self._line is not None:
            with suppress(aiohttp.ClientError, ConnectionError):
                await self._line.send_str(msgspec.json.encode(answer).decode())

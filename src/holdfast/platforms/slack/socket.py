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

from holdfast.core.deep_json import decode_json
from holdfast.core.errors import (
    AccountDisconnected,
    ConnectRefused,
    IntakeClosed,
    NotConnected,
    StoreError,
)
from holdfast.core.secret import Secret
from holdfast.platforms.pauses import backoff_delays
from holdfast.platforms.slack.api import SlackClient
from holdfast.platforms.slack.taking import EnvelopeType, SlackReceiver
from holdfast.platforms.slack.wire import SocketFrame, SocketUrl

log = logging.getLogger(__name__)

PING_INTERVAL = 15.0  # seconds between two signs of life that are asked for
_HELLO_TIMEOUT = 10.0  # seconds for the first word of a socket
_MAX_QUEUED = 1000  # envelopes that are read and not taken: more stay with Slack
_CLOSE_TIMEOUT = 1.0  # seconds that are waited for an answer to it: a half-open line gives none
_DISABLED_REASON = "link_disabled"
_REFRESH_REASONS = frozenset({"warning", "refresh_requested"})
_FRAME_TYPES = {aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.PING, aiohttp.WSMsgType.PONG}


class SocketModeConnection:
    """Owns the open socket, and the envelopes that wait to be taken: events in their order, and
    commands and presses beside them, for Slack gives up on those after three seconds."""

    def __init__(
        self,
        client: SlackClient,
        app_token: Secret,
        *,
        on_activity: Callable[[], None],
        ping_interval: float = PING_INTERVAL,
    ) -> None:
        self._client = client
        self._app_token = app_token
        self._on_activity = on_activity
        self._ping_interval = ping_interval
        self._websocket: aiohttp.ClientWebSocketResponse | None = None
        self._events: asyncio.Queue[SocketFrame] = asyncio.Queue(_MAX_QUEUED)
        self._interactions: asyncio.Queue[SocketFrame] = asyncio.Queue(_MAX_QUEUED)

    async def open(self) -> None:
        """Returns once Slack has said hello."""
        address = await self._client.call_with_token(
            self._app_token, "apps.connections.open", SocketUrl
        )
        try:
            self._websocket = await self._client.http_session.ws_connect(
                address.url,
                autoping=False,
                timeout=aiohttp.ClientWSTimeout(ws_close=_CLOSE_TIMEOUT),
            )
            async with asyncio.timeout(_HELLO_TIMEOUT):
                hello = await self._next_frame(self._websocket)
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
        """Until the line breaks, which is raised: `AccountDisconnected`, `NotConnected`, or `ConnectRefused`.
        Slack replaces a socket every few hours and says so before: then the next one is opened."""
        while (reason := await self._read_until_disconnect()) in _REFRESH_REASONS:
            log.info("Slack replaces the socket (%s).", reason, extra={"action": "socket_replaced"})
            await self.close()
            await self.open()
        if reason != _DISABLED_REASON:
            raise AccountDisconnected(f"Slack has ended the socket: {reason}")
        raise ConnectRefused(
            "Socket Mode was switched off for this app",
            remedy="switch it on under Settings > Socket Mode at https://api.slack.com/apps",
        )

    async def process_events(self, receiver: SlackReceiver) -> None:
        """What was said, in its order, until cancelled."""
        await self._process(self._events, receiver)

    async def process_interactions(self, receiver: SlackReceiver) -> None:
        """Commands and presses: a /stop waits neither for a file nor for the disk of another's."""
        await self._process(self._interactions, receiver)

    async def send_pings(self) -> None:
        """Until cancelled. What answers is told to be alive as it is heard; what does not falls
        silent, which is noticed by whoever watches lines."""
        while True:
            await asyncio.sleep(self._ping_interval)
            if self._websocket is not None:
                with suppress(aiohttp.ClientError, ConnectionError):
                    await self._websocket.ping()

    async def close(self) -> None:
        line, self._websocket = self._websocket, None
        if line is not None:
            await line.close()

    async def _process(self, queue: asyncio.Queue[SocketFrame], receiver: SlackReceiver) -> None:
        while True:
            frame = await queue.get()
            shown = await self._handle(frame, receiver)
            if shown is not None:
                await self._acknowledge(frame, shown)

    async def _read_until_disconnect(self) -> str:
        """Why Slack wants another socket opened. Raises `AccountDisconnected`."""
        assert self._websocket is not None, "it was opened"
        while True:
            frame = await self._next_frame(self._websocket)
            if frame is None:
                raise AccountDisconnected("Slack has closed the socket")
            if frame.type == "disconnect":
                return frame.reason
            if frame.envelope_id:
                waiting = self._events if frame.type == EnvelopeType.EVENT else self._interactions
                await waiting.put(frame)

    async def _next_frame(self, websocket: aiohttp.ClientWebSocketResponse) -> SocketFrame | None:
        """The next that says something; None: there will be none."""
        while True:
            heard = await websocket.receive()
            if heard.type not in _FRAME_TYPES:
                return None
            self._on_activity()
            if heard.type is aiohttp.WSMsgType.PING:
                with suppress(aiohttp.ClientError, ConnectionError):
                    await websocket.pong(heard.data)
            elif heard.type is aiohttp.WSMsgType.TEXT:
                try:
                    return decode_json(heard.data, type=SocketFrame)
                except msgspec.MsgspecError as error:
                    log.warning("Slack said nonsense: %s", error, extra={"action": "event_invalid"})

    async def _handle(self, frame: SocketFrame, receiver: SlackReceiver) -> str | None:
        """Once it is durable: what follows waits behind it, as it was said behind it. None: it
        was a press or a command, which Slack calls failed after three seconds and brings once."""
        for pause in backoff_delays():
            try:
                return await receiver.handle(frame.type, frame.payload)
            except (StoreError, IntakeClosed, NotConnected) as error:
                log.warning(
                    "What Slack brought (%s) is not taken: %s",
                    frame.type,
                    error,
                    extra={"action": "receiver_retrying"},
                )
                if frame.type != EnvelopeType.EVENT:
                    return None
                await asyncio.sleep(pause)
        raise AssertionError("the pauses have no end")

    async def _acknowledge(self, frame: SocketFrame, reply_text: str) -> None:
        """Over the socket that is there by now. One that cannot be written to is not missed: what
        is not acknowledged comes again, and counts once."""
        answer: dict[str, object] = {"envelope_id": frame.envelope_id}
        if reply_text:
            answer["payload"] = {"text": reply_text}
        if self._websocket is not None:
            with suppress(aiohttp.ClientError, ConnectionError):
                await self._websocket.send_str(msgspec.json.encode(answer).decode())

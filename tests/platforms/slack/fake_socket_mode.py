"""Socket Mode of the fake Slack: envelopes are sent until they are acknowledged."""

import asyncio
from contextlib import suppress

from aiohttp import WSMsgType, web
from tests.platforms.slack.fake import FakeSlack, Json, written


class FakeSocketMode:
    """Owns the open ones. https://docs.slack.dev/apis/events-api/using-socket-mode"""

    def __init__(self, vendor: FakeSlack) -> None:
        self._vendor = vendor
        self._open: list[web.WebSocketResponse] = []
        self.half_open = False  # True: it looks whole, and nothing is answered
        self.pings = 0

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(autoping=False)
        await socket.prepare(request)
        self._open.append(socket)
        self._vendor.sockets += 1
        await socket.send_json(self._hello())
        bringing = asyncio.create_task(self._bring(socket))
        try:
            await self._receive(socket)
        finally:
            self._open.remove(socket)
            bringing.cancel()
            with suppress(asyncio.CancelledError, ConnectionError):
                await bringing
        return socket

    def _hello(self) -> Json:
        """#connect: "type": "hello", with the number of connections that the app has open."""
        return {
            "type": "hello",
            "num_connections": len(self._open),
            "debug_info": {"host": "applink-1", "approximate_connection_time": 18060},
            "connection_info": {"app_id": "A0APP"},
        }

    async def _receive(self, socket: web.WebSocketResponse) -> None:
        async for frame in socket:
            if frame.type is WSMsgType.PING:
                self.pings += 1
                if not self.half_open:
                    await socket.pong(frame.data)
            elif frame.type is WSMsgType.TEXT:
                # #acknowledge: "send a response that contains the same envelope_id".
                self._vendor.acknowledge(frame.json())

    async def _bring(self, socket: web.WebSocketResponse) -> None:
        """Each envelope once over a socket. What was not acknowledged over another comes again,
        with its `retry_attempt` (https://docs.slack.dev/apis/events-api#retries)."""
        brought: set[str] = set()
        while True:
            self._vendor.changed.clear()
            for envelope in list(self._vendor.waiting):
                if envelope["envelope_id"] not in brought:
                    brought.add(envelope["envelope_id"])
                    await socket.send_str(written(envelope))
                    envelope["retry_attempt"] = envelope.get("retry_attempt", -1) + 1
            await self._vendor.changed.wait()

    async def disconnect(self, reason: str) -> None:
        """#disconnect: `warning`, `refresh_requested`, or `link_disabled` where the feature was
        switched off."""
        for socket in list(self._open):
            await socket.send_json({"type": "disconnect", "reason": reason})

    async def close(self) -> None:
        for socket in list(self._open):
            await socket.close()

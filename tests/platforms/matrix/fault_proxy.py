"""A proxy in front of the homeserver that makes faults and counts acknowledged messages."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import Enum
from typing import Any

import aiohttp
from aiohttp import web
from yarl import URL

_HOP = frozenset({"connection", "transfer-encoding", "content-encoding", "content-length", "date"})

# What Synapse answers to a token that was revoked.
_UNKNOWN_TOKEN = {"errcode": "M_UNKNOWN_TOKEN", "error": "Invalid access token passed."}


class MatrixFault(Enum):
    """What becomes of the next event that is sent."""

    # Answers that Synapse itself gives: rc_message, and a room that one may not write in.
    FLOOD = (429, {"errcode": "M_LIMIT_EXCEEDED", "error": "Too much", "retry_after_ms": 7000})
    FORBIDDEN = (403, {"errcode": "M_FORBIDDEN", "error": "User not in room"})
    RESET_AFTER = (0, {})  # it is accepted, and the connection is reset


class MatrixFaultProxy:
    """Owns a listener in front of `server` and its faults."""

    def __init__(self, server: str) -> None:
        self._server = server
        self.base_url = ""
        self.faults: list[MatrixFault] = []
        self.is_silent = False
        self.refuses_connections = False
        self.rejects_token = False
        self.reject_token_after: int | None = None  # requests with a token
        # What is answered to requests whose paths end so, instead of the homeserver's answers.
        self.answers: dict[str, tuple[int, dict[str, str]]] = {}
        self.asked: list[str] = []  # the paths of all requests
        self.keys_late = False  # messages between devices are delayed
        self._delayed: list[Any] = []
        self._transports: set[asyncio.Transport] = set()
        self._unacknowledged: dict[
            str, set[str]
        ] = {}  # message names, by the sync token that acknowledges them
        self._acknowledged: set[str] = set()

    @asynccontextmanager
    async def open(self) -> AsyncIterator["MatrixFaultProxy"]:
        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{path:.*}", self._pass)
        runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True
        )
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.base_url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        async with aiohttp.ClientSession(auto_decompress=False) as self._http:
            try:
                yield self
            finally:
                self.disconnect()
                await runner.cleanup()

    def disconnect(self) -> None:
        """Reset every open connection."""
        for line in list(self._transports):
            line.abort()

    def restore(self) -> None:
        if self.is_silent:
            self.disconnect()
        self.refuses_connections = self.is_silent = self.rejects_token = False
        self.reject_token_after = None
        self.faults.clear()

    def acknowledged(self, *, but: str) -> int:
        """Messages of other users that the client has acknowledged by its sync tokens."""
        return len({name for name in self._acknowledged if not name.endswith(f" {but}")})

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        self._transports.add(request.transport)
        if self.refuses_connections:
            request.transport.abort()
        while self.is_silent:
            await asyncio.sleep(3600)
        self._acknowledged |= self._unacknowledged.get(request.query.get("since", ""), set())
        fault = self._fault_of(request)
        self.asked.append(request.path)
        for end, (status, body) in self.answers.items():
            if request.path.endswith(end):
                return web.json_response(body, status=status)
        if self._rejects(request):
            return web.json_response(_UNKNOWN_TOKEN, status=401)
        if fault in (MatrixFault.FLOOD, MatrixFault.FORBIDDEN):
            return web.json_response(fault.value[1], status=fault.value[0])
        response = await self._forwarded(request)
        if fault is MatrixFault.RESET_AFTER:
            request.transport.abort()
        while self.is_silent:
            await asyncio.sleep(3600)
        return response

    def _rejects(self, request: web.Request) -> bool:
        if self.reject_token_after is not None and "Authorization" in request.headers:
            if self.reject_token_after == 0:
                self.rejects_token = True
            else:
                self.reject_token_after -= 1
        return self.rejects_token

    def _fault_of(self, request: web.Request) -> MatrixFault | None:
        sends = request.method == "PUT" and "/send/" in request.path
        return self.faults.pop(0) if sends and self.faults else None

    async def _forwarded(self, request: web.Request) -> web.Response:
        headers = {name: value for name, value in request.headers.items() if name != "Host"}
        url = self._server + request.raw_path
        data = await request.read()
        async with self._http.request(
            request.method, URL(url, encoded=True), data=data, headers=headers
        ) as answer:
            body = await answer.read()
            if request.path.endswith("/sync"):
                sync = json.loads(body)
                self._remember(sync)
                body = self._with_device_messages(sync, request.query.get("since"))
            forwarded_headers = {k: v for k, v in answer.headers.items() if k.lower() not in _HOP}
            return web.Response(status=answer.status, body=body, headers=forwarded_headers)

    def _with_device_messages(self, sync: dict[str, Any], since: str | None) -> bytes:
        """The sync with device messages, now or later: between servers they are often late. They
        are never added without a new token."""
        self._delayed += sync.pop("to_device", {}).get("events", [])
        if not self.keys_late and sync.get("next_batch") != since:
            sync["to_device"], self._delayed = {"events": self._delayed}, []
        return json.dumps(sync).encode()

    def _remember(self, sync: dict[str, Any]) -> None:
        rooms = sync.get("rooms", {}).get("join", {}).values()
        events = [each for room in rooms for each in room["timeline"]["events"]]
        names = {
            f"{each['event_id']} {each['sender']}"
            for each in events
            if each["type"] == "m.room.message"
        }
        if "next_batch" in sync:
            self._unacknowledged[sync["next_batch"]] = names

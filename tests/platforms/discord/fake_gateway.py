"""The gateway of the fake Discord: https://discord.com/developers/docs/topics/gateway."""

import asyncio
import json
from typing import Any

from aiohttp import WSMsgType, web
from tests.platforms.discord.fake import APPLICATION, BOT, GUILD, FakeDiscord, GatewaySession

_HEARTBEAT, _IDENTIFY, _RESUME, _INVALID, _HELLO, _ACK = 1, 2, 6, 9, 10, 11
_CONTENT = 1 << 15


async def gateway(vendor: FakeDiscord, request: web.Request) -> web.WebSocketResponse:
    """One connection, from "hello" on until either side closes it."""
    socket = web.WebSocketResponse()
    await socket.prepare(request)
    await socket.send_json({"op": _HELLO, "d": {"heartbeat_interval": 41250}})
    outgoing: asyncio.Queue[dict[str, Any] | int] = asyncio.Queue()
    vendor.close_connections = outgoing.put_nowait
    sending = asyncio.ensure_future(_send(socket, outgoing))
    session: GatewaySession | None = None
    try:
        async for message in socket:
            if message.type is not WSMsgType.TEXT:
                continue
            frame = json.loads(message.data)
            if vendor.closes_connections:
                outgoing.put_nowait(4000)
                continue
            if frame["op"] == _HEARTBEAT:
                outgoing.put_nowait({"op": _ACK})
            elif frame["op"] == _IDENTIFY:
                session = _identified(vendor, frame["d"], outgoing)
            elif frame["op"] == _RESUME:
                session = _resumed(vendor, frame["d"], outgoing)
    finally:
        sending.cancel()
        if session is not None:
            session.dispatch = None
    return socket


async def _send(
    socket: web.WebSocketResponse, outgoing: "asyncio.Queue[dict[str, Any] | int]"
) -> None:
    while True:
        frame = await outgoing.get()
        if isinstance(frame, int):
            await socket.close(code=frame)
        elif not socket.closed:
            await socket.send_json(frame)


def _identified(
    vendor: FakeDiscord, asked: dict[str, Any], outgoing: "asyncio.Queue[dict[str, Any] | int]"
) -> GatewaySession | None:
    """topics/opcodes-and-status-codes#gateway-gateway-close-event-codes: 4004, and 4014 for an
    intent that is not switched on. Servers follow one by one, after "ready"."""
    if not vendor.accepts(asked["token"], vendor.token):
        outgoing.put_nowait(4004)
        return None
    if asked["intents"] & _CONTENT and not vendor.content_allowed:
        outgoing.put_nowait(4014)
        return None
    vendor.sessions.clear()
    session = vendor.sessions["s"] = GatewaySession("s")
    session.dispatch = outgoing.put_nowait
    session.add(
        "READY",
        {
            "v": 10,
            "user": BOT,
            "guilds": [{"id": GUILD, "unavailable": True}],
            "session_id": "s",
            "resume_gateway_url": vendor.base_url.replace("http", "ws") + "/gateway",
            "application": {"id": APPLICATION, "flags": 0},
        },
    )
    session.add("GUILD_CREATE", vendor.guild())
    return session


def _resumed(
    vendor: FakeDiscord, asked: dict[str, Any], outgoing: "asyncio.Queue[dict[str, Any] | int]"
) -> GatewaySession | None:
    """topics/gateway#resuming: missed events are sent in order, then "resumed"; a session that is
    not known is invalid, and the client has to identify itself anew."""
    session = vendor.sessions.get(asked["session_id"])
    if session is None:
        outgoing.put_nowait({"op": _INVALID, "d": False})
        return None
    for frame in session.frames[asked["seq"] :]:
        outgoing.put_nowait(frame)
    session.dispatch = outgoing.put_nowait
    session.add("RESUMED", {})
    return session

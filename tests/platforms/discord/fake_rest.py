"""The REST API of the fake Discord and its gateway, on loopback."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import discord
import yarl
from aiohttp import web
from tests.platforms.connection_faults import ConnectionFault
from tests.platforms.discord.fake import APPLICATION, BOT, WHEN, FakeDiscord, Json, discord_user
from tests.platforms.discord.fake_gateway import gateway
from tests.platforms.discord.faults import FakeDiscordError

_LONGEST = 2000


class FakeRestApi:
    """Serves one vendor."""

    def __init__(self, vendor: FakeDiscord) -> None:
        self.vendor = vendor
        self._nonces: dict[str, Json] = {}

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """While the context is open, discord.py finds Discord here: it looks in these places."""
        app = web.Application(middlewares=[self._checked])
        app.add_routes(self._routes())
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host = f"127.0.0.1:{runner.addresses[0][1]}"
        self.vendor.base_url = f"http://{host}"
        route, socket = discord.http.Route, discord.gateway.DiscordWebSocket
        before = route.BASE, socket.DEFAULT_GATEWAY
        route.BASE, socket.DEFAULT_GATEWAY = (
            f"http://{host}/api/v10",
            yarl.URL(f"ws://{host}/gateway"),
        )
        try:
            yield
        finally:
            route.BASE, socket.DEFAULT_GATEWAY = before
            await runner.cleanup()

    def _routes(self) -> list[web.RouteDef]:
        one = "/api/v10/channels/{channel}"
        return [
            web.get("/gateway", self._gateway),
            web.get("/attachments/{name}", self._file),
            web.get("/api/v10/users/@me", self._me),
            web.get("/api/v10/gateway/bot", self._gateway_bot),
            web.get("/api/v10/oauth2/applications/@me", self._application),
            web.put(f"/api/v10/applications/{APPLICATION}/commands", self._commands),
            web.get(one, self._channel),
            web.get(f"{one}/messages", self._history),
            web.post(f"{one}/messages", self._send),
            web.patch(f"{one}/messages/{{message}}", self._edit),
            web.put(f"{one}/messages/{{message}}/reactions/{{emoji}}/@me", self._react),
            web.delete(f"{one}/messages/{{message}}/reactions/{{emoji}}/@me", self._unreact),
            web.post(f"{one}/typing", self._typing),
            web.post("/api/v10/interactions/{id}/{token}/callback", self._callback),
        ]

    @web.middleware
    async def _checked(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        if not request.path.startswith("/api"):
            return await handler(request)
        self.vendor.calls.append(f"{request.method} {request.path.removeprefix('/api/v10')}")
        # reference#authentication and #user-agent: required for every request. The token of an
        # interaction is its own authorisation.
        given = request.headers.get("Authorization", "").removeprefix("Bot ")
        known = request.path.startswith("/api/v10/interactions") or self.vendor.accepts(
            given, self.vendor.token
        )
        if not known:
            return _answer({"message": "401: Unauthorized", "code": 0}, 401)
        assert not given or request.headers["User-Agent"].startswith("DiscordBot (")
        try:
            return await handler(request)
        except FakeDiscordError as error:
            return _answer(error.body, error.status)

    async def _gateway(self, request: web.Request) -> web.WebSocketResponse:
        return await gateway(self.vendor, request)

    async def _gateway_bot(self, request: web.Request) -> web.Response:
        """topics/gateway#get-gateway-bot: the address, at which the request came in."""
        limit = {"total": 1000, "remaining": 999, "reset_after": 0, "max_concurrency": 1}
        url = f"ws://{request.host}/gateway"
        return _answer({"url": url, "shards": 1, "session_start_limit": limit})

    async def _me(self, request: web.Request) -> web.Response:
        return _answer(BOT)

    async def _application(self, request: web.Request) -> web.Response:
        """resources/application#application-object"""
        more = {"rpc_origins": [], "bot_public": True, "bot_require_code_grant": False}
        owner = discord_user("1", "owner")
        named = {"id": APPLICATION, "name": "holdfast", "icon": None, "description": ""}
        return _answer(
            {**named, **more, "owner": owner, "verify_key": "", "flags": 0, "team": None}
        )

    async def _commands(self, request: web.Request) -> web.Response:
        """interactions/application-commands#bulk-overwrite-global-application-commands"""
        self.vendor.commands = await request.json()
        for command in self.vendor.commands:
            assert 1 <= len(command["description"]) <= 100
            assert all(1 <= len(each["description"]) <= 100 for each in command["options"])
        return _answer(self.vendor.commands)

    async def _channel(self, request: web.Request) -> web.Response:
        return _answer(self.vendor.channel(self._known(request)))

    async def _history(self, request: web.Request) -> web.Response:
        """resources/message#get-channel-messages: the newest first, at most 100; with `after`,
        those that follow it."""
        channel = self._known(request)
        if channel in self.vendor.forbidden:
            raise FakeDiscordError(403, 50001, "Missing Access")
        await self._fault(request, self.vendor.page_faults)
        after, limit = int(request.query.get("after", 0)), int(request.query.get("limit", 50))
        assert 1 <= limit <= 100
        found = [each for each in self.vendor.messages[channel] if int(each["id"]) > after]
        return _answer(found[:limit][::-1])

    async def _send(self, request: web.Request) -> web.Response:
        """resources/message#create-message"""
        channel = self._known(request)
        body, files = await self._read(request)
        self.vendor.bodies.append(body)
        if self.vendor.faults and isinstance(error := self.vendor.faults[0], FakeDiscordError):
            self.vendor.faults.popleft()
            raise error
        _check(body, files)
        # `enforce_nonce`: of one nonce there is one message for some minutes, which is answered.
        nonce = str(body.get("nonce", ""))
        assert len(nonce) <= 25
        message = self._nonces.get(nonce) if body.get("enforce_nonce") else None
        if message is None:
            message = self.vendor.write(channel, BOT, body.get("content", ""), nonce=nonce)
            message |= {"attachments": files, "components": body.get("components", [])}
            message["flags"] = body.get("flags", 0)
            if body.get("message_reference"):
                message["message_reference"] = {**body["message_reference"], "channel_id": channel}
            self._nonces[nonce] = message
            self.vendor.dispatch("MESSAGE_CREATE", message)
        await self._fault(request, self.vendor.faults)
        return _answer(message)

    async def _edit(self, request: web.Request) -> web.Response:
        """resources/message#edit-message"""
        channel, body = self._known(request), await request.json()
        _check(body, [])
        self.vendor.bodies.append(body)
        for message in self.vendor.messages[channel]:
            if message["id"] == request.match_info["message"]:
                message |= {"content": body["content"], "edited_timestamp": WHEN}
                self.vendor.dispatch("MESSAGE_UPDATE", message)
                return _answer(message)
        raise FakeDiscordError(404, 10008, "Unknown Message")

    async def _react(self, request: web.Request) -> web.Response:
        """resources/message#create-reaction: 204; "The emoji must be URL Encoded or the request
        will fail with 10014: Unknown Emoji"."""
        if not (emoji := request.match_info["emoji"]) or emoji.isascii():
            raise FakeDiscordError(400, 10014, "Unknown Emoji")
        reactions = self._reactions_of(request)
        if emoji not in reactions:
            reactions.append(emoji)
        return web.Response(status=204)

    async def _unreact(self, request: web.Request) -> web.Response:
        """resources/message#delete-own-reaction: 204. One that is not there: discord.py documents
        `Message.remove_reaction` to raise `NotFound` then."""
        reactions, emoji = self._reactions_of(request), request.match_info["emoji"]
        if emoji not in reactions:
            raise FakeDiscordError(404, 10014, "Unknown Emoji")
        reactions.remove(emoji)
        return web.Response(status=204)

    def _reactions_of(self, request: web.Request) -> list[str]:
        name = request.match_info["message"]
        if name not in {each["id"] for each in self.vendor.messages[self._known(request)]}:
            raise FakeDiscordError(404, 10008, "Unknown Message")
        return self.vendor.reactions.setdefault(name, [])

    async def _typing(self, request: web.Request) -> web.Response:
        self._known(request)
        return web.Response(status=204)

    async def _callback(self, request: web.Request) -> web.Response:
        """interactions/receiving-and-responding#create-interaction-response"""
        body = await request.json()
        number = request.match_info["id"]
        self.vendor.callbacks.append({"id": number, **body})
        if "with_response" in request.query:
            return _answer({"interaction": {"id": number, "type": 3}})
        return web.Response(status=204)

    async def _file(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in self.vendor.files:
            raise web.HTTPNotFound
        return web.Response(body=self.vendor.files[name])

    def _known(self, request: web.Request) -> str:
        channel = request.match_info["channel"]
        if channel not in self.vendor.messages:
            raise FakeDiscordError(404, 10003, "Unknown Channel")
        return channel

    async def _read(self, request: web.Request) -> tuple[Json, list[Json]]:
        """reference#uploading-files: JSON, or a form with `payload_json` and `files[n]`."""
        if request.content_type == "application/json":
            return await request.json(), []
        form = await request.post()
        parts = [part for part in form.values() if isinstance(part, web.FileField)]
        contents = [(part.filename, part.file.read()) for part in parts]
        if any(len(data) > self.vendor.largest_upload for _, data in contents):
            raise FakeDiscordError(413, 40005, "Request entity too large")
        files = [self.vendor.upload(name, data) for name, data in contents]
        payload = form["payload_json"]
        assert isinstance(payload, bytes | bytearray), "it is a part of type application/json"
        return json.loads(payload), files

    async def _fault(
        self, request: web.Request, faults: deque[FakeDiscordError | ConnectionFault]
    ) -> None:
        fault = faults.popleft() if faults else None
        if isinstance(fault, FakeDiscordError):
            raise fault
        if fault is ConnectionFault.ERROR_AFTER:
            raise web.HTTPBadGateway
        if fault is ConnectionFault.RESET_AFTER:
            assert request.transport is not None
            request.transport.abort()
            await asyncio.sleep(0)


def _check(body: Json, files: list[Json]) -> None:
    """topics/opcodes-and-status-codes#json: 50006 and 50035."""
    content = body.get("content", "")
    if not content.strip() and not files:
        raise FakeDiscordError(400, 50006, "Cannot send an empty message")
    if len(content) > _LONGEST:
        raise FakeDiscordError(400, 50035, "Invalid Form Body")
    for row in body.get("components", []):
        buttons = row["components"]
        assert len(buttons) <= 5
        assert all(len(each["label"]) <= 80 and len(each["custom_id"]) <= 100 for each in buttons)


def _answer(body: object, status: int = 200) -> web.Response:
    # Without a charset: the library takes for JSON what is called so, to the letter.
    return web.Response(
        body=json.dumps(body).encode(), status=status, headers={"Content-Type": "application/json"}
    )

"""Posted: events that Slack posts to the gateway's own listener, signed, and repeats until taken.

https://docs.slack.dev/apis/events-api/using-http-request-urls: events, presses and commands come
to one address each, which may be the same one.
"""

import asyncio
import hashlib
import hmac
import logging
from collections.abc import Mapping, Sequence
from urllib.parse import parse_qsl

import msgspec
from aiohttp import web

from holdfast.core.deep_json import decode
from holdfast.core.errors import IntakeClosed, NotConnected, StoreError
from holdfast.core.ports.protocols import Clock
from holdfast.core.secret import Secret
from holdfast.platforms.slack.taking import Kind, Taking
from holdfast.platforms.slack.wire import Outer

log = logging.getLogger(__name__)

_WINDOW = 300.0  # seconds: what was signed longer ago may be a repetition by a stranger
_LATER = {"Retry-After": "1"}
_FORM = "application/x-www-form-urlencoded"


def path_of(account: str) -> str:
    """Where on our listener the events of an account arrive."""
    return f"/hooks/slack/{account}"


class Posted:
    """Owns whether posts are taken, only while a `Taking` is there, and those in hand."""

    def __init__(self, secret: Secret | None, *, account: str, clock: Clock) -> None:
        self._secret = secret
        self._account = account
        self._clock = clock
        self._taking: Taking | None = None
        self._in_hand: set[asyncio.Timeout] = set()

    def routes(self) -> Sequence[web.RouteDef]:
        return () if self._secret is None else (web.post(path_of(self._account), self._post),)

    def begin(self, taking: Taking) -> None:
        self._taking = taking

    def end(self) -> None:
        """What is not durable by now is left with Slack, which posts it again."""
        self._taking = None
        for post in self._in_hand:
            post.reschedule(0.0)

    async def _post(self, request: web.Request) -> web.Response:
        """200 once it is durable; else Slack posts it again: at once, after one minute, and after
        five."""
        body = await request.read()
        if not self._is_signed(request.headers, body):
            return web.Response(status=401)
        try:
            kind, payload = _envelope(request.content_type, body)
            if kind == Kind.EVENT and (challenge := _challenge(payload)):
                return web.Response(text=challenge)
            if self._taking is None:
                return web.Response(status=503, headers=_LATER)
            shown = await self._taken(self._taking, kind, payload)
        except (StoreError, IntakeClosed, NotConnected, TimeoutError) as error:
            log.warning("An event is not taken: %s", error, extra={"action": "feed_paused"})
            return web.Response(status=503, headers=_LATER)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            return web.Response(status=400, text=f"this is no event: {error}\n")
        return web.json_response({"text": shown}) if shown else web.Response()

    async def _taken(self, taking: Taking, kind: Kind, payload: bytes) -> str:
        async with asyncio.timeout(None) as post:
            self._in_hand.add(post)
            try:
                return await taking.take(kind, payload)
            finally:
                self._in_hand.discard(post)

    def _is_signed(self, headers: Mapping[str, str], body: bytes) -> bool:
        """https://docs.slack.dev/authentication/verifying-requests-from-slack"""
        at = headers.get("X-Slack-Request-Timestamp", "")
        if self._secret is None or not (at.isascii() and at.isdigit() and len(at) < 16):
            return False
        if abs(self._clock.now() - int(at)) > _WINDOW:
            return False
        key = self._secret.reveal().encode()
        digest = hmac.new(key, f"v0:{at}:".encode() + body, hashlib.sha256).hexdigest()
        return Secret(f"v0={digest}").matches(headers.get("X-Slack-Signature", ""))


def _envelope(content_type: str, body: bytes) -> tuple[Kind, bytes]:
    """A form holds a press as JSON, or the fields of a command; all else is an event."""
    if content_type != _FORM:
        return Kind.EVENT, body
    form = dict(parse_qsl(body.decode(), keep_blank_values=True))
    if "payload" in form:
        return Kind.PRESS, form["payload"].encode()
    return Kind.COMMAND, msgspec.json.encode(form)


def _challenge(payload: bytes) -> str:
    """https://docs.slack.dev/reference/events/url_verification: asked when the address is entered;
    whoever answers has read the body."""
    outer = decode(payload, type=Outer)
    return outer.challenge if outer.type == "url_verification" else ""

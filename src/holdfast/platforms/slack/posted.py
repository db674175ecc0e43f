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

from holdfast.core.deep_json import decode_json
from holdfast.core.errors import IntakeClosed, NotConnected, StoreError
from holdfast.core.ports.protocols import Clock
from holdfast.core.secret import Secret
from holdfast.platforms.slack.taking import EnvelopeType, SlackReceiver
from holdfast.platforms.slack.wire import EventEnvelope

log = logging.getLogger(__name__)

_MAX_SIGNATURE_AGE = 300.0  # seconds: what was signed longer ago may be a repetition by a stranger
_RETRY_HEADERS = {"Retry-After": "1"}
_FORM_CONTENT_TYPE = "application/x-www-form-urlencoded"


def events_path(account: str) -> str:
    """Where on our listener the events of an account arrive."""
    return f"/hooks/slack/{account}"


class SlackEventsEndpoint:
    """Owns whether posts are taken, only while a `Taking` is there, and those in hand."""

    def __init__(self, secret: Secret | None, *, account: str, clock: Clock) -> None:
        self._secret = secret
        self._account = account
        self._clock = clock
        self._receiver: SlackReceiver | None = None
        self._in_flight: set[asyncio.Timeout] = set()

    def routes(self) -> Sequence[web.RouteDef]:
        return (
            ()
            if self._secret is None
            else (web.post(events_path(self._account), self._handle_post),)
        )

    def start(self, receiver: SlackReceiver) -> None:
        self._receiver = receiver

    def stop(self) -> None:
        """What is not durable by now is left with Slack, which posts it again."""
        self._receiver = None
        for post in self._in_flight:
            post.reschedule(0.0)

    async def _handle_post(self, request: web.Request) -> web.Response:
        """200 once it is durable; else Slack posts it again: at once, after one minute, and after
        five."""
        body = await request.read()
        if not self._has_valid_signature(request.headers, body):
            return web.Response(status=401)
        try:
            kind, payload = _parse_envelope(request.content_type, body)
            if kind == EnvelopeType.EVENT and (challenge := _url_challenge(payload)):
                return web.Response(text=challenge)
            if self._receiver is None:
                return web.Response(status=503, headers=_RETRY_HEADERS)
            shown = await self._handle(self._receiver, kind, payload)
        except (StoreError, IntakeClosed, NotConnected, TimeoutError) as error:
            log.warning("An event is not taken: %s", error, extra={"action": "receiver_retrying"})
            return web.Response(status=503, headers=_RETRY_HEADERS)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            return web.Response(status=400, text=f"this is no event: {error}\n")
        return web.json_response({"text": shown}) if shown else web.Response()

    async def _handle(
        self, receiver: SlackReceiver, envelope_type: EnvelopeType, payload: bytes
    ) -> str:
        async with asyncio.timeout(None) as post:
            self._in_flight.add(post)
            try:
                return await receiver.handle(envelope_type, payload)
            finally:
                self._in_flight.discard(post)

    def _has_valid_signature(self, headers: Mapping[str, str], body: bytes) -> bool:
        """https://docs.slack.dev/authentication/verifying-requests-from-slack"""
        at = headers.get("X-Slack-Request-Timestamp", "")
        if self._secret is None or not (at.isascii() and at.isdigit() and len(at) < 16):
            return False
        if abs(self._clock.now() - int(at)) > _MAX_SIGNATURE_AGE:
            return False
        key = self._secret.reveal().encode()
        digest = hmac.new(key, f"v0:{at}:".encode() + body, hashlib.sha256).hexdigest()
        return Secret(f"v0={digest}").matches(headers.get("X-Slack-Signature", ""))


def _parse_envelope(content_type: str, body: bytes) -> tuple[EnvelopeType, bytes]:
    """A form holds a press as JSON, or the fields of a command; all else is an event."""
    if content_type != _FORM_CONTENT_TYPE:
        return EnvelopeType.EVENT, body
    form = dict(parse_qsl(body.decode(), keep_blank_values=True))
    if "payload" in form:
        return EnvelopeType.INTERACTION, form["payload"].encode()
    return EnvelopeType.COMMAND, msgspec.json.encode(form)


def _url_challenge(payload: bytes) -> str:
    """https://docs.slack.dev/reference/events/url_verification: asked when the address is entered;
    whoever answers has read the body."""
    outer = decode_json(payload, type=EventEnvelope)
    return outer.challenge if outer.type == "url_verification" else ""

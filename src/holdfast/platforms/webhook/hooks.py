"""Hooks: what programs post to those of an account, answered well once it is durable."""

import asyncio
import logging
import math
from collections.abc import Mapping, Sequence
from functools import partial

from aiohttp import web

from holdfast.core.errors import IntakeClosed, NotAddressed, NotAllowed, StoreError
from holdfast.core.messages.attachment import Attachment
from holdfast.core.messages.inbox import Inbound
from holdfast.core.ports.protocols import Clock, Intake
from holdfast.core.secret import Secret
from holdfast.platforms.webhook.files import UnreadablePost
from holdfast.platforms.webhook.hook_settings import HookSettings
from holdfast.platforms.webhook.rate import HookRateLimiter
from holdfast.platforms.webhook.reading import EventIgnored, WebhookParser
from holdfast.platforms.webhook.signatures import (
    InvalidSignature,
    SignatureExpired,
    SignatureVerifier,
)
from holdfast.platforms.webhook.template import MissingFields

log = logging.getLogger(__name__)

ParsedPost = tuple[Inbound, Sequence[Attachment]]

_BODY_TIMEOUT = 30.0  # seconds that a body may take to arrive
_LARGE_BODY = 256 * 1024  # a body that takes longer to read than the event loop should be held up


def hook_path(account: str, hook: str) -> str:
    """Where on our listener a hook is posted to."""
    return f"/hooks/webhook/{account}/{hook}"


class HookEndpoint:
    """One hook: knows its secret and how often it was posted to."""

    def __init__(
        self, name: str, settings: HookSettings, secret: Secret, *, account: str, clock: Clock
    ) -> None:
        self.name = name
        self.settings = settings
        self.rate_limiter = HookRateLimiter(settings.per_minute, clock=clock)
        self._verifier = SignatureVerifier(settings, secret, clock=clock)
        self._parser = WebhookParser(name, settings, account=account)

    def parse(self, headers: Mapping[str, str], content_type: str, body: bytes) -> ParsedPost:
        """Nothing of a post is looked at before it is known whose it is."""
        self._verifier.verify(headers, body)
        if content_type not in self.settings.content_types:
            raise UnreadablePost(f"this hook takes {', '.join(self.settings.content_types)}")
        return self._parser.parse(headers, content_type, body)


class WebhookReceiver:
    """Owns whether posts are taken, only while an intake is there, and those in hand."""

    def __init__(
        self,
        hooks: Mapping[str, HookSettings],
        secrets: Mapping[str, Secret],
        *,
        account: str,
        clock: Clock,
    ) -> None:
        self._account = account
        self._hooks = [
            HookEndpoint(name, each, secrets[f"hooks.{name}.secret"], account=account, clock=clock)
            for name, each in hooks.items()
        ]
        self._intake: Intake | None = None
        self._in_progress: set[asyncio.Timeout] = set()

    def routes(self) -> Sequence[web.RouteDef]:
        return [
            web.post(hook_path(self._account, hook.name), partial(self._handle, hook))
            for hook in self._hooks
        ]

    def start(self, intake: Intake) -> None:
        self._intake = intake

    def stop(self) -> None:
        """What is not durable by now is left with whoever posted it."""
        self._intake = None
        for post in self._in_progress:
            post.reschedule(0.0)

    async def _handle(self, hook: HookEndpoint, request: web.Request) -> web.Response:
        """202 once it is durable. A refusal says what is wrong with the post, to those who are
        known; to others it says nothing but that they are not."""
        try:
            body = await _read_body(request, hook.settings.max_kb * 1024)
        except TimeoutError:
            return _respond(408, "the body did not arrive")
        if body is None:
            return _respond(413, f"the body is larger than {hook.settings.max_kb} kB")
        try:
            said = await _parse_request(hook, request, body)
        except (InvalidSignature, SignatureExpired) as error:
            return _respond(401, str(error))
        except EventIgnored as error:
            return _respond(200, str(error), status="ignored")
        except (UnreadablePost, MissingFields) as error:
            # Many a client says of JSON that it is a form, unless it is told otherwise.
            told = f"{error} (it came as {request.content_type})"
            log.warning("A post to %s: %s", hook.name, told, extra={"action": "hook_post_invalid"})
            return _respond(422, told)
        if wait := hook.rate_limiter.acquire():
            return _retry_later(429, "more posts than this hook takes in a minute", wait)
        return await self._accept_and_respond(hook, *said)

    async def _accept_and_respond(
        self, hook: HookEndpoint, inbound: Inbound, attachments: Sequence[Attachment]
    ) -> web.Response:
        try:
            accepted = await self._accept(inbound, attachments)
        except NotAddressed as error:
            return _respond(200, str(error), status="ignored")
        except NotAllowed as error:
            log.warning("The hook %s: %s", hook.name, error, extra={"action": "hook_not_allowed"})
            return _respond(403, "this hook may not speak there; the log of the gateway says why")
        except (StoreError, IntakeClosed, TimeoutError) as error:
            log.warning("A post is not taken: %s", error, extra={"action": "receiver_retrying"})
            return _retry_later(503, "it cannot be kept at the moment; post it again", 1.0)
        if accepted:
            return _respond(202, "", status="accepted", id=inbound.message_id)
        return _respond(200, "", status="duplicate", id=inbound.message_id)

    async def _accept(self, inbound: Inbound, attachments: Sequence[Attachment]) -> bool:
        """Whether it is a new one."""
        if self._intake is None:
            raise IntakeClosed("the account is not connected")
        async with asyncio.timeout(None) as post:
            self._in_progress.add(post)
            try:
                return not (await self._intake.accept(inbound, attachments)).duplicate
            finally:
                self._in_progress.discard(post)


async def _parse_request(hook: HookEndpoint, request: web.Request, body: bytes) -> ParsedPost:
    reading = partial(hook.parse, request.headers, request.content_type, body)
    return reading() if len(body) < _LARGE_BODY else await asyncio.to_thread(reading)


async def _read_body(request: web.Request, max_bytes: int) -> bytes | None:
    """None: it is larger than that."""
    if (request.content_length or 0) > max_bytes:
        return None
    held = bytearray()
    async with asyncio.timeout(_BODY_TIMEOUT):
        async for piece in request.content.iter_any():
            held += piece
            if len(held) > max_bytes:
                return None
    return bytes(held)


def _respond(code: int, message: str, **fields: str) -> web.Response:
    told = {"error": message} if code >= 400 else {"message": message} if message else {}
    return web.json_response({**fields, **told}, status=code)


def _retry_later(code: int, message: str, wait: float) -> web.Response:
    response = _respond(code, message)
    response.headers["Retry-After"] = str(math.ceil(wait))
    return response

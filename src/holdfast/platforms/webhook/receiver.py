"""Receives posts to the hooks of an account: verifies, parses and limits them, and responds with
202 once the message is durable."""

import asyncio
import base64
import binascii
import hashlib
import logging
import math
from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from aiohttp import web

from holdfast.core.errors import HoldfastError, IntakeClosed, NotAddressed, NotAllowed, StoreError
from holdfast.core.messages.inbox import BusyMode, Inbound
from holdfast.core.messages.source import Attachment, Author, Source
from holdfast.core.ports.platform import Intake
from holdfast.core.ports.runtime import Clock
from holdfast.core.secrets import Secret
from holdfast.core.turns.external import source_label
from holdfast.platforms.webhook.plugin import PLATFORM, USER_AGENT, HookSettings, SignatureScheme
from holdfast.platforms.webhook.signatures import (
    InvalidSignature,
    SignatureExpired,
    SignatureVerifier,
)
from holdfast.platforms.webhook.template import (
    MissingFields,
    WebhookPost,
    parse_template,
    value_at_path,
)

log = logging.getLogger(__name__)

ParsedPost = tuple[Inbound, Sequence[Attachment]]

MAX_TEXT_LENGTH = 32_000  # characters of the message: a model reads all of it
_MAX_ID_LENGTH = 128
_FORM_TYPE = "application/x-www-form-urlencoded"
_IDEMPOTENCY_KEY = "{@Idempotency-Key|}"
_MINUTE = 60.0
_BODY_TIMEOUT = 30.0  # seconds for a body to arrive
_LARGE_BODY = 256 * 1024  # bytes; a larger body is parsed in a thread, to keep the event loop free


class UnreadablePost(HoldfastError):
    """The body does not have the format that it declares."""


class EventIgnored(HoldfastError):
    """An event of a kind that this hook does not accept."""


class WebhookFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a post, incoming or outgoing."""

    name: str
    data: str  # in base64


def encode_file(name: str, data: bytes) -> WebhookFile:
    return WebhookFile(name=name, data=base64.b64encode(data).decode())


def decode_files(found: Any, *, field: str) -> Sequence[Attachment]:
    """The files: one file, a list of them, or none. Raises `UnreadablePost` for anything else."""
    listed = [] if found is None else found if isinstance(found, list) else [found]
    try:
        return [_to_attachment(file) for file in msgspec.convert(listed, list[WebhookFile])]
    except (msgspec.ValidationError, binascii.Error) as error:
        raise UnreadablePost(
            "{field} is not a file with name and data in base64: {error}", field=field, error=error
        ) from None


def _to_attachment(file: WebhookFile) -> Attachment:
    data = base64.b64decode(file.data, validate=True)

    async def fetch() -> bytes:
        return data

    return Attachment(name=file.name, fetch=fetch, size=len(data))


class HookRateLimiter:
    """Owns the times of the posts that one hook accepted in the last minute; not persisted."""

    def __init__(self, per_minute: int, *, clock: Clock) -> None:
        self._per_minute = per_minute  # 0: no limit
        self._clock = clock
        self._accepted_at: deque[float] = deque()

    def acquire(self) -> float:
        """Seconds until another post may be accepted; 0 if this one is accepted, and counted."""
        if not self._per_minute:
            return 0.0
        now = self._clock.monotonic()
        while self._accepted_at and now - self._accepted_at[0] >= _MINUTE:
            self._accepted_at.popleft()
        if len(self._accepted_at) >= self._per_minute:
            return _MINUTE - (now - self._accepted_at[0])
        self._accepted_at.append(now)
        return 0.0


class WebhookParser:
    """Turns a verified post of one hook into an inbound message; stateless."""

    def __init__(self, name: str, hook: HookSettings, *, account: str) -> None:
        self._name = name
        self._hook = hook
        self._account = account
        self._template = parse_template(hook.template)
        self._thread = parse_template(hook.thread)
        self._event = parse_template(hook.event_template)
        self._id = parse_template(
            hook.id or (_IDEMPOTENCY_KEY if hook.scheme is SignatureScheme.BEARER else "")
        )

    def parse(self, headers: Mapping[str, str], content_type: str, body: bytes) -> ParsedPost:
        """The message and its files. Raises `UnreadablePost`, `MissingFields` or `EventIgnored`."""
        try:
            return self._parse_post(
                WebhookPost(body=_decode_body(content_type, body), headers=headers), body
            )
        except RecursionError:  # decoding and encoding have different limits
            raise UnreadablePost("the body is nested too deeply") from None

    def _parse_post(self, post: WebhookPost, body: bytes) -> ParsedPost:
        if self._hook.events and (event := self._event.fill(post)) not in self._hook.events:
            raise EventIgnored("events of the kind {event!r} are ignored by this hook", event=event)
        inbound = self._to_inbound(post, self._delivery_id(post, body))
        found = value_at_path(post.body, self._hook.files) if self._hook.files else None
        return inbound, decode_files(found, field=self._hook.files)

    def _to_inbound(self, post: WebhookPost, delivery_id: str) -> Inbound:
        return Inbound(
            source=self._source(post),
            event_id=f"{PLATFORM}:{self._account}:{self._name}:{delivery_id}",
            message_id=delivery_id,
            text=self._message_text(self._template.fill(post)),
            sources=(source_label("webhook", self._name),),
            # Each post is an event of its own: it interrupts nothing, and is not merged.
            busy_mode=BusyMode.QUEUE,
            mergeable=False,
            commands=self._hook.commands,
            toolsets=self._hook.toolsets,
        )

    def _delivery_id(self, post: WebhookPost, body: bytes) -> str:
        """The same whenever the same post comes again, and different for every other post. It is
        taken from the signed part: a copy of a post cannot have another id."""
        header = self._hook.id_header
        delivery_id = self._id.fill(post) or (post.headers.get(header, "") if header else "")
        if not delivery_id:
            return hashlib.sha256(body).hexdigest()
        printable = delivery_id.isascii() and delivery_id.isprintable()
        if printable and len(delivery_id) <= _MAX_ID_LENGTH:
            return delivery_id
        return hashlib.sha256(delivery_id.encode("utf-8", "surrogateescape")).hexdigest()

    def _source(self, post: WebhookPost) -> Source:
        hook, other_platform = self._hook, bool(self._hook.platform)
        # Posts of programs are answered, but two gateways would answer each other forever.
        is_gateway = post.headers.get("User-Agent", "").startswith(USER_AGENT)
        return Source(
            platform=hook.platform or PLATFORM,
            account=hook.account if other_platform else self._account,
            chat_id=hook.chat or self._name,
            thread_id=self._thread.fill(post) or None,
            user_id=hook.user or self._name,
            user_name=None if other_platform else self._name,
            author=Author.BOT if is_gateway else Author.PERSON,
        )

    def _message_text(self, text: str) -> str:
        if len(text) > MAX_TEXT_LENGTH:
            omitted = len(text) - MAX_TEXT_LENGTH
            text = f"{text[:MAX_TEXT_LENGTH]}\n[{omitted} characters more were posted]"
        if not self._hook.platform or (self._hook.commands and text.startswith("/")):
            return text
        # In a person's chat this must not look like a message of that person.
        return f"[Posted to the webhook {self._name}]\n{text}"


def _decode_body(content_type: str, body: bytes) -> Any:
    try:
        if content_type == _FORM_TYPE:
            return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=1000))
        if content_type == "application/json" or content_type.endswith("+json"):
            return msgspec.json.decode(body)
        return body.decode()
    except (msgspec.MsgspecError, ValueError) as error:
        raise UnreadablePost(
            "the body is not {content_type}: {error}", content_type=content_type, error=error
        ) from None


def hook_path(account: str, hook: str) -> str:
    """The path of a hook on the gateway's listener."""
    return f"/hooks/webhook/{account}/{hook}"


class HookEndpoint:
    """One hook: its signature verifier, its parser and its rate limit."""

    def __init__(
        self, name: str, settings: HookSettings, secret: Secret, *, account: str, clock: Clock
    ) -> None:
        self.name = name
        self.settings = settings
        self.rate_limiter = HookRateLimiter(settings.per_minute, clock=clock)
        self._verifier = SignatureVerifier(settings, secret, clock=clock)
        self._parser = WebhookParser(name, settings, account=account)

    def parse(self, headers: Mapping[str, str], content_type: str, body: bytes) -> ParsedPost:
        """Verifies the signature before it looks at anything else."""
        self._verifier.verify(headers, body)
        if content_type not in self.settings.content_types:
            raise UnreadablePost(
                "this hook accepts {content_types}",
                content_types=", ".join(self.settings.content_types),
            )
        return self._parser.parse(headers, content_type, body)


class WebhookReceiver:
    """Owns the intake while the account is connected (posts are accepted only then), and the posts
    in progress."""

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
        """Posts that are not durable yet are answered with 503: the sender posts them again."""
        self._intake = None
        for post in self._in_progress:
            post.reschedule(0.0)

    async def _handle(self, hook: HookEndpoint, request: web.Request) -> web.Response:
        """Respond with 202 once the message is durable. Errors describe what is wrong with the post
        only if the signature is valid; otherwise the response gives no details."""
        try:
            body = await _read_body(request, hook.settings.max_kb * 1024)
        except TimeoutError:
            return _respond(408, "the body did not arrive")
        if body is None:
            return _respond(413, f"the body is larger than {hook.settings.max_kb} kB")
        try:
            parsed = await _parse_request(hook, request, body)
        except (InvalidSignature, SignatureExpired) as error:
            return _respond(401, str(error))
        except EventIgnored as error:
            return _respond(200, str(error), status="ignored")
        except (UnreadablePost, MissingFields) as error:
            # Many clients declare JSON as a form unless configured otherwise.
            why = f"{error} (its content type is {request.content_type})"
            log.warning(
                "Rejected an invalid post to hook %s: %s",
                hook.name,
                why,
                extra={"action": "hook_post_invalid"},
            )
            return _respond(422, why)
        if wait := hook.rate_limiter.acquire():
            return _retry_later(429, "this hook accepts no more posts in this minute", wait)
        return await self._accept_and_respond(hook, *parsed)

    async def _accept_and_respond(
        self, hook: HookEndpoint, inbound: Inbound, attachments: Sequence[Attachment]
    ) -> web.Response:
        try:
            accepted = await self._accept(inbound, attachments)
        except NotAddressed as error:
            return _respond(200, str(error), status="ignored")
        except NotAllowed as error:
            log.warning(
                "Refused a post to hook %s: %s",
                hook.name,
                error,
                extra={"action": "hook_not_allowed"},
            )
            return _respond(403, "this hook may not write there; see the log of the gateway")
        except (StoreError, IntakeClosed, TimeoutError) as error:
            log.warning(
                "Could not store a post to hook %s, whose sender is asked to repeat it: %s",
                hook.name,
                error,
                extra={"action": "receiver_retrying"},
            )
            return _retry_later(503, "the post could not be stored; post it again", 1.0)
        if accepted:
            return _respond(202, "", status="accepted", id=inbound.message_id)
        return _respond(200, "", status="duplicate", id=inbound.message_id)

    async def _accept(self, inbound: Inbound, attachments: Sequence[Attachment]) -> bool:
        """Whether the message is new."""
        if self._intake is None:
            raise IntakeClosed("the account is not connected")
        async with asyncio.timeout(None) as post:
            self._in_progress.add(post)
            try:
                return not (await self._intake.accept(inbound, attachments)).duplicate
            finally:
                self._in_progress.discard(post)


async def _parse_request(hook: HookEndpoint, request: web.Request, body: bytes) -> ParsedPost:
    parse = partial(hook.parse, request.headers, request.content_type, body)
    return parse() if len(body) < _LARGE_BODY else await asyncio.to_thread(parse)


async def _read_body(request: web.Request, max_bytes: int) -> bytes | None:
    """The body; None if it is larger than that."""
    if (request.content_length or 0) > max_bytes:
        return None
    body = bytearray()
    async with asyncio.timeout(_BODY_TIMEOUT):
        async for chunk in request.content.iter_any():
            body += chunk
            if len(body) > max_bytes:
                return None
    return bytes(body)


def _respond(code: int, message: str, **fields: str) -> web.Response:
    text = {"error": message} if code >= 400 else {"message": message} if message else {}
    return web.json_response({**fields, **text}, status=code)


def _retry_later(code: int, message: str, wait: float) -> web.Response:
    response = _respond(code, message)
    response.headers["Retry-After"] = str(math.ceil(wait))
    return response

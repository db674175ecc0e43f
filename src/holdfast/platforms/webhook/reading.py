"""Reading: a post that is genuine, as a message in our words."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from holdfast.core.errors import HoldfastError
from holdfast.core.messages.attachment import Attachment
from holdfast.core.messages.inbox import BusyMode, Inbound
from holdfast.core.messages.source import Author, Source
from holdfast.platforms.webhook.files import UnreadablePost, decode_files
from holdfast.platforms.webhook.hook_settings import (
    PLATFORM,
    USER_AGENT,
    HookSettings,
    SignatureScheme,
)
from holdfast.platforms.webhook.template import WebhookPost, parse_template, value_at_path

MAX_TEXT_LENGTH = 32_000  # characters of what is said: a model reads all of it
_MAX_ID_LENGTH = 128
_FORM_TYPE = "application/x-www-form-urlencoded"
_IDEMPOTENCY_KEY = "{@Idempotency-Key|}"


class EventIgnored(HoldfastError):
    """An event of a kind that this hook does not take."""


class WebhookParser:
    """Knows what one hook says, where, and as whom; keeps nothing."""

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

    def parse(
        self, headers: Mapping[str, str], content_type: str, body: bytes
    ) -> tuple[Inbound, Sequence[Attachment]]:
        """What is said, and the files that come with it. Raises `Unreadable`, `MissingFields`, or
        `EventIgnored`."""
        try:
            return self._parse_post(
                WebhookPost(body=_decode_body(content_type, body), headers=headers), body
            )
        except RecursionError:  # reading and writing it again reach their limits apart
            raise UnreadablePost("the body is nested too deeply") from None

    def _parse_post(self, post: WebhookPost, body: bytes) -> tuple[Inbound, Sequence[Attachment]]:
        if self._hook.events and (event := self._event.fill(post)) not in self._hook.events:
            raise EventIgnored(f"events of the kind {event!r} are not taken here")
        inbound = self._to_inbound(post, self._delivery_id(post, body))
        found = value_at_path(post.body, self._hook.files) if self._hook.files else None
        return inbound, decode_files(found, field=self._hook.files)

    def _to_inbound(self, post: WebhookPost, delivery_id: str) -> Inbound:
        return Inbound(
            source=self._source(post),
            event_id=f"{PLATFORM}:{self._account}:{self._name}:{delivery_id}",
            message_id=delivery_id,
            text=self._message_text(self._template.fill(post)),
            # Each post is an event of its own: none is cut short, or answered with another.
            busy_mode=BusyMode.QUEUE,
            mergeable=False,
            commands=self._hook.commands,
            toolsets=self._hook.toolsets,
        )

    def _delivery_id(self, post: WebhookPost, body: bytes) -> str:
        """What the same post has when it comes again, and no other. It comes from what is signed:
        whoever copies a post cannot give it another."""
        header = self._hook.id_header
        given = post.headers.get(header, "") if header else ""
        named = self._id.fill(post) or given
        if not named:
            return hashlib.sha256(body).hexdigest()
        if named.isascii() and named.isprintable() and len(named) <= _MAX_ID_LENGTH:
            return named
        return hashlib.sha256(named.encode("utf-8", "surrogateescape")).hexdigest()

    def _source(self, post: WebhookPost) -> Source:
        hook, elsewhere = self._hook, bool(self._hook.platform)
        # A hook is there to be answered, but two gateways would answer each other for ever.
        gateway = post.headers.get("User-Agent", "").startswith(USER_AGENT)
        return Source(
            platform=hook.platform or PLATFORM,
            account=hook.account if elsewhere else self._account,
            chat_id=hook.chat or self._name,
            thread_id=self._thread.fill(post) or None,
            user_id=hook.user or self._name,
            user_name=None if elsewhere else self._name,
            author=Author.BOT if gateway else Author.PERSON,
        )

    def _message_text(self, text: str) -> str:
        if len(text) > MAX_TEXT_LENGTH:
            text = f"{text[:MAX_TEXT_LENGTH]}\n[{len(text) - MAX_TEXT_LENGTH} characters more were posted]"
        if not self._hook.platform or (self._hook.commands and text.startswith("/")):
            return text
        # In the chat of a person nobody should take this for that person's words.
        return f"[Posted to the webhook {self._name}]\n{text}"


def _decode_body(content_type: str, body: bytes) -> Any:
    try:
        if content_type == _FORM_TYPE:
            return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=1000))
        if content_type == "application/json" or content_type.endswith("+json"):
            return msgspec.json.decode(body)
        return body.decode()
    except (msgspec.MsgspecError, ValueError) as error:
        raise UnreadablePost(f"the body is not {content_type}: {error}") from None

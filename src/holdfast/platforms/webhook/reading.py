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
from holdfast.platforms.webhook.files import Unreadable, attached
from holdfast.platforms.webhook.hook_settings import AGENT, PLATFORM, HookSettings, Scheme
from holdfast.platforms.webhook.template import Posted, inside, parse

LONGEST = 32_000  # characters of what is said: a model reads all of it
_LONGEST_ID = 128
_FORM = "application/x-www-form-urlencoded"
_KEY = "{@Idempotency-Key|}"


class Passed(HoldfastError):
    """An event of a kind that this hook does not take."""


class Reader:
    """Knows what one hook says, where, and as whom; keeps nothing."""

    def __init__(self, name: str, hook: HookSettings, *, account: str) -> None:
        self._name = name
        self._hook = hook
        self._own = account
        self._template = parse(hook.template)
        self._thread = parse(hook.thread)
        self._event = parse(hook.event_template)
        self._id = parse(hook.id or (_KEY if hook.scheme is Scheme.BEARER else ""))

    def read(
        self, headers: Mapping[str, str], kind: str, body: bytes
    ) -> tuple[Inbound, Sequence[Attachment]]:
        """What is said, and the files that come with it. Raises `Unreadable`, `Missing`, or
        `Passed`."""
        try:
            return self._said(Posted(body=_read(kind, body), headers=headers), body)
        except RecursionError:  # reading and writing it again reach their limits apart
            raise Unreadable("the body is nested too deeply") from None

    def _said(self, posted: Posted, body: bytes) -> tuple[Inbound, Sequence[Attachment]]:
        if self._hook.events and (event := self._event.fill(posted)) not in self._hook.events:
            raise Passed(f"events of the kind {event!r} are not taken here")
        inbound = self._inbound(posted, self._delivery(posted, body))
        found = inside(posted.body, self._hook.files) if self._hook.files else None
        return inbound, attached(found, field=self._hook.files)

    def _inbound(self, posted: Posted, delivery: str) -> Inbound:
        return Inbound(
            source=self._source(posted),
            event_id=f"{PLATFORM}:{self._own}:{self._name}:{delivery}",
            message_id=delivery,
            text=self._words(self._template.fill(posted)),
            # Each post is an event of its own: none is cut short, or answered with another.
            busy_mode=BusyMode.QUEUE,
            mergeable=False,
            commands=self._hook.commands,
            toolsets=self._hook.toolsets,
        )

    def _delivery(self, posted: Posted, body: bytes) -> str:
        """What the same post has when it comes again, and no other. It comes from what is signed:
        whoever copies a post cannot give it another."""
        header = self._hook.id_header
        given = posted.headers.get(header, "") if header else ""
        named = self._id.fill(posted) or given
        if not named:
            return hashlib.sha256(body).hexdigest()
        if named.isascii() and named.isprintable() and len(named) <= _LONGEST_ID:
            return named
        return hashlib.sha256(named.encode("utf-8", "surrogateescape")).hexdigest()

    def _source(self, posted: Posted) -> Source:
        hook, elsewhere = self._hook, bool(self._hook.platform)
        # A hook is there to be answered, but two gateways would answer each other for ever.
        gateway = posted.headers.get("User-Agent", "").startswith(AGENT)
        return Source(
            platform=hook.platform or PLATFORM,
            account=hook.account if elsewhere else self._own,
            chat_id=hook.chat or self._name,
            thread_id=self._thread.fill(posted) or None,
            user_id=hook.user or self._name,
            user_name=None if elsewhere else self._name,
            author=Author.BOT if gateway else Author.PERSON,
        )

    def _words(self, text: str) -> str:
        if len(text) > LONGEST:
            text = f"{text[:LONGEST]}\n[{len(text) - LONGEST} characters more were posted]"
        if not self._hook.platform or (self._hook.commands and text.startswith("/")):
            return text
        # In the chat of a person nobody should take this for that person's words.
        return f"[Posted to the webhook {self._name}]\n{text}"


def _read(kind: str, body: bytes) -> Any:
    try:
        if kind == _FORM:
            return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=1000))
        if kind == "application/json" or kind.endswith("+json"):
            return msgspec.json.decode(body)
        return body.decode()
    except (msgspec.MsgspecError, ValueError) as error:
        raise Unreadable(f"the body is not {kind}: {error}") from None

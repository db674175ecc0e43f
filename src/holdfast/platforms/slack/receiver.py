"""Receives Slack events over Socket Mode or HTTP, and hands them to intake.

An event is acknowledged only once it is durable; Slack sends it again otherwise.
"""

import asyncio
import hashlib
import hmac
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from urllib.parse import parse_qsl

import aiohttp
import msgspec
from aiohttp import web

from holdfast.core.errors import (
    AccountDisconnected,
    ConnectRefused,
    IntakeClosed,
    NotAddressed,
    NotAllowed,
    NotConnected,
    OutcomeUnknown,
    SendError,
    SendRejected,
    StoreError,
    Throttled,
)
from holdfast.core.messages.inbox import Inbound
from holdfast.core.messages.source import Attachment, AttachmentUnavailable, ChatType
from holdfast.core.ports.platform import Intake
from holdfast.core.ports.runtime import Clock
from holdfast.core.secrets import Secret
from holdfast.core.untrusted import decode_json
from holdfast.platforms.inbound import backoff_delays
from holdfast.platforms.slack.checkpoint import SlackCheckpoint
from holdfast.platforms.slack.client import SlackClient
from holdfast.platforms.slack.events import (
    EventEnvelope,
    EventHeader,
    SlackCommand,
    SlackFile,
    SlackFileResponse,
    SlackInteraction,
    SlackMessage,
    SlackParser,
    SlackUserResponse,
    SocketFrame,
    SocketUrl,
)

log = logging.getLogger(__name__)


# MERGED holdfast.platforms.slack.people: People: what those are called who speak in a channel, for events tell only their ids.
USERS_SCOPE = "users:read"
_MAX_NAMES = 1000
_LOOKUP_TIMEOUT = 2.0  # seconds: Slack waits three for a word, and a name is not worth a repetition


class SlackUserNames:
    """Owns the names that were asked for while the app is connected."""

    def __init__(self, client: SlackClient) -> None:
        self._client = client
        self._names: dict[str, str | None] = {}

    async def get(self, user_id: str) -> str | None:
        """None: it cannot be had, and the id has to do."""
        if user_id in self._names:
            return self._names[user_id]
        if USERS_SCOPE not in self._client.scopes:
            return None
        try:
            async with asyncio.timeout(_LOOKUP_TIMEOUT):
                user = (
                    await self._client.call_form("users.info", SlackUserResponse, user=user_id)
                ).user
        except SendRejected:  # a bot, or somebody of another workspace
            return self._remember(user_id, None)
        except (SendError, TimeoutError) as error:
            log.debug("No name for %s: %s", user_id, error, extra={"action": "user_name_unknown"})
            return None
        profile = user.profile
        return self._remember(
            user_id, profile.display_name or profile.real_name or user.name or None
        )

    def _remember(self, user_id: str, name: str | None) -> str | None:
        if len(self._names) >= _MAX_NAMES:
            del self._names[next(iter(self._names))]
        self._names[user_id] = name
        return name


# MERGED holdfast.platforms.slack.files: Files that people send: which of them a message has, and how each is fetched.
# https://docs.slack.dev/reference/objects/file-object: deleted, beyond the limits of a free
# workspace, kept elsewhere.
_UNAVAILABLE_MODES = {
    "tombstone": "it was deleted",
    "hidden_by_limit": "Slack keeps it behind a paid plan",
    "external": "it is kept outside of Slack",
}


def attachments_of(
    files: Sequence[SlackFile], client: SlackClient, *, max_bytes: int, last_attempt: bool
) -> tuple[Attachment, ...]:
    """None is fetched yet. `most` is in bytes. At the last try, what cannot be fetched is not to
    be had: whatever else people say waits behind it."""
    return tuple(
        Attachment(
            name=file.name or f"file-{file.id}",
            size=file.size,
            fetch=_make_fetch(file, client, max_bytes=max_bytes, last_attempt=last_attempt),
        )
        for file in files
    )


def _make_fetch(
    file: SlackFile, client: SlackClient, *, max_bytes: int, last_attempt: bool
) -> Callable[[], Awaitable[bytes]]:
    async def fetch() -> bytes:
        try:
            return await _fetch_file(file, client, max_bytes=max_bytes)
        except (OutcomeUnknown, Throttled, NotConnected) as error:  # asking again does no harm
            if last_attempt:
                raise AttachmentUnavailable(f"it could not be fetched: {error}") from error
            raise NotConnected(str(error)) from error
        except SendRejected as error:
            raise AttachmentUnavailable(str(error)) from error

    return fetch


async def _fetch_file(file: SlackFile, client: SlackClient, *, max_bytes: int) -> bytes:
    if (why := _UNAVAILABLE_MODES.get(file.mode)) is not None:
        raise AttachmentUnavailable(why)
    if file.file_access == "check_file_info":
        # #file_access: of a channel shared with another workspace comes only the name of a file.
        file = (await client.call_form("files.info", SlackFileResponse, file=file.id)).file
    address = file.url_private_download or file.url_private
    if not address:
        raise AttachmentUnavailable("Slack does not say where it is")
    return await client.download(address, max_bytes=max_bytes)


# MERGED holdfast.platforms.slack.taking: Taking: what Slack brings is read, handed to intake, and only then acknowledged.
_NOT_ALLOWED_TEXT = "You may not do this here."
_MAX_FILE_ATTEMPTS = 4  # at the files of a message
_MESSAGE_EVENT_TYPES = frozenset({"message", "app_mention"})


class EnvelopeType(StrEnum):
    """What an envelope holds, by the names that it has on the socket."""

    EVENT = "events_api"
    COMMAND = "slash_commands"
    INTERACTION = "interactive"


class SlackReceiver:
    """Owns how often the files of a message could not be fetched."""

    def __init__(
        self,
        client: SlackClient,
        parser: SlackParser,
        user_names: SlackUserNames,
        *,
        intake: Intake,
        max_file_bytes: int,
        checkpoint: SlackCheckpoint,
    ) -> None:
        self._client = client
        self._parser = parser
        self._user_names = user_names
        self._intake = intake
        self._max_file_bytes = max_file_bytes  # bytes of one file
        self._checkpoint = checkpoint
        self._file_failures: Counter[str] = Counter()

    async def handle(self, envelope_type: str, payload: msgspec.Raw | bytes) -> str:
        """It may be acknowledged now: it is durable, or nothing to keep. What is returned is to be
        shown to whoever gave a command, if anything.

        Raises where it can be neither for the moment: `StoreError`, `IntakeClosed`, and a
        `NotConnected` where a file of it cannot be fetched yet. It is to be taken again then.
        """
        try:
            read = self._parse(envelope_type, payload)
        except msgspec.MsgspecError as error:
            # Not acknowledged, it would come again.
            log.warning(
                "What Slack brought (%s) makes no sense and is passed over: %s",
                envelope_type,
                error,
                extra={"action": "event_invalid"},
            )
            return ""
        if read is None:
            return ""
        inbound, files = read
        if envelope_type != EnvelopeType.EVENT:
            refused = await self._accept(inbound, files)
            return _NOT_ALLOWED_TEXT if refused and envelope_type == EnvelopeType.COMMAND else ""
        await self._handle_message(inbound, files)
        await self._checkpoint.advance(inbound.message_id)
        return ""

    async def handle_history_message(self, message: SlackMessage) -> None:
        """What the history of a chat has, as if it were told now. Raises as `take` does."""
        said = self._parser.parse_message(message)
        if said is not None:
            await self._handle_message(said[1], said[0].files or ())

    async def _handle_message(self, inbound: Inbound, files: tuple[SlackFile, ...]) -> None:
        """Where it was said is known durably before it is ours: from then on what follows there is
        looked for after a gap."""
        source = inbound.source
        await self._checkpoint.add_chat(
            source.chat_id, "im" if source.chat_type is ChatType.DM else ""
        )
        thread = None if source.thread_id is None else (source.chat_id, source.thread_id)
        meant = inbound.mentioned or source.chat_type is ChatType.DM
        if thread is not None and meant:
            await self._checkpoint.add_thread(thread)
        accepted = not await self._accept(inbound, files)
        if thread is not None and accepted and not meant:
            await self._checkpoint.add_thread(thread)

    def _parse(
        self, envelope_type: str, payload: msgspec.Raw | bytes
    ) -> tuple[Inbound, tuple[SlackFile, ...]] | None:
        match envelope_type:
            case EnvelopeType.EVENT:
                return self._parse_event(decode_json(payload, type=EventEnvelope).event)
            case EnvelopeType.COMMAND:
                command = decode_json(payload, type=SlackCommand)
                return self._parser.parse_command(command), ()
            case EnvelopeType.INTERACTION:
                press = self._parser.parse_interaction(decode_json(payload, type=SlackInteraction))
                return None if press is None else (press, ())
        return None

    def _parse_event(self, event: msgspec.Raw) -> tuple[Inbound, tuple[SlackFile, ...]] | None:
        if decode_json(event, type=EventHeader).type not in _MESSAGE_EVENT_TYPES:
            return None
        said = self._parser.parse_message(decode_json(event, type=SlackMessage))
        return None if said is None else (said[1], said[0].files or ())

    async def _accept(self, inbound: Inbound, files: tuple[SlackFile, ...]) -> bool:
        """Whether it was refused, or is none of ours."""
        name = inbound.event_id
        attached = self._attachments(files, name)
        if not inbound.text.strip() and not attached:
            return False
        try:
            await self._intake.accept(await self._with_user_name(inbound), attached)
        except NotAddressed as error:
            log.debug("%s: %s", name, error, extra={"action": "event_ignored"})
            return True
        except NotAllowed as error:
            log.info(
                "Event %s of user %s was dropped: %s",
                name,
                inbound.source.user_id,
                error,
                extra={"action": "event_not_allowed"},
            )
            return True
        except NotConnected:
            self._file_failures[name] += 1
            raise
        self._file_failures.pop(name, None)
        return False

    def _attachments(self, files: tuple[SlackFile, ...], event_id: str) -> tuple[Attachment, ...]:
        if not self._max_file_bytes:
            return ()
        last_try = self._file_failures.get(event_id, 0) + 1 >= _MAX_FILE_ATTEMPTS
        return attachments_of(
            files, self._client, max_bytes=self._max_file_bytes, last_attempt=last_try
        )

    async def _with_user_name(self, inbound: Inbound) -> Inbound:
        """With the name of who speaks, where more than one could."""
        source = inbound.source
        if source.chat_type is ChatType.DM or source.user_name or not source.user_id:
            return inbound
        name = await self._user_names.get(source.user_id)
        return msgspec.structs.replace(
            inbound, source=msgspec.structs.replace(source, user_name=name)
        )


# MERGED holdfast.platforms.slack.socket: The socket: envelopes come over it one by one, and each is acknowledged once it is durable.
#
# The vendor's own client takes every envelope in a task of its own and mends its line unseen; here
# what was said first is accepted first, and a line that breaks is told to whoever mends lines.
# https://docs.slack.dev/apis/events-api/using-socket-mode
PING_INTERVAL = 15.0  # seconds between two signs of life that are asked for
_HELLO_TIMEOUT = 10.0  # seconds for the first word of a socket
_MAX_QUEUED = 1000  # envelopes that are read and not taken: more stay with Slack
_CLOSE_TIMEOUT = 1.0  # seconds that are waited for an answer to it: a half-open line gives none
_DISABLED_REASON = "link_disabled"
_REFRESH_REASONS = frozenset({"warning", "refresh_requested"})
_FRAME_TYPES = {aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.PING, aiohttp.WSMsgType.PONG}


class SocketModeConnection:
    """Owns the open socket, and the envelopes that wait to be taken: events in their order, and
    commands and presses beside them, for Slack gives up on those after three seconds."""

    def __init__(
        self,
        client: SlackClient,
        app_token: Secret,
        *,
        on_activity: Callable[[], None],
        ping_interval: float = PING_INTERVAL,
    ) -> None:
        self._client = client
        self._app_token = app_token
        self._on_activity = on_activity
        self._ping_interval = ping_interval
        self._websocket: aiohttp.ClientWebSocketResponse | None = None
        self._events: asyncio.Queue[SocketFrame] = asyncio.Queue(_MAX_QUEUED)
        self._interactions: asyncio.Queue[SocketFrame] = asyncio.Queue(_MAX_QUEUED)

    async def open(self) -> None:
        """Returns once Slack has said hello."""
        address = await self._client.call_with_token(
            self._app_token, "apps.connections.open", SocketUrl
        )
        try:
            self._websocket = await self._client.http_session.ws_connect(
                address.url,
                autoping=False,
                timeout=aiohttp.ClientWSTimeout(ws_close=_CLOSE_TIMEOUT),
            )
            async with asyncio.timeout(_HELLO_TIMEOUT):
                hello = await self._next_frame(self._websocket)
        except aiohttp.WSServerHandshakeError as error:  # its text has the ticket in it
            raise NotConnected(f"the socket of Slack did not open: {error.status}") from None
        except (aiohttp.ClientError, TimeoutError) as error:
            reason = str(error) or type(error).__name__
            raise NotConnected(f"the socket of Slack did not open: {reason}") from error
        if hello is None or hello.type != "hello":
            raise NotConnected("the socket of Slack did not say hello")
        if hello.num_connections > 1:
            log.warning(
                "This app has %d sockets open, and Slack brings each event to one of them: another "
                "gateway with the same app token gets what then never comes here.",
                hello.num_connections,
                extra={"action": "socket_shared"},
            )

    async def listen(self) -> None:
        """Until the line breaks, which is raised: `AccountDisconnected`, `NotConnected`, or `ConnectRefused`.
        Slack replaces a socket every few hours and says so before: then the next one is opened."""
        while (reason := await self._read_until_disconnect()) in _REFRESH_REASONS:
            log.info("Slack replaces the socket (%s).", reason, extra={"action": "socket_replaced"})
            await self.close()
            await self.open()
        if reason != _DISABLED_REASON:
            raise AccountDisconnected(f"Slack has ended the socket: {reason}")
        raise ConnectRefused(
            "Socket Mode was switched off for this app",
            remedy="switch it on under Settings > Socket Mode at https://api.slack.com/apps",
        )

    async def process_events(self, receiver: SlackReceiver) -> None:
        """What was said, in its order, until cancelled."""
        await self._process(self._events, receiver)

    async def process_interactions(self, receiver: SlackReceiver) -> None:
        """Commands and presses: a /stop waits neither for a file nor for the disk of another's."""
        await self._process(self._interactions, receiver)

    async def send_pings(self) -> None:
        """Until cancelled. What answers is told to be alive as it is heard; what does not falls
        silent, which is noticed by whoever watches lines."""
        while True:
            await asyncio.sleep(self._ping_interval)
            if self._websocket is not None:
                with suppress(aiohttp.ClientError, ConnectionError):
                    await self._websocket.ping()

    async def close(self) -> None:
        line, self._websocket = self._websocket, None
        if line is not None:
            await line.close()

    async def _process(self, queue: asyncio.Queue[SocketFrame], receiver: SlackReceiver) -> None:
        while True:
            frame = await queue.get()
            shown = await self._handle(frame, receiver)
            if shown is not None:
                await self._acknowledge(frame, shown)

    async def _read_until_disconnect(self) -> str:
        """Why Slack wants another socket opened. Raises `AccountDisconnected`."""
        assert self._websocket is not None, "it was opened"
        while True:
            frame = await self._next_frame(self._websocket)
            if frame is None:
                raise AccountDisconnected("Slack has closed the socket")
            if frame.type == "disconnect":
                return frame.reason
            if frame.envelope_id:
                waiting = self._events if frame.type == EnvelopeType.EVENT else self._interactions
                await waiting.put(frame)

    async def _next_frame(self, websocket: aiohttp.ClientWebSocketResponse) -> SocketFrame | None:
        """The next that says something; None: there will be none."""
        while True:
            heard = await websocket.receive()
            if heard.type not in _FRAME_TYPES:
                return None
            self._on_activity()
            if heard.type is aiohttp.WSMsgType.PING:
                with suppress(aiohttp.ClientError, ConnectionError):
                    await websocket.pong(heard.data)
            elif heard.type is aiohttp.WSMsgType.TEXT:
                try:
                    return decode_json(heard.data, type=SocketFrame)
                except msgspec.MsgspecError as error:
                    log.warning("Slack said nonsense: %s", error, extra={"action": "event_invalid"})

    async def _handle(self, frame: SocketFrame, receiver: SlackReceiver) -> str | None:
        """Once it is durable: what follows waits behind it, as it was said behind it. None: it
        was a press or a command, which Slack calls failed after three seconds and brings once."""
        for pause in backoff_delays():
            try:
                return await receiver.handle(frame.type, frame.payload)
            except (StoreError, IntakeClosed, NotConnected) as error:
                log.warning(
                    "What Slack brought (%s) is not taken: %s",
                    frame.type,
                    error,
                    extra={"action": "receiver_retrying"},
                )
                if frame.type != EnvelopeType.EVENT:
                    return None
                await asyncio.sleep(pause)
        raise AssertionError("the pauses have no end")

    async def _acknowledge(self, frame: SocketFrame, reply_text: str) -> None:
        """Over the socket that is there by now. One that cannot be written to is not missed: what
        is not acknowledged comes again, and counts once."""
        answer: dict[str, object] = {"envelope_id": frame.envelope_id}
        if reply_text:
            answer["payload"] = {"text": reply_text}
        if self._websocket is not None:
            with suppress(aiohttp.ClientError, ConnectionError):
                await self._websocket.send_str(msgspec.json.encode(answer).decode())


# MERGED holdfast.platforms.slack.posted: Posted: events that Slack posts to the gateway's own listener, signed, and repeats until taken.
#
# https://docs.slack.dev/apis/events-api/using-http-request-urls: events, presses and commands come
# to one address each, which may be the same one.
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

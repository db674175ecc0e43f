"""Receives Slack events over Socket Mode or HTTP, and passes them to intake.

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
from holdfast.core.text.translation import N_
from holdfast.core.untrusted import decode_json
from holdfast.platforms.inbound import backoff_delays
from holdfast.platforms.slack.checkpoint import SlackCheckpoint
from holdfast.platforms.slack.client import USERS_SCOPE, SlackClient
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
from holdfast.system.languages import catalogue_for

log = logging.getLogger(__name__)

PING_INTERVAL = 15.0  # seconds between two pings on the socket
_MAX_NAMES = 1000
# Seconds: Slack waits three for an acknowledgement, and a name is not worth a redelivery.
_LOOKUP_TIMEOUT = 2.0
_NOT_ALLOWED_TEXT = N_("You are not allowed to do this here.")
_MAX_FILE_ATTEMPTS = 4  # for the files of one message
_MESSAGE_EVENT_TYPES = frozenset({"message", "app_mention"})
# https://docs.slack.dev/reference/objects/file-object
_UNAVAILABLE_MODES = {
    "tombstone": "deleted",
    "hidden_by_limit": "hidden by the limits of the Slack plan",
    "external": "stored outside of Slack",
}
_HELLO_TIMEOUT = 10.0  # seconds for the first frame of a socket
_MAX_QUEUED = 1000  # envelopes read but not processed; more than these stay with Slack
_CLOSE_TIMEOUT = 1.0  # seconds to wait for the closing handshake: a half-open socket never answers
_DISABLED_REASON = "link_disabled"
_REFRESH_REASONS = frozenset({"warning", "refresh_requested"})
_FRAME_TYPES = {aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.PING, aiohttp.WSMsgType.PONG}
_MAX_BODY = 1024 * 1024
_BODY_TIMEOUT = 30.0  # seconds for a body to arrive
_MAX_SIGNATURE_AGE = 300.0  # seconds: an older signed request may be a replay
_RETRY_HEADERS = {"Retry-After": "1"}
_FORM_CONTENT_TYPE = "application/x-www-form-urlencoded"


class SlackUserInfo(msgspec.Struct, frozen=True):
    """What is known of a user besides the id."""

    name: str | None = None  # None: the id is used instead
    language: str = ""


_UNKNOWN_USER = SlackUserInfo()


class SlackUsers:
    """Owns the names and languages fetched during one connection. Events contain only user ids."""

    def __init__(self, client: SlackClient) -> None:
        self._client = client
        self._users: dict[str, SlackUserInfo] = {}

    async def get(self, user_id: str) -> SlackUserInfo:
        if user_id in self._users:
            return self._users[user_id]
        if USERS_SCOPE not in self._client.scopes:
            return _UNKNOWN_USER
        try:
            async with asyncio.timeout(_LOOKUP_TIMEOUT):
                user = (
                    await self._client.call_form(
                        "users.info", SlackUserResponse, user=user_id, include_locale="true"
                    )
                ).user
        except SendRejected:  # a bot, or a user of another workspace
            return self._remember(user_id, _UNKNOWN_USER)
        except (SendError, TimeoutError) as error:
            log.debug(
                "Could not get the name and language of Slack user %s: %s",
                user_id,
                error,
                extra={"action": "user_name_unknown"},
            )
            return _UNKNOWN_USER
        name = user.profile.display_name or user.profile.real_name or user.name
        return self._remember(user_id, SlackUserInfo(name=name or None, language=user.locale))

    def _remember(self, user_id: str, user: SlackUserInfo) -> SlackUserInfo:
        if len(self._users) >= _MAX_NAMES:
            del self._users[next(iter(self._users))]
        self._users[user_id] = user
        return user


def attachments_of(
    files: Sequence[SlackFile], client: SlackClient, *, max_bytes: int, last_attempt: bool
) -> tuple[Attachment, ...]:
    """The files of a message, not fetched yet. At the last attempt, a file that cannot be fetched
    is unavailable: all later messages wait behind this one."""
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
        except (OutcomeUnknown, Throttled, NotConnected) as error:  # may be repeated
            if last_attempt:
                raise AttachmentUnavailable("could not be fetched: {error}", error=error) from error
            raise NotConnected("{error}", error=error) from error
        except SendRejected as error:
            raise AttachmentUnavailable("{error}", error=error) from error

    return fetch


async def _fetch_file(file: SlackFile, client: SlackClient, *, max_bytes: int) -> bytes:
    if (why := _UNAVAILABLE_MODES.get(file.mode)) is not None:
        raise AttachmentUnavailable(why)
    if file.file_access == "check_file_info":
        # In a channel shared with another workspace, the event contains only the id of a file.
        file = (await client.call_form("files.info", SlackFileResponse, file=file.id)).file
    address = file.url_private_download or file.url_private
    if not address:
        raise AttachmentUnavailable("Slack gives no URL for it")
    return await client.download(address, max_bytes=max_bytes)


class EnvelopeType(StrEnum):
    """What an envelope contains, by its `type` in Socket Mode."""

    EVENT = "events_api"
    COMMAND = "slash_commands"
    INTERACTION = "interactive"


class SlackReceiver:
    """Parses envelopes and passes them to intake. Owns how often the files of each message could
    not be fetched."""

    def __init__(
        self,
        client: SlackClient,
        parser: SlackParser,
        users: SlackUsers,
        *,
        intake: Intake,
        max_file_bytes: int,
        checkpoint: SlackCheckpoint,
        catch_up: "CatchUp",
    ) -> None:
        self._client = client
        self._parser = parser
        self._users = users
        self._intake = intake
        self._max_file_bytes = max_file_bytes  # bytes of one file
        self._checkpoint = checkpoint
        self._catch_up = catch_up
        self._file_failures: Counter[str] = Counter()  # failed attempts, by event id

    async def handle(self, envelope_type: str, payload: msgspec.Raw | bytes) -> str:
        """When this returns, the envelope may be acknowledged: it is durable, or needs no storing.
        Returns the text to show to the sender of a command; mostly empty.

        Raises if the envelope must be handled again later: `StoreError`, `IntakeClosed`, or
        `NotConnected` if one of its files cannot be fetched yet.
        """
        try:
            parsed = self._parse(envelope_type, payload)
        except msgspec.MsgspecError as error:
            # It is acknowledged anyway: otherwise Slack would send it again.
            log.warning(
                "Skipping an invalid envelope from Slack (%s): %s",
                envelope_type,
                error,
                extra={"action": "event_invalid"},
            )
            return ""
        if parsed is None:
            return ""
        inbound, files = await self._with_user(parsed[0]), parsed[1]
        if envelope_type != EnvelopeType.EVENT:
            refused = await self._accept(inbound, files)
            if refused and envelope_type == EnvelopeType.COMMAND:
                return catalogue_for(inbound.source.language).gettext(_NOT_ALLOWED_TEXT)
            return ""
        await self._catch_up(self, inbound.source.chat_id)
        await self._handle_message(inbound, files)
        await self._checkpoint.advance(inbound.message_id)
        return ""

    async def handle_history_message(self, message: SlackMessage) -> None:
        """Handles a message from a chat's history like a live event. Raises as `handle` does."""
        parsed = self._parser.parse_message(message)
        if parsed is not None:
            await self._handle_message(await self._with_user(parsed[1]), parsed[0].files or ())

    async def _handle_message(self, inbound: Inbound, files: tuple[SlackFile, ...]) -> None:
        """The chat and thread are saved in the checkpoint before the message is accepted, so that
        later messages there are fetched after a gap. A thread in which we were not addressed is
        saved only once intake has accepted a message of it."""
        source = inbound.source
        await self._checkpoint.add_chat(
            source.chat_id, "im" if source.chat_type is ChatType.DM else ""
        )
        thread = None if source.thread_id is None else (source.chat_id, source.thread_id)
        addressed = inbound.mentioned or source.chat_type is ChatType.DM
        if thread is not None and addressed:
            await self._checkpoint.add_thread(thread)
        accepted = not await self._accept(inbound, files)
        if thread is not None and accepted and not addressed:
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
                interaction = decode_json(payload, type=SlackInteraction)
                inbound = self._parser.parse_interaction(interaction)
                return None if inbound is None else (inbound, ())
        return None

    def _parse_event(self, event: msgspec.Raw) -> tuple[Inbound, tuple[SlackFile, ...]] | None:
        if decode_json(event, type=EventHeader).type not in _MESSAGE_EVENT_TYPES:
            return None
        parsed = self._parser.parse_message(decode_json(event, type=SlackMessage))
        return None if parsed is None else (parsed[1], parsed[0].files or ())

    async def _accept(self, inbound: Inbound, files: tuple[SlackFile, ...]) -> bool:
        """Passes the message to intake. Returns True if intake rejected it, as not allowed or not
        addressed to us."""
        event_id = inbound.event_id
        attachments = self._attachments(files, event_id)
        if not inbound.text.strip() and not attachments:
            return False
        try:
            await self._intake.accept(inbound, attachments)
        except NotAddressed as error:
            log.debug(
                "Ignored Slack event %s: %s", event_id, error, extra={"action": "event_ignored"}
            )
            return True
        except NotAllowed as error:
            log.info(
                "Dropped Slack event %s of user %s: %s",
                event_id,
                inbound.source.user_id,
                error,
                extra={"action": "event_not_allowed"},
            )
            return True
        except NotConnected:
            self._file_failures[event_id] += 1
            raise
        self._file_failures.pop(event_id, None)
        return False

    def _attachments(self, files: tuple[SlackFile, ...], event_id: str) -> tuple[Attachment, ...]:
        if not self._max_file_bytes:
            return ()
        last_attempt = self._file_failures.get(event_id, 0) + 1 >= _MAX_FILE_ATTEMPTS
        return attachments_of(
            files, self._client, max_bytes=self._max_file_bytes, last_attempt=last_attempt
        )

    async def _with_user(self, inbound: Inbound) -> Inbound:
        """Adds the sender's language, and the display name except in direct chats."""
        source = inbound.source
        if not source.user_id:
            return inbound
        user = await self._users.get(source.user_id)
        name = source.user_name
        if not name and source.chat_type is not ChatType.DM:
            name = user.name
        return msgspec.structs.replace(
            inbound,
            source=msgspec.structs.replace(source, user_name=name, language=user.language),
        )


CatchUp = Callable[[SlackReceiver, str], Awaitable[None]]
"""Passes the missed messages of a chat to the receiver, before a live one. Raises
`NotConnected`."""


class SocketModeConnection:
    """A Socket Mode connection (https://docs.slack.dev/apis/events-api/using-socket-mode). Owns the
    open socket and two queues of envelopes: events in their order, and commands and button presses
    separately, because Slack reports those as failed after three seconds.

    The vendor's own client is not used: it handles each envelope in a task of its own, so their
    order is lost, and it reconnects without reporting that it was disconnected.
    """

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
        """Returns once Slack has sent its `hello` frame."""
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
        except aiohttp.WSServerHandshakeError as error:  # its text contains the secret URL
            raise NotConnected(
                "Slack's socket did not open: {status}", status=error.status
            ) from None
        except (aiohttp.ClientError, TimeoutError) as error:
            reason = str(error) or type(error).__name__
            raise NotConnected("Slack's socket did not open: {reason}", reason=reason) from error
        if hello is None or hello.type != "hello":
            raise NotConnected("Slack's socket did not send a hello frame")
        if hello.num_connections > 1:
            log.warning(
                "This app has %d sockets open, and Slack sends each event to only one of "
                "them: another gateway with the same app token receives the events that "
                "are missing here. Stop it, or give it an app of its own",
                hello.num_connections,
                extra={"action": "socket_shared"},
            )

    async def listen(self) -> None:
        """Runs until the connection is lost, and then raises `AccountDisconnected`, `NotConnected`
        or `ConnectRefused`. Slack replaces a socket every few hours and announces it: then the next
        one is opened."""
        while (reason := await self._read_until_disconnect()) in _REFRESH_REASONS:
            log.info(
                "Slack is replacing the socket (%s); opening the next one",
                reason,
                extra={"action": "socket_replaced"},
            )
            await self.close()
            await self.open()
        if reason != _DISABLED_REASON:
            raise AccountDisconnected("Slack closed the socket: {reason}", reason=reason)
        raise ConnectRefused(
            "Socket Mode was disabled for this app",
            remedy="Enable it under Settings > Socket Mode at https://api.slack.com/apps.",
        )

    async def process_events(self, receiver: SlackReceiver) -> None:
        """Handles events in their order, until cancelled."""
        await self._process(self._events, receiver)

    async def process_interactions(self, receiver: SlackReceiver) -> None:
        """Handles commands and button presses, until cancelled. Separate from events, so that a
        /stop does not wait for the files of a message."""
        await self._process(self._interactions, receiver)

    async def send_pings(self) -> None:
        """Pings until cancelled. Each pong counts as activity; without activity, the account's
        supervisor notices the silence."""
        while True:
            await asyncio.sleep(self._ping_interval)
            if self._websocket is not None:
                with suppress(aiohttp.ClientError, ConnectionError):
                    await self._websocket.ping()

    async def close(self) -> None:
        websocket, self._websocket = self._websocket, None
        if websocket is not None:
            await websocket.close()

    async def _process(self, queue: asyncio.Queue[SocketFrame], receiver: SlackReceiver) -> None:
        while True:
            frame = await queue.get()
            reply_text = await self._handle(frame, receiver)
            if reply_text is not None:
                await self._acknowledge(frame, reply_text)

    async def _read_until_disconnect(self) -> str:
        """Queues envelopes until Slack asks to reconnect, and returns its reason. Raises
        `AccountDisconnected`."""
        assert self._websocket is not None, "it was opened"
        while True:
            frame = await self._next_frame(self._websocket)
            if frame is None:
                raise AccountDisconnected("Slack closed the socket")
            if frame.type == "disconnect":
                return frame.reason
            if frame.envelope_id:
                queue = self._events if frame.type == EnvelopeType.EVENT else self._interactions
                await queue.put(frame)

    async def _next_frame(self, websocket: aiohttp.ClientWebSocketResponse) -> SocketFrame | None:
        """The next text frame; None if the socket was closed."""
        while True:
            message = await websocket.receive()
            if message.type not in _FRAME_TYPES:
                return None
            self._on_activity()
            if message.type is aiohttp.WSMsgType.PING:
                with suppress(aiohttp.ClientError, ConnectionError):
                    await websocket.pong(message.data)
            elif message.type is aiohttp.WSMsgType.TEXT:
                try:
                    return decode_json(message.data, type=SocketFrame)
                except msgspec.MsgspecError as error:
                    log.warning(
                        "Invalid frame from Slack Socket Mode: %s",
                        error,
                        extra={"action": "event_invalid"},
                    )

    async def _handle(self, frame: SocketFrame, receiver: SlackReceiver) -> str | None:
        """Returns once the envelope is durable; later events wait behind it. None if it was a
        command or a button press and failed: Slack reports those as failed after three seconds and
        does not send them again."""
        for delay in backoff_delays():
            try:
                return await receiver.handle(frame.type, frame.payload)
            except (StoreError, IntakeClosed, NotConnected) as error:
                log.warning(
                    "Could not accept an envelope from Slack (%s): %s; %s",
                    frame.type,
                    error,
                    "retrying"
                    if frame.type == EnvelopeType.EVENT
                    else "Slack reports that it failed",
                    extra={"action": "receiver_retrying"},
                )
                if frame.type != EnvelopeType.EVENT:
                    return None
                await asyncio.sleep(delay)
        raise AssertionError("backoff_delays() is endless")

    async def _acknowledge(self, frame: SocketFrame, reply_text: str) -> None:
        """Acknowledges on the current socket, which may be a newer one. A failure is harmless:
        Slack sends the envelope again, and intake ignores the duplicate."""
        acknowledgement: dict[str, object] = {"envelope_id": frame.envelope_id}
        if reply_text:
            acknowledgement["payload"] = {"text": reply_text}
        if self._websocket is not None:
            with suppress(aiohttp.ClientError, ConnectionError):
                await self._websocket.send_str(msgspec.json.encode(acknowledgement).decode())


def events_path(account: str) -> str:
    """The path on the gateway's HTTP listener to which Slack posts an account's events."""
    return f"/hooks/slack/{account}"


class SlackEventsEndpoint:
    """The HTTP endpoint to which Slack posts signed events, button presses and commands
    (https://docs.slack.dev/apis/events-api/using-http-request-urls). Owns the requests in flight.
    Requests are accepted only while there is a receiver."""

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
        """Cancels the requests in flight. Slack posts again what is not durable yet."""
        self._receiver = None
        for post in self._in_flight:
            post.reschedule(0.0)  # ends it with a TimeoutError

    async def _handle_post(self, request: web.Request) -> web.Response:
        """Responds with 200 once the envelope is durable. Otherwise Slack posts it again: at once,
        after one minute, and after five."""
        try:
            body = await _read_body(request)
        except TimeoutError:
            return web.Response(status=408)
        if body is None:
            return web.Response(status=413)
        if not self._has_valid_signature(request.headers, body):
            return web.Response(status=401)
        try:
            envelope_type, payload = _parse_envelope(request.content_type, body)
            if envelope_type == EnvelopeType.EVENT and (challenge := _url_challenge(payload)):
                return web.Response(text=challenge)
            if self._receiver is None:
                return web.Response(status=503, headers=_RETRY_HEADERS)
            reply_text = await self._handle(self._receiver, envelope_type, payload)
        except (StoreError, IntakeClosed, NotConnected, TimeoutError) as error:
            log.warning(
                "Could not accept an event from Slack, which will post it again: %s",
                error,
                extra={"action": "receiver_retrying"},
            )
            return web.Response(status=503, headers=_RETRY_HEADERS)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            return web.Response(status=400, text=f"not a valid event: {error}\n")
        return web.json_response({"text": reply_text}) if reply_text else web.Response()

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


async def _read_body(request: web.Request) -> bytes | None:
    """The body; None if it is larger than any event is. Until the signature is checked, it may come
    from anyone."""
    if (request.content_length or 0) > _MAX_BODY:
        return None
    body = bytearray()
    async with asyncio.timeout(_BODY_TIMEOUT):
        async for chunk in request.content.iter_any():
            body += chunk
            if len(body) > _MAX_BODY:
                return None
    return bytes(body)


def _parse_envelope(content_type: str, body: bytes) -> tuple[EnvelopeType, bytes]:
    """A form contains a button press as JSON, or the fields of a command. Everything else is an
    event."""
    if content_type != _FORM_CONTENT_TYPE:
        return EnvelopeType.EVENT, body
    form = dict(parse_qsl(body.decode(), keep_blank_values=True))
    if "payload" in form:
        return EnvelopeType.INTERACTION, form["payload"].encode()
    return EnvelopeType.COMMAND, msgspec.json.encode(form)


def _url_challenge(payload: bytes) -> str:
    """The challenge that Slack sends when the address is entered, and wants to get back:
    https://docs.slack.dev/reference/events/url_verification. Else empty."""
    envelope = decode_json(payload, type=EventEnvelope)
    return envelope.challenge if envelope.type == "url_verification" else ""

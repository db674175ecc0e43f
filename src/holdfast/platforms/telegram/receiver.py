"""Receives updates by polling or by a webhook: parses each, passes it to intake, and only then
confirms it."""

import asyncio
import hashlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from urllib.parse import urlsplit

import msgspec
from aiohttp import web

from holdfast.core.errors import (
    IntakeClosed,
    NotAddressed,
    NotAllowed,
    NotConnected,
    OutcomeUnknown,
    SendError,
    StoreError,
    Throttled,
)
from holdfast.core.messages.inbox import Inbound
from holdfast.core.messages.source import Attachment, AttachmentUnavailable
from holdfast.core.ports.platform import Intake
from holdfast.core.secrets import Secret
from holdfast.core.text.translation import N_
from holdfast.core.untrusted import decode_json
from holdfast.platforms.inbound import backoff_delays
from holdfast.platforms.telegram.client import TelegramClient, TelegramConflict
from holdfast.platforms.telegram.events import (
    ALLOWED_UPDATES,
    TelegramCallbackQuery,
    TelegramFileInfo,
    TelegramMessage,
    TelegramParser,
    TelegramUpdate,
    TelegramUpdateId,
    TelegramWebhookInfo,
)
from holdfast.system.languages import catalogue_for

log = logging.getLogger(__name__)

SECRET_HEADER = "X-Telegram-Bot-Api-Secret-Token"
CHECK_INTERVAL = 60.0  # seconds between two checks whether Telegram still uses our webhook
POLL_GRACE = 10.0  # seconds that a response may take beyond the duration of a long poll
_MAX_FILE_ATTEMPTS = 4  # for the files of one update
_BUTTON_TIMEOUT = 5.0  # seconds: a stop waits no longer for the response to a button
_NOT_ALLOWED_TEXT = N_("You are not allowed to do this here.")
_RETRY_HEADERS = {"Retry-After": "1"}
# The file extensions for kinds of files that have no name.
_EXTENSIONS = {"voice": "ogg", "audio": "mp3", "video": "mp4", "video_note": "mp4"}


def attachments_of(
    message: TelegramMessage, client: TelegramClient, *, max_bytes: int, last_attempt: bool
) -> tuple[Attachment, ...]:
    """The files of the message, not fetched yet. At the last attempt, a file that cannot be fetched
    is unavailable: all later updates wait behind this one."""
    return tuple(
        Attachment(
            name=name,
            size=info.file_size,
            fetch=_make_fetch(info, client, max_bytes=max_bytes, last_attempt=last_attempt),
        )
        for name, info in _files_in(message)
    )


def _make_fetch(
    info: TelegramFileInfo, client: TelegramClient, *, max_bytes: int, last_attempt: bool
) -> Callable[[], Awaitable[bytes]]:
    async def fetch() -> bytes:
        try:
            return await client.download(info.file_id, max_bytes=max_bytes)
        except NotConnected as error:
            if last_attempt:
                raise AttachmentUnavailable("could not be fetched: {error}", error=error) from error
            raise

    return fetch


def _files_in(message: TelegramMessage) -> Iterator[tuple[str, TelegramFileInfo]]:
    """The files with their names: of a photo the largest size, which is the last one; an animation
    also arrives as a document."""
    number = message.message_id
    if message.photo:
        yield f"photo-{number}.jpg", message.photo[-1]
    if message.document is not None:
        yield message.document.file_name or f"file-{number}", message.document
    kinds = (message.voice, message.audio, message.video, message.video_note)
    for (kind, ending), info in zip(_EXTENSIONS.items(), kinds, strict=True):
        if info is not None:
            yield info.file_name or f"{kind}-{number}.{ending}", info


class TelegramReceiver:
    """Owns the background tasks that an update starts, in the task group of the connection."""

    def __init__(
        self,
        client: TelegramClient,
        parser: TelegramParser,
        *,
        intake: Intake,
        max_file_bytes: int,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._client = client
        self._parser = parser
        self._intake = intake
        self._max_file_bytes = max_file_bytes  # bytes of one file
        self._tasks = tasks
        self._file_failures: Counter[int] = Counter()  # failed attempts, by update
        self._stopped = False

    async def handle_update(self, raw: msgspec.Raw | bytes, *, with_cursor: bool) -> int:
        """Return the number of the update, which may be confirmed now: it is durable, or needs no
        storing.

        Raises `StoreError` or `IntakeClosed` if it cannot be stored now, and `NotConnected` if one
        of its files cannot be fetched yet. Telegram then sends it again.
        """
        number = decode_json(raw, type=TelegramUpdateId).update_id
        try:
            update = decode_json(raw, type=TelegramUpdate)
        except msgspec.MsgspecError as error:
            # Unconfirmed, it would be sent again forever and block the rest.
            log.warning(
                "Skipping invalid update %d from Telegram: %s",
                number,
                error,
                extra={"action": "update_invalid"},
            )
            return number
        inbound = self._parser.to_inbound(update, with_cursor=with_cursor)
        if inbound is not None:
            try:
                await self._accept(update, inbound)
            except NotConnected:
                self._file_failures[number] += 1
                raise
        self._file_failures.pop(number, None)
        return number

    def stop(self) -> None:
        """Start no further background task: the connection ends."""
        self._stopped = True

    async def _accept(self, update: TelegramUpdate, inbound: Inbound) -> None:
        reply = ""
        try:
            attachments = self._attachments(update)
            # Otherwise a person joined, or pinned a message.
            if inbound.text.strip() or attachments:
                await self._intake.accept(inbound, attachments)
        except NotAddressed as error:
            log.debug(
                "Ignored Telegram update %s: %s",
                inbound.event_id,
                error,
                extra={"action": "update_ignored"},
            )
        except NotAllowed as error:
            reply = catalogue_for(inbound.source.language).gettext(_NOT_ALLOWED_TEXT)
            log.info(
                "Dropped Telegram update %s of user %s: %s",
                inbound.event_id,
                inbound.source.user_id,
                error,
                extra={"action": "update_not_allowed"},
            )
        if update.callback_query is not None and not self._stopped:
            self._tasks.create_task(self._answer_button(update.callback_query, reply))

    def _attachments(self, update: TelegramUpdate) -> tuple[Attachment, ...]:
        if update.any_message is None or not self._max_file_bytes:
            return ()
        last_try = self._file_failures[update.update_id] + 1 >= _MAX_FILE_ATTEMPTS
        return attachments_of(
            update.any_message, self._client, max_bytes=self._max_file_bytes, last_attempt=last_try
        )

    async def _answer_button(self, query: TelegramCallbackQuery, text: str) -> None:
        """Stop the progress indicator of the button. Called after the commit, so that it is shown
        until the press is durable; a failure has no consequences."""
        try:
            await self._client.call(
                "answerCallbackQuery",
                bool,
                timeout_seconds=_BUTTON_TIMEOUT,
                callback_query_id=query.id,
                text=text or None,
            )
        except SendError as error:
            log.debug(
                "Could not acknowledge a press of a Telegram button: %s",
                error,
                extra={"action": "button_not_acknowledged"},
            )


class TelegramPoller:
    """Owns the position up to which updates are confirmed. Runs until it is cancelled, or until the
    connection breaks, which is raised."""

    def __init__(
        self,
        client: TelegramClient,
        receiver: TelegramReceiver,
        *,
        poll_seconds: int,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._receiver = receiver
        self._poll_seconds = poll_seconds  # the duration of a long poll without updates
        self._sleep = sleep

    async def run(self, cursor: str | None) -> None:
        """`cursor` is the last update that is durable here: polling starts after it.

        The offset is assigned, never the maximum of two: after a week without updates Telegram
        starts with other numbers, and an offset beyond all of them would confirm none.
        """
        offset = None if cursor is None else int(cursor) + 1
        delays = backoff_delays()
        while True:
            updates = await self._get_updates(offset)
            try:
                for raw in updates:
                    offset = await self._receiver.handle_update(raw, with_cursor=True) + 1
                delays = backoff_delays()
            except (StoreError, IntakeClosed, NotConnected) as error:
                delay = next(delays)
                log.warning(
                    "Could not accept updates from Telegram: %s; retrying in %.1f s",
                    error,
                    delay,
                    extra={"action": "receiver_retrying"},
                )
                await self._sleep(delay)

    async def _get_updates(self, offset: int | None) -> list[msgspec.Raw]:
        """Raises `NotConnected` for every connection failure: polling again does no harm."""
        while True:
            try:
                return await self._client.call(
                    "getUpdates",
                    list[msgspec.Raw],
                    timeout_seconds=self._poll_seconds + POLL_GRACE,
                    offset=offset,
                    timeout=self._poll_seconds,
                    allowed_updates=ALLOWED_UPDATES,
                )
            except Throttled as error:
                await self._sleep(error.retry_after)
            except OutcomeUnknown as error:
                raise NotConnected("{error}", error=error) from error


def webhook_path(account: str) -> str:
    """The path on the gateway's listener for the updates of an account."""
    return f"/hooks/telegram/{account}"


def is_our_webhook(url: str, account: str) -> bool:
    """Whether a gateway has set it, or none is set, so that it may be deleted or replaced."""
    return not url or urlsplit(url).path == webhook_path(account)


class TelegramWebhook:
    """Owns the receiver while the account is connected (posts are accepted only then), and the
    requests in progress."""

    def __init__(
        self, client: TelegramClient, token: Secret, *, account: str, address: str
    ) -> None:
        self._client = client
        self._account = account
        self._url = address.rstrip("/") + webhook_path(account) if address else ""
        # Derived, so that it is the same after a restart without being stored.
        digest = hashlib.sha256(f"webhook of {token.reveal()}".encode()).hexdigest()
        self._secret = Secret(digest)
        self._receiver: TelegramReceiver | None = None
        self._in_progress: set[asyncio.Task[int]] = set()

    def routes(self) -> Sequence[web.RouteDef]:
        return (web.post(webhook_path(self._account), self._handle_request),) if self._url else ()

    async def run(
        self, receiver: TelegramReceiver, *, check_interval: float = CHECK_INTERVAL
    ) -> None:
        """Accept posts until cancelled. Raises `NotConnected` if Telegram is unreachable, and
        `TelegramConflict` if it posts to another URL by now."""
        self._receiver = receiver
        try:
            while True:
                await asyncio.sleep(check_interval)
                info = await self._client.call("getWebhookInfo", TelegramWebhookInfo)
                if info.url != self._url:
                    raise _conflict(info.url)
        finally:
            self._receiver = None
            for post in self._in_progress:
                post.cancel()

    async def register(self) -> None:
        """Set the webhook with one connection, so that updates are accepted in order."""
        info = await self._client.call("getWebhookInfo", TelegramWebhookInfo)
        if not is_our_webhook(info.url, self._account):
            raise _conflict(info.url)
        await self._client.call(
            "setWebhook",
            bool,
            url=self._url,
            secret_token=self._secret.reveal(),
            allowed_updates=ALLOWED_UPDATES,
            max_connections=1,
        )

    async def delete(self) -> None:
        """Delete the webhook, so that updates can be polled; pending ones are not lost."""
        info = await self._client.call("getWebhookInfo", TelegramWebhookInfo)
        if not is_our_webhook(info.url, self._account):
            raise _conflict(info.url)
        await self._client.call("deleteWebhook", bool, drop_pending_updates=False)

    async def _handle_request(self, request: web.Request) -> web.Response:
        """Respond with 200 once the update is durable; otherwise Telegram posts it again."""
        if not self._secret.matches(request.headers.get(SECRET_HEADER, "")):
            return web.Response(status=401)
        if self._receiver is None:
            return web.Response(status=503, headers=_RETRY_HEADERS)
        try:
            await self._handle_update(self._receiver, await request.read())
        except (StoreError, IntakeClosed, NotConnected) as error:
            log.warning(
                "Could not accept an update from Telegram, which will post it again: %s",
                error,
                extra={"action": "receiver_retrying"},
            )
            return web.Response(status=503, headers=_RETRY_HEADERS)
        except msgspec.MsgspecError as error:
            return web.Response(status=400, text=f"invalid update: {error}\n")
        return web.Response()

    async def _handle_update(self, receiver: TelegramReceiver, body: bytes) -> None:
        """Handle it in a task of its own, which is cancelled with the account; the listener stays
        open."""
        post = asyncio.ensure_future(receiver.handle_update(body, with_cursor=False))
        self._in_progress.add(post)
        try:
            await post
        except asyncio.CancelledError:
            if self._receiver is None:
                raise NotConnected("the account was disconnected meanwhile") from None
            raise
        finally:
            self._in_progress.discard(post)


def _conflict(url: str) -> TelegramConflict:
    if not url:
        return TelegramConflict("its webhook was deleted")
    return TelegramConflict("its webhook is {url}", url=url, holder=url)

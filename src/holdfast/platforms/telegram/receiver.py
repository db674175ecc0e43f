"""Receives updates, polled or posted by Telegram: parses each, passes it to intake, and only then confirms it."""

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

log = logging.getLogger(__name__)


# MERGED holdfast.platforms.telegram.files: Files that people send: which of them a message has, and how each is fetched.
# What a kind of file is called where it has no name of its own.
_EXTENSIONS = {"voice": "ogg", "audio": "mp3", "video": "mp4", "video_note": "mp4"}


def attachments_of(
    message: TelegramMessage, client: TelegramClient, *, max_bytes: int, last_attempt: bool
) -> tuple[Attachment, ...]:
    """None is fetched yet. `most` is in bytes. At the last try, what cannot be fetched is not to
    be had: whatever else people say waits behind it."""
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
                raise AttachmentUnavailable(f"it could not be fetched: {error}") from error
            raise

    return fetch


def _files_in(message: TelegramMessage) -> Iterator[tuple[str, TelegramFileInfo]]:
    """Of a photo the largest of its sizes, which is the last; an animation is also told as a
    document."""
    number = message.message_id
    if message.photo:
        yield f"photo-{number}.jpg", message.photo[-1]
    if message.document is not None:
        yield message.document.file_name or f"file-{number}", message.document
    kinds = (message.voice, message.audio, message.video, message.video_note)
    for (kind, ending), info in zip(_EXTENSIONS.items(), kinds, strict=True):
        if info is not None:
            yield info.file_name or f"{kind}-{number}.{ending}", info


# MERGED holdfast.platforms.telegram.taking: Taking: one update is read, handed to intake, and only then confirmed by whoever brought it.
_NOT_ALLOWED_TEXT = "You may not do this here."
_MAX_FILE_ATTEMPTS = 4  # at the files of an update
_BUTTON_TIMEOUT = 5.0  # seconds: a stop does not wait longer for a button


class TelegramReceiver:
    """Owns the errands that an update leaves behind, in the task group of the connection."""

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
        self._file_failures: Counter[int] = Counter()  # tries at the files of updates
        self._stopped = False

    async def handle_update(self, raw: msgspec.Raw | bytes, *, with_cursor: bool) -> int:
        """The number of the update, which may be confirmed now: it is durable, or nothing to keep.

        Raises where it can be neither for the moment: `StoreError`, `IntakeClosed`, and a
        `NotConnected` where a file of it cannot be fetched yet. The vendor then gives it again.
        """
        number = decode_json(raw, type=TelegramUpdateId).update_id
        try:
            update = decode_json(raw, type=TelegramUpdate)
        except msgspec.MsgspecError as error:
            # Unconfirmed, it would come back for ever and hold up the rest.
            log.warning(
                "Update %d of Telegram makes no sense and is passed over: %s",
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
        """The connection ends: nothing more is done on the side."""
        self._stopped = True

    async def _accept(self, update: TelegramUpdate, inbound: Inbound) -> None:
        reply = ""
        try:
            attached = self._attachments(update)
            if inbound.text.strip() or attached:  # else somebody joined, or pinned something
                await self._intake.accept(inbound, attached)
        except NotAddressed as error:
            log.debug("%s: %s", inbound.event_id, error, extra={"action": "update_ignored"})
        except NotAllowed as error:
            reply = _NOT_ALLOWED_TEXT
            log.info(
                "Update %s of user %s was dropped: %s",
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
        """The button stops showing that it waits. After the commit, so that it waits until its
        press is ours; nobody is the worse where this fails."""
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
                "A button was not answered: %s", error, extra={"action": "button_not_acknowledged"}
            )


# MERGED holdfast.platforms.telegram.polling: Polling: updates are asked for, taken, and confirmed by the next question.
POLL_GRACE = 10.0  # seconds that an answer may take beyond the time for which a poll is held


class TelegramPoller:
    """Owns how far the stream of updates is confirmed. Runs until it is cancelled, or until the
    line breaks: that is raised, for whoever mends lines."""

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
        self._poll_seconds = (
            poll_seconds  # seconds for which the vendor holds a poll that has nothing to tell
        )
        self._sleep = sleep

    async def run(self, cursor: str | None) -> None:
        """`cursor` is the last update that is durable here: those behind it are asked for.

        Assigned, never the greater of two: after a week without updates the vendor numbers them
        anew, and an offset beyond them all would confirm none.
        """
        offset = None if cursor is None else int(cursor) + 1
        pauses = backoff_delays()
        while True:
            updates = await self._get_updates(offset)
            try:
                for raw in updates:
                    offset = await self._receiver.handle_update(raw, with_cursor=True) + 1
                pauses = backoff_delays()
            except (StoreError, IntakeClosed, NotConnected) as error:
                pause = next(pauses)
                log.warning(
                    "Updates of Telegram are not taken: %s. The next try is in %.1f s.",
                    error,
                    pause,
                    extra={"action": "receiver_retrying"},
                )
                await self._sleep(pause)

    async def _get_updates(self, offset: int | None) -> list[msgspec.Raw]:
        """Raises `NotConnected` for every kind of broken line: asking again does no harm."""
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
                raise NotConnected(str(error)) from error


# MERGED holdfast.platforms.telegram.webhook: Webhook: Telegram posts updates to the gateway's own listener, and repeats what is not taken.
SECRET_HEADER = "X-Telegram-Bot-Api-Secret-Token"
CHECK_INTERVAL = 60.0  # seconds between two questions whether Telegram still posts to us
_RETRY_HEADERS = {"Retry-After": "1"}


def webhook_path(account: str) -> str:
    """Where on our listener the updates of an account arrive."""
    return f"/hooks/telegram/{account}"


def is_our_webhook(url: str, account: str) -> bool:
    """Whether a gateway like this one has set it: then it may be taken down, or moved."""
    return not url or urlsplit(url).path == webhook_path(account)


class TelegramWebhook:
    """Owns whether posts are taken: only while a `Taking` is there."""

    def __init__(
        self, client: TelegramClient, token: Secret, *, account: str, address: str
    ) -> None:
        self._client = client
        self._account = account
        self._url = address.rstrip("/") + webhook_path(account) if address else ""
        # Known to Telegram and to us, over a restart too, and kept by nobody.
        digest = hashlib.sha256(f"webhook of {token.reveal()}".encode()).hexdigest()
        self._secret = Secret(digest)
        self._receiver: TelegramReceiver | None = None
        self._in_progress: set[asyncio.Task[int]] = set()  # those that are being taken

    def routes(self) -> Sequence[web.RouteDef]:
        return (web.post(webhook_path(self._account), self._handle_request),) if self._url else ()

    async def run(
        self, receiver: TelegramReceiver, *, check_interval: float = CHECK_INTERVAL
    ) -> None:
        """Take what is posted, until cancelled. Raises `NotConnected` where Telegram is gone, and
        `Held` where it posts elsewhere by now."""
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
        """One post at a time, so that what was said first is accepted first."""
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
        """So that updates can be polled for; none of those that wait is lost by it."""
        info = await self._client.call("getWebhookInfo", TelegramWebhookInfo)
        if not is_our_webhook(info.url, self._account):
            raise _conflict(info.url)
        await self._client.call("deleteWebhook", bool, drop_pending_updates=False)

    async def _handle_request(self, request: web.Request) -> web.Response:
        """200 once it is durable; else Telegram posts it again."""
        if not self._secret.matches(request.headers.get(SECRET_HEADER, "")):
            return web.Response(status=401)
        if self._receiver is None:
            return web.Response(status=503, headers=_RETRY_HEADERS)
        try:
            await self._handle_update(self._receiver, await request.read())
        except (StoreError, IntakeClosed, NotConnected) as error:
            log.warning("An update is not taken: %s", error, extra={"action": "receiver_retrying"})
            return web.Response(status=503, headers=_RETRY_HEADERS)
        except msgspec.MsgspecError as error:
            return web.Response(status=400, text=f"this is no update: {error}\n")
        return web.Response()

    async def _handle_update(self, receiver: TelegramReceiver, body: bytes) -> None:
        """In a task of its own, which goes with the account: the listener that asks here stays."""
        post = asyncio.ensure_future(receiver.handle_update(body, with_cursor=False))
        self._in_progress.add(post)
        try:
            await post
        except asyncio.CancelledError:
            if self._receiver is None:
                raise NotConnected("the account was let go meanwhile") from None
            raise
        finally:
            self._in_progress.discard(post)


def _conflict(url: str) -> TelegramConflict:
    if not url:
        return TelegramConflict("its webhook was deleted")
    return TelegramConflict(f"they are posted to {url}", holder=url)

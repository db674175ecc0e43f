"""Webhook: Telegram posts updates to the gateway's own listener, and repeats what is not taken."""

import asyncio
import hashlib
import logging
from collections.abc import Sequence
from urllib.parse import urlsplit

import msgspec
from aiohttp import web

from holdfast.core.errors import IntakeClosed, NotConnected, StoreError
from holdfast.core.secret import Secret
from holdfast.platforms.telegram.client import TelegramClient, TelegramConflict
from holdfast.platforms.telegram.taking import TelegramReceiver
from holdfast.platforms.telegram.wire import ALLOWED_UPDATES, TelegramWebhookInfo

log = logging.getLogger(__name__)

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

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
from holdfast.platforms.telegram.client import BotApi, Held
from holdfast.platforms.telegram.taking import Taking
from holdfast.platforms.telegram.wire import WANTED, WebhookInfo

log = logging.getLogger(__name__)

HEADER = "X-Telegram-Bot-Api-Secret-Token"
SIGN_OF_LIFE = 60.0  # seconds between two questions whether Telegram still posts to us
_LATER = {"Retry-After": "1"}


def path_of(account: str) -> str:
    """Where on our listener the updates of an account arrive."""
    return f"/hooks/telegram/{account}"


def is_ours(url: str, account: str) -> bool:
    """Whether a gateway like this one has set it: then it may be taken down, or moved."""
    return not url or urlsplit(url).path == path_of(account)


class Webhook:
    """Owns whether posts are taken: only while a `Taking` is there."""

    def __init__(self, api: BotApi, token: Secret, *, account: str, address: str) -> None:
        self._api = api
        self._account = account
        self._url = address.rstrip("/") + path_of(account) if address else ""
        # Known to Telegram and to us, over a restart too, and kept by nobody.
        digest = hashlib.sha256(f"webhook of {token.reveal()}".encode()).hexdigest()
        self._secret = Secret(digest)
        self._taking: Taking | None = None
        self._posts: set[asyncio.Task[int]] = set()  # those that are being taken

    def routes(self) -> Sequence[web.RouteDef]:
        return (web.post(path_of(self._account), self._posted),) if self._url else ()

    async def hold(self, taking: Taking, *, every: float = SIGN_OF_LIFE) -> None:
        """Take what is posted, until cancelled. Raises `NotConnected` where Telegram is gone, and
        `Held` where it posts elsewhere by now."""
        self._taking = taking
        try:
            while True:
                await asyncio.sleep(every)
                info = await self._api.call("getWebhookInfo", WebhookInfo)
                if info.url != self._url:
                    raise _elsewhere(info.url)
        finally:
            self._taking = None
            for post in self._posts:
                post.cancel()

    async def set(self) -> None:
        """One post at a time, so that what was said first is accepted first."""
        info = await self._api.call("getWebhookInfo", WebhookInfo)
        if not is_ours(info.url, self._account):
            raise _elsewhere(info.url)
        await self._api.call(
            "setWebhook",
            bool,
            url=self._url,
            secret_token=self._secret.reveal(),
            allowed_updates=WANTED,
            max_connections=1,
        )

    async def take_down(self) -> None:
        """So that updates can be polled for; none of those that wait is lost by it."""
        info = await self._api.call("getWebhookInfo", WebhookInfo)
        if not is_ours(info.url, self._account):
            raise _elsewhere(info.url)
        await self._api.call("deleteWebhook", bool, drop_pending_updates=False)

    async def _posted(self, request: web.Request) -> web.Response:
        """200 once it is durable; else Telegram posts it again."""
        if not self._secret.matches(request.headers.get(HEADER, "")):
            return web.Response(status=401)
        if self._taking is None:
            return web.Response(status=503, headers=_LATER)
        try:
            await self._take(self._taking, await request.read())
        except (StoreError, IntakeClosed, NotConnected) as error:
            log.warning("An update is not taken: %s", error, extra={"action": "feed_paused"})
            return web.Response(status=503, headers=_LATER)
        except msgspec.MsgspecError as error:
            return web.Response(status=400, text=f"this is no update: {error}\n")
        return web.Response()

    async def _take(self, taking: Taking, body: bytes) -> None:
        """In a task of its own, which goes with the account: the listener that asks here stays."""
        post = asyncio.ensure_future(taking.take(body, kept=False))
        self._posts.add(post)
        try:
            await post
        except asyncio.CancelledError:
            if self._taking is None:
                raise NotConnected("the account was let go meanwhile") from None
            raise
        finally:
            self._posts.discard(post)


def _elsewhere(url: str) -> Held:
    if not url:
        return Held("its webhook was deleted")
    return Held(f"they are posted to {url}", holder=url)

"""Webhooks of the fake Bot API: updates are posted until the response is 2xx."""

import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import aiohttp
from tests.platforms.telegram.fake import FakeTelegram, Json
from tests.platforms.telegram.fake_polling import FakePolling
from tests.platforms.telegram.faults import bad

_RETRY = 0.05


class FakeWebhook:
    """Owns the task that posts. `vendor.proxies` says where an https address leads to: what a
    reverse proxy with a certificate does for a gateway on loopback."""

    def __init__(self, vendor: FakeTelegram, polling: FakePolling) -> None:
        self._vendor = vendor
        self._polling = polling
        self._task: asyncio.Task[None] | None = None

    async def set(self, args: Mapping[str, Any]) -> bool:
        """https://core.telegram.org/bots/api#setwebhook: "HTTPS URL to send updates to. Use an
        empty string to remove webhook integration"; `secret_token`: "1-256 characters. Only
        characters A-Z, a-z, 0-9, _ and - are allowed"."""
        url, secret = str(args.get("url", "")), str(args.get("secret_token", ""))
        if not url:
            return await self.delete(args)
        if not url.startswith("https://"):
            raise bad("bad webhook: An HTTPS URL must be provided for webhook")
        if secret and not re.fullmatch("[A-Za-z0-9_-]{1,256}", secret):
            raise bad("secret token contains unallowed characters")
        if args.get("allowed_updates") is not None:
            self._vendor.updates.allowed = frozenset(args["allowed_updates"])
        # tdlib/telegram-bot-api, Client::process_set_webhook_query: who polls is turned away.
        self._polling.turn_away("terminated by setWebhook request")
        await self.close()
        self._vendor.webhook = {"url": url, "secret": secret, "last_error_message": ""}
        self._task = asyncio.create_task(self._post_all(url, secret), name="webhook")
        return True

    async def delete(self, args: Mapping[str, Any]) -> bool:
        """https://core.telegram.org/bots/api#deletewebhook"""
        if str(args.get("drop_pending_updates", "")).lower() == "true":
            self._vendor.updates.waiting.clear()
        self._vendor.webhook = {"url": ""}
        await self.close()
        return True

    async def info(self, args: Mapping[str, Any]) -> Json:
        """https://core.telegram.org/bots/api#webhookinfo"""
        hook = {key: value for key, value in self._vendor.webhook.items() if key != "secret"}
        waiting = len(self._vendor.updates.waiting)
        return {**hook, "has_custom_certificate": False, "pending_update_count": waiting}

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _post_all(self, url: str, secret: str) -> None:
        """#setwebhook: "In case of an unsuccessful request (a request with response HTTP status
        code different from 2XY), we will repeat the request and give up after a reasonable amount
        of attempts"; "the request will contain a header X-Telegram-Bot-Api-Secret-Token with the
        secret token as content"."""
        updates = self._vendor.updates
        headers = {"X-Telegram-Bot-Api-Secret-Token": secret} if secret else {}
        async with aiohttp.ClientSession(headers=headers) as http:
            while True:
                while updates.waiting:
                    update = updates.waiting[0]
                    if await self._post(http, url, update):
                        updates.confirm(update["update_id"] + 1)
                    else:
                        await asyncio.sleep(_RETRY)
                updates.changed.clear()
                await updates.changed.wait()

    async def _post(self, http: aiohttp.ClientSession, url: str, update: Json) -> bool:
        try:
            async with http.post(self._behind(url), json=update) as response:
                if 200 <= response.status < 300:
                    return True
                problem = f"Wrong response from the webhook: {response.status} {response.reason}"
        except aiohttp.ClientError as error:
            problem = f"Connection failed: {error}"
        self._vendor.webhook["last_error_message"] = problem
        return False

    def _behind(self, url: str) -> str:
        for outside, inside in self._vendor.proxies.items():
            if url.startswith(outside):
                return inside + url.removeprefix(outside)
        return url

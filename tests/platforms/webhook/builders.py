"""Builds a webhook platform with one hook, and what tests post to it and send with it."""

import hashlib
import hmac
import json
from itertools import count
from typing import Any

import aiohttp
from tests.support.gateway_harness import WallClock

from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import Address, Outbound
from holdfast.core.secrets import Secret
from holdfast.platforms.webhook.platform import WebhookPlatform
from holdfast.platforms.webhook.plugin import HookSettings, WebhookSettings
from holdfast.platforms.webhook.receiver import hook_path

SECRET = "a secret of the hook"
OURS = "whsec_bm90IGEgc2VjcmV0IG9mIGFueWJvZHk="
PATH = hook_path("default", "build")


def settings_of(
    url: str = "", *, hook: dict[str, Any] | None = None, **more: Any
) -> WebhookSettings:
    hooks = {"build": HookSettings(secret="env:HOOK", **(hook or {}))}
    private = {"allow_private": True, "secret": "env:OURS"} if url else {}
    return WebhookSettings(url=url, **{"hooks": hooks, **private, **more})


def new_platform(
    url: str = "",
    *,
    clock: WallClock | None = None,
    hook: dict[str, Any] | None = None,
    **more: Any,
) -> WebhookPlatform:
    numbers = count(1)
    return WebhookPlatform(
        {"hooks.build.secret": Secret(SECRET), **({"secret": Secret(OURS)} if url else {})},
        account="default",
        settings=settings_of(url, hook=hook, **more),
        clock=clock or WallClock(),
        new_id=lambda prefix: f"{prefix}{next(numbers)}",
    )


def signed(body: bytes, *, secret: str = SECRET) -> dict[str, str]:
    """As GitHub does it."""
    digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return {"X-Hub-Signature-256": f"sha256={digest}", "Content-Type": "application/json"}


class HookClient:
    """A client that posts to the hook."""

    def __init__(self, http: aiohttp.ClientSession, address: str) -> None:
        self.http = http
        self.address = address

    async def post(self, body: Any, **headers: str) -> tuple[int, dict[str, Any]]:
        """The answer, and its status."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        given = {**signed(data), **{name.replace("_", "-"): each for name, each in headers.items()}}
        async with self.http.post(PATH, data=data, headers=given) as response:
            return response.status, await response.json()


def outbound(text: str, *, delivery: str = "d1", **more: Any) -> Outbound:
    return Outbound(delivery_id=DeliveryId(delivery), address=address(), text=text, **more)


def address(**more: Any) -> Address:
    return Address(platform="webhook", account="default", chat_id="build", **more)

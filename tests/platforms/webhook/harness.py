"""The conformance harnesses for webhooks: programs that post to hooks, and a fake receiver."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from tests.platforms.connection_faults import ConnectionFault
from tests.platforms.webhook.builders import OURS, SECRET, address, signed
from tests.platforms.webhook.fake_receiver import FakeReceiver, Json, listening
from tests.support.gateway_harness import WallClock

from holdfast.core.messages.outbox import Address, OutboundFile
from holdfast.core.secrets import Secret
from holdfast.platforms.webhook.platform import WebhookPlatform
from holdfast.platforms.webhook.plugin import HookSettings, WebhookSettings
from holdfast.platforms.webhook.receiver import hook_path
from holdfast.testing.conformance import (
    ChatKind,
    FaultProxy,
    NotSupported,
    Participant,
    PlatformHarness,
    VendorFault,
    VisibleMessage,
)

_HOOKS = {Participant.ANN: "build", Participant.BOB: "bob"}  # a program each
_AGAIN = 0.01  # seconds until a failed post is repeated
_FAULTS: dict[VendorFault, tuple[int, dict[str, str]] | ConnectionFault] = {
    VendorFault.RATE_LIMIT: (429, {"Retry-After": "7"}),
    VendorFault.REFUSED: (422, {}),
    VendorFault.RECEIPT_LOST: ConnectionFault.RESET_AFTER,
}
_THREAD = "7"


class WebhookHarness(PlatformHarness):
    """Posts one message after another, each until it is accepted or refused."""

    def __init__(self, receiver: FakeReceiver, platform: WebhookPlatform) -> None:
        self.platform = platform
        self._receiver = receiver
        self._posts: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue()
        self._posted_count = 0

    def address(self) -> Address:
        return address()

    async def say(
        self,
        text: str,
        *,
        by: Participant = Participant.ANN,
        chat: ChatKind = ChatKind.DM,
        mention: bool = False,
        reply_to: str | None = None,
        files: Sequence[OutboundFile] = (),
    ) -> str:
        if chat is ChatKind.GROUP:
            raise NotSupported("hooks have no groups: each has a chat of its own")
        self._posted_count += 1
        thread = {"thread": _THREAD} if chat is ChatKind.THREAD else {}
        sent = [{"name": f.name, "data": base64.b64encode(f.data).decode()} for f in files]
        body_fields = {"text": text, "number": self._posted_count, "files": sent, **thread}
        body = json.dumps(body_fields).encode()
        self._posts.put_nowait((hook_path("default", _HOOKS[by]), body))
        return str(self._posted_count)

    async def bot_messages(self) -> Sequence[VisibleMessage]:
        return [_shown(each) for each in self._receiver.messages]

    async def too_large_file(self) -> OutboundFile:
        self._receiver.faults.append((413, {}))
        return OutboundFile(name="plan.txt", data=b"the plan")

    async def set_fault(self, fault: VendorFault) -> None:
        if fault in _FAULTS:
            self._receiver.faults.append(_FAULTS[fault])
        elif fault in (VendorFault.BAD_CREDENTIALS, VendorFault.NONE):
            self._receiver.secret = OURS if fault is VendorFault.NONE else "another"
        else:
            raise NotSupported("hooks work without the receiver: there is no connection to lose")

    async def post(self, address: str) -> None:
        async with aiohttp.ClientSession(address) as http:
            while True:
                path, body = await self._posts.get()
                while not await _accepted(http, path, body):
                    await asyncio.sleep(_AGAIN)


async def _accepted(http: aiohttp.ClientSession, path: str, body: bytes) -> bool:
    async with http.post(path, data=body, headers=signed(body)) as response:
        return response.status < 500


def _shown(posted: Json) -> VisibleMessage:
    file = posted["file"]
    return VisibleMessage(
        text=f"(again?) {posted['text']}" if posted["maybe_repeated"] else posted["text"],
        chat=ChatKind.THREAD if posted["thread"] == _THREAD else ChatKind.DM,
        files=() if file is None else (_file(file),),
    )


def _file(posted: Json) -> OutboundFile:
    return OutboundFile(name=posted["name"], data=base64.b64decode(posted["data"]))


def _platform(url: str, *, idempotent: bool, hooks: bool = True) -> WebhookPlatform:
    hook = HookSettings(
        secret="env:HOOK", template="{text}", thread="{thread|}", files="files", per_minute=0
    )
    settings = WebhookSettings(
        url=url,
        secret="env:OURS",
        allow_private=True,
        idempotent=idempotent,
        hooks=dict.fromkeys(_HOOKS.values(), hook) if hooks else {},
    )
    secrets = {f"hooks.{name}.secret": Secret(SECRET) for name in _HOOKS.values()}
    return WebhookPlatform(
        {**secrets, "secret": Secret(OURS)},
        account="default",
        settings=settings,
        clock=WallClock(),
        new_id=lambda prefix: f"{prefix}1",
    )


@asynccontextmanager
async def _started(*, idempotent: bool) -> AsyncIterator[PlatformHarness]:
    receiver = FakeReceiver(OURS, clock=WallClock())
    receiver.ignores_keys = not idempotent
    async with receiver.serving() as url:
        platform = _platform(url, idempotent=idempotent)
        harness = WebhookHarness(receiver, platform)
        async with listening(platform.routes()) as here:
            posting = asyncio.create_task(harness.post(here))
            try:
                yield harness
            finally:
                posting.cancel()
                await asyncio.gather(posting, return_exceptions=True)


class PostOnlyHarness(WebhookHarness):
    """An account without hooks: it only posts to its receiver."""

    def __init__(
        self, receiver: FakeReceiver, platform: WebhookPlatform, proxy: FaultProxy
    ) -> None:
        super().__init__(receiver, platform)
        self._proxy = proxy

    async def say(self, text: str, **about: Any) -> str:
        raise NotSupported("this account has no hooks")

    async def set_fault(self, fault: VendorFault) -> None:
        if fault is VendorFault.UNREACHABLE:
            self._proxy.refuse_connections()
            return
        if fault is VendorFault.NONE:
            self._proxy.restore()
        await super().set_fault(fault)


@asynccontextmanager
async def post_only() -> AsyncIterator[PlatformHarness]:
    receiver = FakeReceiver(OURS, clock=WallClock())
    async with receiver.serving() as url:
        port = url.rpartition(":")[2].partition("/")[0]
        async with FaultProxy(int(port)) as proxy:
            platform = _platform(url.replace(port, str(proxy.port)), idempotent=True, hooks=False)
            yield PostOnlyHarness(receiver, platform, proxy)


@asynccontextmanager
async def idempotent_receiver() -> AsyncIterator[PlatformHarness]:
    """The receiver accepts each idempotency key once."""
    async with _started(idempotent=True) as harness:
        yield harness


@asynccontextmanager
async def non_idempotent_receiver() -> AsyncIterator[PlatformHarness]:
    """The receiver ignores idempotency keys."""
    async with _started(idempotent=False) as harness:
        yield harness

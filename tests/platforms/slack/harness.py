"""The conformance harnesses for Slack: with Socket Mode and with the Events API."""

import html
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from tests.platforms.connection_faults import ConnectionFault
from tests.platforms.slack.builders import address, listening, new_platform
from tests.platforms.slack.fake import ANN, BOB, BOT_USER, CHANNEL, TOKEN, FakeSlack, Json
from tests.platforms.slack.fake_events_api import posting
from tests.platforms.slack.fake_web_api import EMOJI, FakeWebApi
from tests.platforms.slack.faults import SlackError, flood

from holdfast.core.messages.outbox import Address, OutboundFile
from holdfast.core.ports.platform import Platform
from holdfast.testing.conformance import (
    ChatKind,
    FaultProxy,
    NotSupported,
    Participant,
    PlatformHarness,
    VendorFault,
    VisibleMessage,
)

SHORT_TIMEOUT = 1.0  # seconds until a platform gives up, where no response comes
_ROOT = "1790000000.000000"  # the message that opened the thread, from before the connection
_SEND_FAULTS: dict[VendorFault, SlackError | ConnectionFault] = {
    VendorFault.RATE_LIMIT: flood(7),
    VendorFault.REFUSED: SlackError("is_archived"),
    VendorFault.RECEIPT_LOST: ConnectionFault.RESET_AFTER,
}


class SlackHarness(PlatformHarness):
    def __init__(
        self,
        web_api: FakeWebApi,
        vendor: FakeSlack,
        platform: Platform,
        proxy: FaultProxy,
        *,
        limit: float = 20.0,
    ) -> None:
        self.platform = platform
        self._limit = limit
        self._web_api = web_api
        self._vendor = vendor
        self._proxy = proxy
        root = {"type": "message", "user": BOB, "text": "root", "ts": _ROOT, "channel": CHANNEL}
        vendor.messages.append(root)

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
        """https://docs.slack.dev/messaging/formatting-message-text#escaping: three characters
        are escaped. A reply to a message is in the thread that it opens."""
        alone = chat is ChatKind.DM
        escaped = html.escape(text, quote=False)
        base = f"http://127.0.0.1:{self._proxy.port}/api"
        message = self._vendor.say(
            f"<@{BOT_USER}> {escaped}" if mention and not alone else escaped,
            by=BOB if by is Participant.BOB else ANN,
            chat=None if alone else CHANNEL,
            thread=_ROOT if chat is ChatKind.THREAD else reply_to,
            files=[self._vendor.upload(each.name, each.data, base) for each in files],
            **({"bot_id": "B0OTHER"} if by is Participant.PROGRAM else {}),
        )
        return str(message["ts"])

    async def bot_messages(self) -> Sequence[VisibleMessage]:
        return [self._shown(each) for each in self._vendor.sent()]

    def _shown(self, message: Json) -> VisibleMessage:
        group_or_thread = ChatKind.THREAD if message.get("thread_ts") == _ROOT else ChatKind.GROUP
        contents = self._vendor.contents
        return VisibleMessage(
            text=message["text"] or "".join(_block_texts(message.get("blocks"))),
            chat=group_or_thread if message["channel"] == CHANNEL else ChatKind.DM,
            files=tuple(
                OutboundFile(name=each["name"], data=contents[each["id"]])
                for each in message.get("files", [])
            ),
            buttons=tuple(each["text"]["text"] for each in _buttons(message)),
        )

    async def acknowledged(self) -> int:
        return len(self._vendor.acks)

    async def edit(self, name: str, text: str) -> None:
        (message,) = [each for each in self._vendor.messages if each["ts"] == name]
        self._vendor.revise(message, text)

    async def delete_answer(self) -> None:
        self._vendor.delete_sent()

    async def too_large_file(self) -> OutboundFile:
        self._vendor.largest_upload = 1000
        return OutboundFile(name="plan.txt", data=bytes(1001))

    async def press(self, label: str) -> None:
        message = self._vendor.sent()[-1]
        (button,) = [each for each in _buttons(message) if each["text"]["text"] == label]
        self._vendor.press(message, button["value"])

    async def reactions(self, name: str) -> Sequence[str]:
        return [
            EMOJI[each]
            for (_, ts), has in self._vendor.reactions.items()
            if ts == name
            for each in has
        ]

    async def revoke_after(self, requests: int) -> None:
        self._vendor.revoke_after, self._vendor.revoked = requests, False

    async def revoked(self) -> bool:
        return self._vendor.revoked

    async def set_fault(self, fault: VendorFault) -> None:
        match fault:
            case VendorFault.BAD_CREDENTIALS:
                self._vendor.token = "another"
            case VendorFault.UNREACHABLE:
                self._proxy.refuse_connections()
                await self._web_api.sockets.close()
            case VendorFault.NONE:
                self._vendor.revoke_after = None
                self._vendor.token = TOKEN
                self._proxy.restore()
            case VendorFault.HALF_OPEN if self._limit > SHORT_TIMEOUT:
                raise NotSupported("tested separately, with a short timeout")
            case VendorFault.HALF_OPEN:
                self._proxy.go_silent()
                self._web_api.sockets.half_open = True
            case _:
                self._vendor.faults.add("chat.postMessage", _SEND_FAULTS[fault])


def _block_texts(blocks: Any) -> Iterator[str]:
    """The texts in blocks of any kind."""
    for each in blocks or []:
        yield each.get("text", "") if isinstance(each.get("text", ""), str) else ""
        yield from _block_texts(each.get("elements"))


def _buttons(message: Json) -> list[Json]:
    blocks = message.get("blocks") or []
    elements = [each for block in blocks for each in block.get("elements", [])]
    return [each for each in elements if each["type"] == "button"]


@asynccontextmanager
async def socket_mode_harness(limit: float = 20.0) -> AsyncIterator[PlatformHarness]:
    vendor = FakeSlack()
    web_api = FakeWebApi(vendor)
    async with web_api.serving() as base_url, FaultProxy(urlsplit(base_url).port or 0) as proxy:
        platform = new_platform(vendor, f"http://127.0.0.1:{proxy.port}/api", limit=limit)
        yield SlackHarness(web_api, vendor, platform, proxy, limit=limit)


@asynccontextmanager
async def events_api_harness() -> AsyncIterator[PlatformHarness]:
    vendor = FakeSlack()
    web_api = FakeWebApi(vendor)
    async with web_api.serving() as base_url, FaultProxy(urlsplit(base_url).port or 0) as proxy:
        platform = new_platform(vendor, f"http://127.0.0.1:{proxy.port}/api", posted=True)
        async with listening(platform) as url, posting(vendor, url):
            yield SlackHarness(web_api, vendor, platform, proxy)

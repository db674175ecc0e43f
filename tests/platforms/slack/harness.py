"""The pretend Slack as the conformance suite meets it, by socket and posted."""

import html
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from tests.platforms.slack.builders import address, door_to, listening
from tests.platforms.slack.fake import ANN, BOB, BOT_USER, CHANNEL, TOKEN, Json, Vendor
from tests.platforms.slack.fake_events_api import posting
from tests.platforms.slack.fake_web_api import EMOJI, WebApi
from tests.platforms.slack.faults import Break, SlackError, flood

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

IMPATIENT = 1.0  # seconds that a door waits for an answer, where it is to wait in vain
_ROOT = "1790000000.000000"  # the message that opened the thread, before anybody listened
_OF_A_MESSAGE = {
    VendorFault.RATE_LIMIT: flood(7),
    VendorFault.REFUSED: SlackError("is_archived"),
    VendorFault.RECEIPT_LOST: Break.CUT_AFTER,
}


class SlackGround(PlatformHarness):
    def __init__(
        self,
        web_api: WebApi,
        vendor: Vendor,
        door: Platform,
        line: FaultProxy,
        *,
        limit: float = 20.0,
    ) -> None:
        self.platform = door
        self._limit = limit
        self._web_api = web_api
        self._vendor = vendor
        self._line = line
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
        """https://docs.slack.dev/messaging/formatting-message-text#escaping: three signs are
        escaped. Whoever answers a message does it in the thread that it opens."""
        alone = chat is ChatKind.DM
        words = html.escape(text, quote=False)
        base = f"http://127.0.0.1:{self._line.port}/api"
        message = self._vendor.say(
            f"<@{BOT_USER}> {words}" if mention and not alone else words,
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
        elsewhere = ChatKind.THREAD if message.get("thread_ts") == _ROOT else ChatKind.GROUP
        contents = self._vendor.contents
        return VisibleMessage(
            text=message["text"] or "".join(_words(message.get("blocks"))),
            chat=elsewhere if message["channel"] == CHANNEL else ChatKind.DM,
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

    async def press(self, label: str) -> None:
        message = self._vendor.sent()[-1]
        (button,) = [each for each in _buttons(message) if each["text"]["text"] == label]
        self._vendor.press(message, button["value"])

    async def reactions(self, name: str) -> Sequence[str]:
        return [
            EMOJI[each] for (_, ts), has in self._vendor.signs.items() if ts == name for each in has
        ]

    async def set_fault(self, fault: VendorFault) -> None:
        match fault:
            case VendorFault.BAD_CREDENTIALS:
                self._vendor.token = "another"
            case VendorFault.UNREACHABLE:
                self._line.refuse_connections()
                await self._web_api.sockets.close()
            case VendorFault.NONE:
                self._vendor.token = TOKEN
                self._line.restore()
            case VendorFault.HALF_OPEN if self._limit > IMPATIENT:
                raise NotSupported("asked of a door that is less patient, in a test of its own")
            case VendorFault.HALF_OPEN:
                self._line.go_silent()
                self._web_api.sockets.half_open = True
            case _:
                self._vendor.faults.add("chat.postMessage", _OF_A_MESSAGE[fault])


def _words(blocks: Any) -> Iterator[str]:
    """What is read in blocks, whatever they are made of."""
    for each in blocks or []:
        yield each.get("text", "") if isinstance(each.get("text", ""), str) else ""
        yield from _words(each.get("elements"))


def _buttons(message: Json) -> list[Json]:
    blocks = message.get("blocks") or []
    elements = [each for block in blocks for each in block.get("elements", [])]
    return [each for each in elements if each["type"] == "button"]


@asynccontextmanager
async def by_socket(limit: float = 20.0) -> AsyncIterator[PlatformHarness]:
    vendor = Vendor()
    web_api = WebApi(vendor)
    async with web_api.serving() as base_url, FaultProxy(urlsplit(base_url).port or 0) as line:
        door = door_to(vendor, f"http://127.0.0.1:{line.port}/api", limit=limit)
        yield SlackGround(web_api, vendor, door, line, limit=limit)


@asynccontextmanager
async def posted() -> AsyncIterator[PlatformHarness]:
    vendor = Vendor()
    web_api = WebApi(vendor)
    async with web_api.serving() as base_url, FaultProxy(urlsplit(base_url).port or 0) as line:
        door = door_to(vendor, f"http://127.0.0.1:{line.port}/api", posted=True)
        async with listening(door) as url, posting(vendor, url):
            yield SlackGround(web_api, vendor, door, line)

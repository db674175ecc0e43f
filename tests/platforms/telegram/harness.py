"""The conformance harnesses for Telegram: with polling and with a webhook."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web
from tests.platforms.connection_faults import ConnectionFault
from tests.platforms.telegram.builders import address, new_platform
from tests.platforms.telegram.fake import ANN, BOB, OTHER_BOT, TOKEN, FakeTelegram, Json
from tests.platforms.telegram.fake_bot_api import FakeBotApi
from tests.platforms.telegram.faults import BotApiError, flood

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

_USERS = {Participant.ANN: ANN, Participant.BOB: BOB, Participant.PROGRAM: OTHER_BOT}
_TOPIC = 77
SHORT_TIMEOUT = 1.0  # seconds until a platform gives up, where no response comes
_SEND_FAULTS: dict[VendorFault, BotApiError | ConnectionFault] = {
    VendorFault.RATE_LIMIT: flood(7),
    VendorFault.REFUSED: BotApiError(403, "Forbidden: bot was blocked by the user"),
    VendorFault.RECEIPT_LOST: ConnectionFault.RESET_AFTER,
}


class TelegramHarness(PlatformHarness):
    shows_replies = True

    def __init__(
        self, vendor: FakeTelegram, platform: Platform, proxy: FaultProxy, *, limit: float = 20.0
    ) -> None:
        self.platform = platform
        self._limit = limit
        self._vendor = vendor
        self._proxy = proxy
        vendor.dm()

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
        alone = chat is ChatKind.DM
        documents: list[tuple[str, Any]] = [
            ("document", self._vendor.upload(each.name, each.data)) for each in files
        ]
        message = self._vendor.say(
            f"@{self._vendor.me['username']} {text}" if mention and not alone else text,
            by=_USERS[by],
            chat=None if alone else self._vendor.group(forum=chat is ChatKind.THREAD),
            topic=_TOPIC if chat is ChatKind.THREAD else None,
            reply_to=None if reply_to is None else self._known(reply_to),
            **dict(documents),
        )
        return str(message["message_id"])

    def _known(self, name: str) -> Json:
        (found,) = [m for (_, number), m in self._vendor.messages.items() if number == int(name)]
        return found

    async def bot_messages(self) -> Sequence[VisibleMessage]:
        return [self._shown(each) for each in self._vendor.sent]

    def _shown(self, message: Json) -> VisibleMessage:
        private = message["chat"]["type"] == "private"
        group_or_thread = (
            ChatKind.THREAD if message.get("message_thread_id") == _TOPIC else ChatKind.GROUP
        )
        rows = message.get("reply_markup", {}).get("inline_keyboard", [])
        about = message.get("document")
        return VisibleMessage(
            text=str(message.get("text", message.get("caption", ""))),
            chat=ChatKind.DM if private else group_or_thread,
            files=() if about is None else (self._file(about),),
            buttons=tuple(each["text"] for row in rows for each in row),
            reply_to=str(message.get("reply_to_message", {}).get("message_id")),
        )

    def _file(self, about: Json) -> OutboundFile:
        return OutboundFile(name=about["file_name"], data=self._vendor.files[about["file_id"]][1])

    async def acknowledged(self) -> int:
        return len(self._vendor.updates.confirmed)

    async def edit(self, name: str, text: str) -> None:
        self._vendor.revise(self._known(name), text)

    async def delete_answer(self) -> None:
        self._vendor.delete_sent()

    async def too_large_file(self) -> OutboundFile:
        self._vendor.largest_upload = 1000
        return OutboundFile(name="plan.txt", data=bytes(1001))

    async def press(self, label: str) -> None:
        message = self._vendor.sent[-1]
        rows = message["reply_markup"]["inline_keyboard"]
        (button,) = [each for row in rows for each in row if each["text"] == label]
        self._vendor.click(message, button["callback_data"])

    async def reactions(self, name: str) -> Sequence[str]:
        found = self._known(name)
        return self._vendor.reactions.get((found["chat"]["id"], found["message_id"]), [])

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
            case VendorFault.NONE:
                self._vendor.revoke_after = None
                self._vendor.token = TOKEN
                self._proxy.restore()
            case VendorFault.HALF_OPEN if self._limit > SHORT_TIMEOUT:
                raise NotSupported("tested separately, with a short timeout")
            case VendorFault.HALF_OPEN:
                self._proxy.go_silent()
            case _:
                self._vendor.faults.add("sendMessage", _SEND_FAULTS[fault])


@asynccontextmanager
async def _serve_through_proxy(vendor: FakeTelegram) -> AsyncIterator[tuple[str, FaultProxy]]:
    async with (
        FakeBotApi(vendor).serving() as base_url,
        FaultProxy(urlsplit(base_url).port or 0) as proxy,
    ):
        yield f"http://127.0.0.1:{proxy.port}", proxy


@asynccontextmanager
async def polling_harness(limit: float = 20.0) -> AsyncIterator[PlatformHarness]:
    vendor = FakeTelegram()
    async with _serve_through_proxy(vendor) as (base_url, proxy):
        yield TelegramHarness(
            vendor, new_platform(vendor, base_url, limit=limit), proxy, limit=limit
        )


@asynccontextmanager
async def webhook_harness() -> AsyncIterator[PlatformHarness]:
    vendor = FakeTelegram()
    async with _serve_through_proxy(vendor) as (base_url, proxy):
        platform = new_platform(vendor, base_url, webhook="https://bot.example.org")
        app = web.Application()
        app.add_routes(platform.routes())
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        inside = f"http://127.0.0.1:{runner.addresses[0][1]}"
        vendor.proxies["https://bot.example.org"] = inside
        try:
            yield TelegramHarness(vendor, platform, proxy)
        finally:
            await runner.cleanup()

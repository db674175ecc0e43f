"""The pretend Telegram as the conformance suite meets it, polled and posted."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from aiohttp import web
from tests.platforms.telegram.builders import address, door_to
from tests.platforms.telegram.fake import ANN, BOB, OTHER_BOT, TOKEN, Json, Vendor
from tests.platforms.telegram.fake_bot_api import BotApi
from tests.platforms.telegram.faults import BotApiError, Break, flood

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

_PEOPLE = {Participant.ANN: ANN, Participant.BOB: BOB, Participant.PROGRAM: OTHER_BOT}
_TOPIC = 77
IMPATIENT = 1.0  # seconds that a door waits for an answer, where it is to wait in vain
_OF_A_MESSAGE = {
    VendorFault.RATE_LIMIT: flood(7),
    VendorFault.REFUSED: BotApiError(403, "Forbidden: bot was blocked by the user"),
    VendorFault.RECEIPT_LOST: Break.CUT_AFTER,
}


class TelegramGround(PlatformHarness):
    shows_replies = True

    def __init__(
        self, vendor: Vendor, door: Platform, line: FaultProxy, *, limit: float = 20.0
    ) -> None:
        self.platform = door
        self._limit = limit
        self._vendor = vendor
        self._line = line
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
        held = [("document", self._vendor.upload(each.name, each.data)) for each in files]
        message = self._vendor.say(
            f"@{self._vendor.me['username']} {text}" if mention and not alone else text,
            by=_PEOPLE[by],
            chat=None if alone else self._vendor.group(forum=chat is ChatKind.THREAD),
            topic=_TOPIC if chat is ChatKind.THREAD else None,
            reply_to=None if reply_to is None else self._known(reply_to),
            **dict(held),
        )
        return str(message["message_id"])

    def _known(self, name: str) -> Json:
        (found,) = [m for (_, number), m in self._vendor.messages.items() if number == int(name)]
        return found

    async def bot_messages(self) -> Sequence[VisibleMessage]:
        return [self._shown(each) for each in self._vendor.sent]

    def _shown(self, message: Json) -> VisibleMessage:
        private = message["chat"]["type"] == "private"
        elsewhere = (
            ChatKind.THREAD if message.get("message_thread_id") == _TOPIC else ChatKind.GROUP
        )
        rows = message.get("reply_markup", {}).get("inline_keyboard", [])
        about = message.get("document")
        return VisibleMessage(
            text=message.get("text", message.get("caption", "")),
            chat=ChatKind.DM if private else elsewhere,
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

    async def press(self, label: str) -> None:
        message = self._vendor.sent[-1]
        rows = message["reply_markup"]["inline_keyboard"]
        (button,) = [each for row in rows for each in row if each["text"] == label]
        self._vendor.click(message, button["callback_data"])

    async def reactions(self, name: str) -> Sequence[str]:
        found = self._known(name)
        return self._vendor.reactions.get((found["chat"]["id"], found["message_id"]), [])

    async def set_fault(self, fault: VendorFault) -> None:
        match fault:
            case VendorFault.BAD_CREDENTIALS:
                self._vendor.token = "another"
            case VendorFault.UNREACHABLE:
                self._line.refuse_connections()
            case VendorFault.NONE:
                self._vendor.token = TOKEN
                self._line.restore()
            case VendorFault.HALF_OPEN if self._limit > IMPATIENT:
                raise NotSupported("asked of a door that is less patient, in a test of its own")
            case VendorFault.HALF_OPEN:
                self._line.go_silent()
            case _:
                self._vendor.faults.add("sendMessage", _OF_A_MESSAGE[fault])


@asynccontextmanager
async def _reached(vendor: Vendor) -> AsyncIterator[tuple[str, FaultProxy]]:
    async with (
        BotApi(vendor).serving() as base_url,
        FaultProxy(urlsplit(base_url).port or 0) as line,
    ):
        yield f"http://127.0.0.1:{line.port}", line


@asynccontextmanager
async def polled(limit: float = 20.0) -> AsyncIterator[PlatformHarness]:
    vendor = Vendor()
    async with _reached(vendor) as (base_url, line):
        yield TelegramGround(vendor, door_to(vendor, base_url, limit=limit), line, limit=limit)


@asynccontextmanager
async def posted() -> AsyncIterator[PlatformHarness]:
    vendor = Vendor()
    async with _reached(vendor) as (base_url, line):
        door = door_to(vendor, base_url, webhook="https://bot.example.org")
        app = web.Application()
        app.add_routes(door.routes())
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        inside = f"http://127.0.0.1:{runner.addresses[0][1]}"
        vendor.proxies["https://bot.example.org"] = inside
        try:
            yield TelegramGround(vendor, door, line)
        finally:
            await runner.cleanup()

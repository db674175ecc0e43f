"""Linechat for the conformance suite: a real server, with a proxy in front that makes faults."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from linechat.platform import Linechat
from linechat_server import BOT, Server

from holdfast.core.messages.outbox import Address, OutboundFile
from holdfast.core.secrets import Secret
from holdfast.testing.conformance import (
    ChatKind,
    FaultProxy,
    Participant,
    PlatformHarness,
    VendorFault,
    VisibleMessage,
)

_NAMES = {Participant.ANN: "ann", Participant.BOB: "bob", Participant.PROGRAM: "beeper"}
_CHATS = {ChatKind.DM: None, ChatKind.GROUP: "#family"}


class LinechatHarness(PlatformHarness):
    shows_replies = True

    def __init__(self, server: Server, platform: Linechat, proxy: FaultProxy) -> None:
        self.platform = platform
        self._server = server
        self._proxy = proxy

    def address(self) -> Address:
        return Address(platform="linechat", account="default", chat_id="ann")

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
        program = by is Participant.PROGRAM
        frame = {"chat": _CHATS[chat], "text": text, "mention": mention, "program": program}
        return self._server.say(_NAMES[by], {**frame, "reply_to": reply_to})

    async def bot_messages(self) -> Sequence[VisibleMessage]:
        return [
            VisibleMessage(
                text=each["text"],
                chat=ChatKind.GROUP if each["chat"].startswith("#") else ChatKind.DM,
                reply_to=each["reply_to"],
            )
            for each in self._server.messages
            if each["by"] == BOT
        ]

    async def acknowledged(self) -> int:
        return self._server.acknowledged

    async def set_fault(self, fault: VendorFault) -> None:
        match fault:
            case VendorFault.RATE_LIMIT:
                self._server.next_responses.append({"wait": 7.0})
            case VendorFault.REFUSED:
                self._server.next_responses.append({"no": "ann has left"})
            case VendorFault.RECEIPT_LOST:
                self._proxy.drop_next_response()
            case VendorFault.BAD_CREDENTIALS:
                self._server.token = "another"
            case VendorFault.UNREACHABLE:
                self._proxy.refuse_connections()
            case VendorFault.HALF_OPEN:
                self._proxy.go_silent()
            case VendorFault.NONE:
                self._server.token = "secret"
                self._proxy.restore()


@asynccontextmanager
async def linechat() -> AsyncIterator[PlatformHarness]:
    server = Server("secret")
    async with server.serving() as port, FaultProxy(port) as proxy:
        platform = Linechat(Secret("secret"), "default", proxy.port, timeout=2.0)
        yield LinechatHarness(server, platform, proxy)

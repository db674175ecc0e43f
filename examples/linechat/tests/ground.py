"""A linechat as the suite meets it: a real server, and a proxy for the faults of a line."""

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


class LinechatGround(PlatformHarness):
    shows_answers = True

    def __init__(self, server: Server, door: Linechat, line: FaultProxy) -> None:
        self.door = door
        self._server = server
        self._line = line

    def address(self) -> Address:
        return Address(platform="linechat", account="default", chat_id="ann")

    async def say(
        self,
        text: str,
        *,
        by: Participant = Participant.ANN,
        place: ChatKind = ChatKind.DM,
        named: bool = False,
        answers: str | None = None,
        files: Sequence[OutboundFile] = (),
    ) -> str:
        program = by is Participant.PROGRAM
        said = {"chat": _CHATS[place], "text": text, "named": named, "program": program}
        return self._server.say(_NAMES[by], {**said, "answers": answers})

    async def read(self) -> Sequence[VisibleMessage]:
        return [
            VisibleMessage(
                text=each["text"],
                place=ChatKind.GROUP if each["chat"].startswith("#") else ChatKind.DM,
                answers=each["answers"],
            )
            for each in self._server.messages
            if each["by"] == BOT
        ]

    async def acknowledged(self) -> int:
        return self._server.acknowledged

    async def trouble(self, trouble: VendorFault) -> None:
        match trouble:
            case VendorFault.FLOOD:
                self._server.next_answers.append({"wait": 7.0})
            case VendorFault.REFUSED:
                self._server.next_answers.append({"no": "ann has left"})
            case VendorFault.RECEIPT_LOST:
                self._line.drop_next_response()
            case VendorFault.BAD_CREDENTIALS:
                self._server.token = "another"
            case VendorFault.AWAY:
                self._line.refuse_connections()
            case VendorFault.HALF_OPEN:
                self._line.go_silent()
            case VendorFault.NONE:
                self._server.token = "secret"
                self._line.restore()


@asynccontextmanager
async def linechat() -> AsyncIterator[PlatformHarness]:
    server = Server("secret")
    async with server.serving() as port, FaultProxy(port) as line:
        door = Linechat(Secret("secret"), "default", line.port, limit=2.0)
        yield LinechatGround(server, door, line)

"""A linechat as the suite meets it: a real server, and a proxy for the faults of a line."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from linechat.platform import Linechat
from linechat_server import BOT, Server

from holdfast.core.messages.outbox import Address, SentFile
from holdfast.core.secret import Secret
from holdfast.testing.conformance import Ground, Person, Place, Proxy, Shown, Trouble

_NAMES = {Person.ANN: "ann", Person.BOB: "bob", Person.PROGRAM: "beeper"}
_CHATS = {Place.DM: None, Place.GROUP: "#family"}


class LinechatGround(Ground):
    shows_answers = True

    def __init__(self, server: Server, door: Linechat, line: Proxy) -> None:
        self.door = door
        self._server = server
        self._line = line

    def address(self) -> Address:
        return Address(platform="linechat", account="default", chat_id="ann")

    async def say(
        self,
        text: str,
        *,
        by: Person = Person.ANN,
        place: Place = Place.DM,
        named: bool = False,
        answers: str | None = None,
        files: Sequence[SentFile] = (),
    ) -> str:
        program = by is Person.PROGRAM
        said = {"chat": _CHATS[place], "text": text, "named": named, "program": program}
        return self._server.say(_NAMES[by], {**said, "answers": answers})

    async def read(self) -> Sequence[Shown]:
        return [
            Shown(
                text=each["text"],
                place=Place.GROUP if each["chat"].startswith("#") else Place.DM,
                answers=each["answers"],
            )
            for each in self._server.messages
            if each["by"] == BOT
        ]

    async def acknowledged(self) -> int:
        return self._server.acknowledged

    async def trouble(self, trouble: Trouble) -> None:
        match trouble:
            case Trouble.FLOOD:
                self._server.next_answers.append({"wait": 7.0})
            case Trouble.REFUSED:
                self._server.next_answers.append({"no": "ann has left"})
            case Trouble.RECEIPT_LOST:
                self._line.lose_answers()
            case Trouble.SHUT_OUT:
                self._server.token = "another"
            case Trouble.AWAY:
                self._line.go_away()
            case Trouble.SILENT:
                self._line.fall_silent()
            case Trouble.WELL:
                self._server.token = "secret"
                self._line.be_well()


@asynccontextmanager
async def linechat() -> AsyncIterator[Ground]:
    server = Server("secret")
    async with server.serving() as port, Proxy(port) as line:
        door = Linechat(Secret("secret"), "default", line.port, limit=2.0)
        yield LinechatGround(server, door, line)

"""The pretend Slack as the conformance suite meets it, by socket and posted."""

import html
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from tests.platforms.slack.doors import address, door_to, listening
from tests.platforms.slack.faults import Break, SlackError, flood
from tests.platforms.slack.posting import posting
from tests.platforms.slack.vendor import ANN, BOB, BOT_USER, CHANNEL, TOKEN, Json, Vendor
from tests.platforms.slack.web_api import EMOJI, WebApi

from holdfast.core.messages.outbox import Address, SentFile
from holdfast.core.ports.protocols import Platform
from holdfast.testing.conformance import Ground, NotToBeHad, Person, Place, Proxy, Shown, Trouble

IMPATIENT = 1.0  # seconds that a door waits for an answer, where it is to wait in vain
_ROOT = "1790000000.000000"  # the message that opened the thread, before anybody listened
_OF_A_MESSAGE = {
    Trouble.FLOOD: flood(7),
    Trouble.REFUSED: SlackError("is_archived"),
    Trouble.RECEIPT_LOST: Break.CUT_AFTER,
}


class SlackGround(Ground):
    def __init__(
        self,
        web_api: WebApi,
        vendor: Vendor,
        door: Platform,
        line: Proxy,
        *,
        limit: float = 20.0,
    ) -> None:
        self.door = door
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
        by: Person = Person.ANN,
        place: Place = Place.DM,
        named: bool = False,
        answers: str | None = None,
        files: Sequence[SentFile] = (),
    ) -> str:
        """https://docs.slack.dev/messaging/formatting-message-text#escaping: three signs are
        escaped. Whoever answers a message does it in the thread that it opens."""
        alone = place is Place.DM
        words = html.escape(text, quote=False)
        base = f"http://127.0.0.1:{self._line.port}/api"
        message = self._vendor.say(
            f"<@{BOT_USER}> {words}" if named and not alone else words,
            by=BOB if by is Person.BOB else ANN,
            chat=None if alone else CHANNEL,
            thread=_ROOT if place is Place.THREAD else answers,
            files=[self._vendor.upload(each.name, each.data, base) for each in files],
            **({"bot_id": "B0OTHER"} if by is Person.PROGRAM else {}),
        )
        return str(message["ts"])

    async def read(self) -> Sequence[Shown]:
        return [self._shown(each) for each in self._vendor.sent()]

    def _shown(self, message: Json) -> Shown:
        elsewhere = Place.THREAD if message.get("thread_ts") == _ROOT else Place.GROUP
        contents = self._vendor.contents
        return Shown(
            text=message["text"] or "".join(_words(message.get("blocks"))),
            place=elsewhere if message["channel"] == CHANNEL else Place.DM,
            files=tuple(
                SentFile(name=each["name"], data=contents[each["id"]])
                for each in message.get("files", [])
            ),
            choices=tuple(each["text"]["text"] for each in _buttons(message)),
        )

    async def acknowledged(self) -> int:
        return len(self._vendor.acks)

    async def revise(self, name: str, text: str) -> None:
        (message,) = [each for each in self._vendor.messages if each["ts"] == name]
        self._vendor.revise(message, text)

    async def press(self, label: str) -> None:
        message = self._vendor.sent()[-1]
        (button,) = [each for each in _buttons(message) if each["text"]["text"] == label]
        self._vendor.press(message, button["value"])

    async def signs(self, name: str) -> Sequence[str]:
        return [
            EMOJI[each] for (_, ts), has in self._vendor.signs.items() if ts == name for each in has
        ]

    async def trouble(self, trouble: Trouble) -> None:
        match trouble:
            case Trouble.SHUT_OUT:
                self._vendor.token = "another"
            case Trouble.AWAY:
                self._line.go_away()
                await self._web_api.sockets.close()
            case Trouble.WELL:
                self._vendor.token = TOKEN
                self._line.be_well()
            case Trouble.SILENT if self._limit > IMPATIENT:
                raise NotToBeHad("asked of a door that is less patient, in a test of its own")
            case Trouble.SILENT:
                self._line.fall_silent()
                self._web_api.sockets.half_open = True
            case _:
                self._vendor.faults.add("chat.postMessage", _OF_A_MESSAGE[trouble])


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
async def by_socket(limit: float = 20.0) -> AsyncIterator[Ground]:
    vendor = Vendor()
    web_api = WebApi(vendor)
    async with web_api.serving() as base_url, Proxy(urlsplit(base_url).port or 0) as line:
        door = door_to(vendor, f"http://127.0.0.1:{line.port}/api", limit=limit)
        yield SlackGround(web_api, vendor, door, line, limit=limit)


@asynccontextmanager
async def posted() -> AsyncIterator[Ground]:
    vendor = Vendor()
    web_api = WebApi(vendor)
    async with web_api.serving() as base_url, Proxy(urlsplit(base_url).port or 0) as line:
        door = door_to(vendor, f"http://127.0.0.1:{line.port}/api", posted=True)
        async with listening(door) as url, posting(vendor, url):
            yield SlackGround(web_api, vendor, door, line)

"""Grounds: each pretend vendor as the conformance suite meets it, with a door to it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from enum import Enum, auto
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from aiohttp import web
from tests.platforms.discord import doors as discord_doors
from tests.platforms.discord import faults as discord_faults
from tests.platforms.discord import rest as discord_rest
from tests.platforms.discord import vendor as discord_vendor
from tests.platforms.slack import doors as slack_doors
from tests.platforms.slack import faults as slack_faults
from tests.platforms.slack import vendor as slack_vendor
from tests.platforms.slack.posting import posting
from tests.platforms.slack.web_api import WebApi
from tests.platforms.telegram.bot_api import BotApi
from tests.platforms.telegram.doors import door_to
from tests.platforms.telegram.faults import BotApiError, Break, flood
from tests.platforms.telegram.vendor import ANN, BOB, Json, Vendor

from holdfast.core.outbox import Address
from holdfast.core.ports import Platform
from holdfast.platforms.simulated.in_process import SimulatedPlatform
from holdfast.platforms.simulated.remote import RemoteSimulatedPlatform
from holdfast.platforms.simulated.server import serving
from holdfast.platforms.simulated.service import ChatService
from holdfast.platforms.simulated.wire import Faults, Revise, Say


class Trouble(Enum):
    """What becomes of the next message."""

    FLOOD = auto()  # wait for seven seconds
    REFUSED = auto()
    RECEIPT_LOST = auto()


class Ground(Protocol):
    """A vendor with one bot. Ann and Bob have a chat of two with it each."""

    door: Platform

    def say(self, text: str, *, bob: bool = False) -> str:
        """The id of the message."""
        ...

    def revise(self, message_id: str, text: str) -> None: ...

    def acked(self) -> int:
        """How many messages of people the bot has acknowledged."""
        ...

    def texts(self) -> list[str]:
        """What the bot's messages say now."""
        ...

    def trouble(self, trouble: Trouble) -> None: ...
    def shut_out(self) -> None:
        """The bot's credentials hold no longer."""
        ...

    def address(self) -> Address:
        """The chat with Ann."""
        ...


class SimulatedGround:
    def __init__(self, service: ChatService, door: Platform) -> None:
        self.door = door
        self._service = service

    def say(self, text: str, *, bob: bool = False) -> str:
        who = "bob" if bob else "ann"
        return self._service.say(Say(chat=who, user=who, text=text))

    def revise(self, message_id: str, text: str) -> None:
        self._service.revise(Revise(message_id=message_id, text=text))

    def acked(self) -> int:
        return sum(each.acked for each in self._service.ledger().said)

    def texts(self) -> list[str]:
        return [each.text for each in self._service.ledger().sent]

    def trouble(self, trouble: Trouble) -> None:
        faults = {
            Trouble.FLOOD: Faults(floods=1, retry_after=7.0),
            Trouble.REFUSED: Faults(refusals=1),
            Trouble.RECEIPT_LOST: Faults(lost_receipts=1),
        }
        self._service.set_faults(faults[trouble])

    def shut_out(self) -> None:
        self._service.set_faults(Faults(shut_out="the token was revoked"))

    def address(self) -> Address:
        return Address(platform="simulated", account="default", chat_id="ann")


class TelegramGround:
    def __init__(self, vendor: Vendor, door: Platform) -> None:
        self.door = door
        self._vendor = vendor
        self._said: dict[str, Json] = {}
        vendor.dm()

    def say(self, text: str, *, bob: bool = False) -> str:
        message = self._vendor.say(text, by=BOB if bob else ANN)
        self._said[str(message["message_id"])] = message
        return str(message["message_id"])

    def revise(self, message_id: str, text: str) -> None:
        self._vendor.revise(self._said[message_id], text)

    def acked(self) -> int:
        return len(self._vendor.updates.confirmed)

    def texts(self) -> list[str]:
        return self._vendor.texts()

    def trouble(self, trouble: Trouble) -> None:
        blocked = BotApiError(403, "Forbidden: bot was blocked by the user")
        what = {
            Trouble.FLOOD: flood(7),
            Trouble.REFUSED: blocked,
            Trouble.RECEIPT_LOST: Break.CUT_AFTER,
        }
        self._vendor.faults.add("sendMessage", what[trouble])

    def shut_out(self) -> None:
        self._vendor.token = "another"

    def address(self) -> Address:
        return Address(platform="telegram", account="default", chat_id=str(ANN["id"]))


class SlackGround:
    def __init__(self, vendor: slack_vendor.Vendor, door: Platform) -> None:
        self.door = door
        self._vendor = vendor

    def say(self, text: str, *, bob: bool = False) -> str:
        message = self._vendor.say(text, by=slack_vendor.BOB if bob else slack_vendor.ANN)
        return str(message["ts"])

    def revise(self, message_id: str, text: str) -> None:
        (message,) = [each for each in self._vendor.messages if each["ts"] == message_id]
        self._vendor.revise(message, text)

    def acked(self) -> int:
        return len(self._vendor.acks)

    def texts(self) -> list[str]:
        return self._vendor.texts()

    def trouble(self, trouble: Trouble) -> None:
        what = {
            Trouble.FLOOD: slack_faults.flood(7),
            Trouble.REFUSED: slack_faults.SlackError("is_archived"),
            Trouble.RECEIPT_LOST: slack_faults.Break.CUT_AFTER,
        }
        self._vendor.faults.add("chat.postMessage", what[trouble])

    def shut_out(self) -> None:
        self._vendor.token = "another"

    def address(self) -> Address:
        return slack_doors.address()


class DiscordGround:
    def __init__(self, vendor: discord_vendor.Vendor, door: discord_doors.Counting) -> None:
        self.door = door
        self._vendor = vendor
        self._said: dict[str, Json] = {}

    def say(self, text: str, *, bob: bool = False) -> str:
        message = self._vendor.say(text, by=discord_vendor.BOB if bob else discord_vendor.ANN)
        self._said[message["id"]] = message
        return str(message["id"])

    def revise(self, message_id: str, text: str) -> None:
        self._vendor.revise(self._said[message_id], text)

    def acked(self) -> int:
        return self.door.settled

    def texts(self) -> list[str]:
        return self._vendor.texts()

    def trouble(self, trouble: Trouble) -> None:
        what = {
            Trouble.FLOOD: discord_faults.flood(7),
            Trouble.REFUSED: discord_faults.blocked(),
            Trouble.RECEIPT_LOST: discord_faults.Break.CUT_AFTER,
        }
        self._vendor.faults.append(what[trouble])

    def shut_out(self) -> None:
        self._vendor.token = "another"

    def address(self) -> Address:
        return discord_doors.address()


def _service() -> ChatService:
    return ChatService(max_length=4096, edit=True, typing=True, buttons=True)


@asynccontextmanager
async def simulated() -> AsyncIterator[Ground]:
    service = _service()
    yield SimulatedGround(service, SimulatedPlatform(service, longest_pause=0.1))


@asynccontextmanager
async def simulated_over_http() -> AsyncIterator[Ground]:
    service = _service()
    async with serving(service) as base_url:
        yield SimulatedGround(service, RemoteSimulatedPlatform(base_url, longest_pause=0.1))


@asynccontextmanager
async def telegram_polled() -> AsyncIterator[Ground]:
    vendor = Vendor()
    async with BotApi(vendor).serving() as base_url:
        yield TelegramGround(vendor, door_to(vendor, base_url))


@asynccontextmanager
async def telegram_posted() -> AsyncIterator[Ground]:
    vendor = Vendor()
    async with BotApi(vendor).serving() as base_url:
        door = door_to(vendor, base_url, webhook="https://bot.example.org")
        app = web.Application()
        app.add_routes(door.routes())
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        inside = f"http://127.0.0.1:{runner.addresses[0][1]}"
        vendor.proxies["https://bot.example.org"] = inside
        try:
            yield TelegramGround(vendor, door)
        finally:
            await runner.cleanup()


@asynccontextmanager
async def slack_by_socket() -> AsyncIterator[Ground]:
    vendor = slack_vendor.Vendor()
    async with WebApi(vendor).serving() as base_url:
        yield SlackGround(vendor, slack_doors.door_to(vendor, base_url))


@asynccontextmanager
async def slack_posted() -> AsyncIterator[Ground]:
    vendor = slack_vendor.Vendor()
    async with WebApi(vendor).serving() as base_url:
        door = slack_doors.door_to(vendor, base_url, posted=True)
        async with slack_doors.listening(door) as url, posting(vendor, url):
            yield SlackGround(vendor, door)


@asynccontextmanager
async def discord() -> AsyncIterator[Ground]:
    vendor = discord_vendor.Vendor()
    with TemporaryDirectory() as folder:
        async with discord_rest.Rest(vendor).serving():
            await discord_doors.known_to(Path(folder), vendor)
            yield DiscordGround(vendor, discord_doors.door_to(vendor, Path(folder)))


GROUNDS: dict[str, Callable[[], AbstractAsyncContextManager[Ground]]] = {
    "simulated": simulated,
    "simulated over HTTP": simulated_over_http,
    "telegram, polled": telegram_polled,
    "telegram, posted": telegram_posted,
    "slack, by socket": slack_by_socket,
    "slack, posted": slack_posted,
    "discord": discord,
}


async def until(fact: Callable[[], Any]) -> None:
    """Wait for what another task does; the test's own timeout ends a wait for nothing."""
    while not fact():
        await asyncio.sleep(0.005)

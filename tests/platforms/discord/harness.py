"""The pretend Discord as the conformance suite meets it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import discord
import yarl
from tests.platforms.discord.builders import address, door_to, known_to
from tests.platforms.discord.fake import ANN, BOB, BOT, TEXT, THREAD, Json, Vendor, person
from tests.platforms.discord.fake_rest import Rest
from tests.platforms.discord.faults import Break, blocked, flood

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

_PEOPLE = {
    Participant.ANN: ANN,
    Participant.BOB: BOB,
    Participant.PROGRAM: person("2001", "other", bot=True),
}
_CHANNELS = {ChatKind.DM: None, ChatKind.GROUP: TEXT, ChatKind.THREAD: THREAD}
_OF_A_MESSAGE = {
    VendorFault.RATE_LIMIT: flood(7),
    VendorFault.REFUSED: blocked(),
    VendorFault.RECEIPT_LOST: Break.CUT_AFTER,
}
_BUTTON, _REPLY = 2, 19
IMPATIENT = 1.0  # seconds that a door waits for an answer, where it is to wait in vain


class DiscordGround(PlatformHarness):
    shows_replies = True

    def __init__(
        self, vendor: Vendor, door: Platform, line: FaultProxy, *, limit: float = 20.0
    ) -> None:
        self.platform = door
        self._limit = limit
        self._vendor = vendor
        self._line = line
        self._token = vendor.token

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
        mentioned = mention and chat is not ChatKind.DM
        message = self._vendor.say(
            f"<@{BOT['id']}> {text}" if mentioned else text,
            by=_PEOPLE[by],
            channel=_CHANNELS[chat],
            mentions=[BOT] if mentioned else [],
            attachments=[self._vendor.upload(each.name, each.data) for each in files],
            **({} if reply_to is None else self._reply(reply_to)),
        )
        return str(message["id"])

    def _reply(self, name: str) -> Json:
        """resources/message#message-object: what is answered stands beside its id."""
        message = self._known(name)
        reference = {"message_id": name, "channel_id": message["channel_id"]}
        return {"type": _REPLY, "message_reference": reference, "referenced_message": message}

    def _known(self, name: str) -> Json:
        every = [each for messages in self._vendor.messages.values() for each in messages]
        (found,) = [each for each in every if each["id"] == name]
        return found

    async def bot_messages(self) -> Sequence[VisibleMessage]:
        return [self._shown(each) for each in self._vendor.sent]

    def _shown(self, message: Json) -> VisibleMessage:
        places = {TEXT: ChatKind.GROUP, THREAD: ChatKind.THREAD}
        return VisibleMessage(
            text=message["content"],
            chat=places.get(message["channel_id"], ChatKind.DM),
            files=tuple(
                OutboundFile(name=each["filename"], data=self._vendor.files[each["filename"]])
                for each in message["attachments"]
            ),
            buttons=tuple(each["label"] for each in _buttons(message)),
            reply_to=message.get("message_reference", {}).get("message_id"),
        )

    async def edit(self, name: str, text: str) -> None:
        self._vendor.revise(self._known(name), text)

    async def press(self, label: str) -> None:
        (button,) = [each for each in _buttons(self._vendor.sent[-1]) if each["label"] == label]
        pressed = {"custom_id": button["custom_id"], "component_type": _BUTTON}
        self._vendor.interact(3, pressed)

    async def reactions(self, name: str) -> Sequence[str]:
        return self._vendor.signs.get(name, [])

    async def set_fault(self, fault: VendorFault) -> None:
        match fault:
            case VendorFault.BAD_CREDENTIALS:
                self._vendor.token = "another"
            case VendorFault.UNREACHABLE:
                self._line.refuse_connections()
            case VendorFault.NONE:
                self._vendor.token = self._token
                self._line.restore()
            case VendorFault.HALF_OPEN if self._limit > IMPATIENT:
                raise NotSupported("asked of a door that is less patient, in a test of its own")
            case VendorFault.HALF_OPEN:
                self._line.go_silent()
            case _:
                self._vendor.faults.append(_OF_A_MESSAGE[fault])


def _buttons(message: Json) -> list[Json]:
    return [each for row in message["components"] for each in row["components"]]


@asynccontextmanager
async def known(limit: float = 20.0) -> AsyncIterator[PlatformHarness]:
    """The bot was here before: it has talked with both of its people. Its library is led to the
    proxy as it was led to the vendor, who leads it back where it was."""
    vendor = Vendor()
    with TemporaryDirectory() as folder:
        async with Rest(vendor).serving(), FaultProxy(urlsplit(vendor.base_url).port or 0) as line:
            host = f"127.0.0.1:{line.port}"
            discord.http.Route.BASE = f"http://{host}/api/v10"
            discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(f"ws://{host}/gateway")
            await known_to(Path(folder), vendor)
            door = door_to(vendor, Path(folder), limit=limit)
            yield DiscordGround(vendor, door, line, limit=limit)

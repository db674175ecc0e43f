"""The pretend Discord as the conformance suite meets it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import discord
import yarl
from tests.platforms.discord.doors import address, door_to, known_to
from tests.platforms.discord.faults import Break, blocked, flood
from tests.platforms.discord.rest import Rest
from tests.platforms.discord.vendor import ANN, BOB, BOT, TEXT, THREAD, Json, Vendor, person

from holdfast.core.messages.outbox import Address, SentFile
from holdfast.core.ports.protocols import Platform
from holdfast.testing.conformance import Ground, NotToBeHad, Person, Place, Proxy, Shown, Trouble

_PEOPLE = {Person.ANN: ANN, Person.BOB: BOB, Person.PROGRAM: person("2001", "other", bot=True)}
_CHANNELS = {Place.DM: None, Place.GROUP: TEXT, Place.THREAD: THREAD}
_OF_A_MESSAGE = {
    Trouble.FLOOD: flood(7),
    Trouble.REFUSED: blocked(),
    Trouble.RECEIPT_LOST: Break.CUT_AFTER,
}
_BUTTON, _REPLY = 2, 19
IMPATIENT = 1.0  # seconds that a door waits for an answer, where it is to wait in vain


class DiscordGround(Ground):
    shows_answers = True

    def __init__(self, vendor: Vendor, door: Platform, line: Proxy, *, limit: float = 20.0) -> None:
        self.door = door
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
        by: Person = Person.ANN,
        place: Place = Place.DM,
        named: bool = False,
        answers: str | None = None,
        files: Sequence[SentFile] = (),
    ) -> str:
        mentioned = named and place is not Place.DM
        message = self._vendor.say(
            f"<@{BOT['id']}> {text}" if mentioned else text,
            by=_PEOPLE[by],
            channel=_CHANNELS[place],
            mentions=[BOT] if mentioned else [],
            attachments=[self._vendor.upload(each.name, each.data) for each in files],
            **({} if answers is None else self._reply(answers)),
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

    async def read(self) -> Sequence[Shown]:
        return [self._shown(each) for each in self._vendor.sent]

    def _shown(self, message: Json) -> Shown:
        places = {TEXT: Place.GROUP, THREAD: Place.THREAD}
        return Shown(
            text=message["content"],
            place=places.get(message["channel_id"], Place.DM),
            files=tuple(
                SentFile(name=each["filename"], data=self._vendor.files[each["filename"]])
                for each in message["attachments"]
            ),
            choices=tuple(each["label"] for each in _buttons(message)),
            answers=message.get("message_reference", {}).get("message_id"),
        )

    async def revise(self, name: str, text: str) -> None:
        self._vendor.revise(self._known(name), text)

    async def press(self, label: str) -> None:
        (button,) = [each for each in _buttons(self._vendor.sent[-1]) if each["label"] == label]
        pressed = {"custom_id": button["custom_id"], "component_type": _BUTTON}
        self._vendor.interact(3, pressed)

    async def signs(self, name: str) -> Sequence[str]:
        return self._vendor.signs.get(name, [])

    async def trouble(self, trouble: Trouble) -> None:
        match trouble:
            case Trouble.SHUT_OUT:
                self._vendor.token = "another"
            case Trouble.AWAY:
                self._line.go_away()
            case Trouble.WELL:
                self._vendor.token = self._token
                self._line.be_well()
            case Trouble.SILENT if self._limit > IMPATIENT:
                raise NotToBeHad("asked of a door that is less patient, in a test of its own")
            case Trouble.SILENT:
                self._line.fall_silent()
            case _:
                self._vendor.faults.append(_OF_A_MESSAGE[trouble])


def _buttons(message: Json) -> list[Json]:
    return [each for row in message["components"] for each in row["components"]]


@asynccontextmanager
async def known(limit: float = 20.0) -> AsyncIterator[Ground]:
    """The bot was here before: it has talked with both of its people. Its library is led to the
    proxy as it was led to the vendor, who leads it back where it was."""
    vendor = Vendor()
    with TemporaryDirectory() as folder:
        async with Rest(vendor).serving(), Proxy(urlsplit(vendor.base_url).port or 0) as line:
            host = f"127.0.0.1:{line.port}"
            discord.http.Route.BASE = f"http://{host}/api/v10"
            discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(f"ws://{host}/gateway")
            await known_to(Path(folder), vendor)
            door = door_to(vendor, Path(folder), limit=limit)
            yield DiscordGround(vendor, door, line, limit=limit)

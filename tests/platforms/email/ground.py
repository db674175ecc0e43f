"""The post office as the conformance suite meets it, with a mailbox for the bot."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from email.message import Message
from pathlib import Path

import msgspec
from tests.platforms.email.doors import (
    address,
    door_for,
    known_to,
    mail,
    settings_for,
    words_of,
)
from tests.platforms.email.post_office import PASSWORD, PostOffice
from tests.platforms.email.relay import Fault, Relay

from holdfast.core.messages.outbox import Address, SentFile
from holdfast.core.ports.protocols import Platform
from holdfast.core.secret import Secret
from holdfast.platforms.email.plugin import Copies
from holdfast.platforms.email.record import Mark
from holdfast.testing.conformance import Ground, NotToBeHad, Person, Place, Proxy, Shown, Trouble

_FAULTS = {
    Trouble.FLOOD: Fault.LATER,
    Trouble.REFUSED: Fault.NOBODY,
    Trouble.RECEIPT_LOST: Fault.CUT_AFTER,
}


class EmailGround(Ground):
    shows_answers = True

    def __init__(
        self,
        office: PostOffice,
        door: Platform,
        *,
        bot: str,
        folder: Path,
        secrets: dict[str, Secret],
        relay: Relay,
        lines: Sequence[Proxy],
    ) -> None:
        self.door = door
        self._office = office
        self._bot = bot
        self._folder = folder
        self._secrets = secrets
        self._relay = relay
        self._lines = lines
        self._people = {who: office.person(who.name.lower()) for who in Person}

    def address(self) -> Address:
        return address(self._people[Person.ANN])

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
        if place is Place.GROUP:
            raise NotToBeHad("a mail is answered to its writer alone, whoever else reads it")
        said = mail(text, by=self._people[by], to=self._bot)
        for file in files:
            said.add_attachment(
                file.data, maintype="application", subtype="octet-stream", filename=file.name
            )
        await asyncio.to_thread(self._office.deliver, said, to=self._bot)
        return str(said["Message-ID"])

    async def read(self) -> Sequence[Shown]:
        """In the order in which they were said: a server may bring two of them in either."""
        mails = self._office.mails(self._people[Person.ANN])
        order = self._relay.taken
        return [
            _shown(each) for each in sorted(mails, key=lambda it: order.index(it["Message-ID"]))
        ]

    async def acknowledged(self) -> int:
        """By what the door has written down: a mailbox has no other word for it."""
        (record,) = self._folder.glob("*.json")
        return msgspec.json.decode(record.read_bytes(), type=Mark).uid

    async def trouble(self, trouble: Trouble) -> None:
        for line in self._lines:
            match trouble:
                case Trouble.AWAY:
                    line.go_away()
                case Trouble.SILENT:
                    line.fall_silent()
                case Trouble.WELL:
                    line.be_well()
        if trouble is Trouble.SHUT_OUT:
            self._secrets["password"] = Secret("one that was changed meanwhile")
        elif trouble is Trouble.WELL:
            self._secrets["password"] = Secret(PASSWORD)
        elif trouble in _FAULTS:
            self._relay.faults.append(_FAULTS[trouble])


def _shown(message: Message) -> Shown:
    answers = message["In-Reply-To"]
    return Shown(
        text=words_of(message),
        place=Place.THREAD if answers else Place.DM,
        files=tuple(_files(message)),
        answers=answers,
    )


def _files(message: Message) -> Sequence[SentFile]:
    found = [part for part in message.walk() if part.get_filename()]
    return [
        SentFile(name=str(part.get_filename()), data=bytes(part.get_payload(decode=True)))
        for part in found
    ]


@asynccontextmanager
async def mailbox(office: PostOffice, folder: Path) -> AsyncIterator[Ground]:
    bot = office.person("bot")
    settings, secrets = settings_for(office, bot), {"password": Secret(PASSWORD)}
    await known_to(settings, folder)
    async with (
        Relay(office.ports["smtp"]).serving() as relay,
        Proxy(office.ports["imap"]) as imap,
        Proxy(relay.port) as smtp,
    ):
        settings = settings_for(
            office, bot, imap_port=imap.port, smtp_port=smtp.port, copies=Copies.NONE
        )
        yield EmailGround(
            office,
            door_for(settings, folder, secrets=secrets),
            bot=bot,
            folder=folder,
            secrets=secrets,
            relay=relay,
            lines=(imap, smtp),
        )

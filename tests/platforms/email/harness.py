"""The post office as the conformance suite meets it, with a mailbox for the bot."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from email.message import Message
from pathlib import Path

import msgspec
from tests.platforms.email.builders import (
    address,
    door_for,
    known_to,
    mail,
    settings_for,
    words_of,
)
from tests.platforms.email.mail_server import PASSWORD, PostOffice
from tests.platforms.email.smtp_proxy import Fault, Relay

from holdfast.core.messages.outbox import Address, OutboundFile
from holdfast.core.ports.platform import Platform
from holdfast.core.secrets import Secret
from holdfast.platforms.email.plugin import SentCopies
from holdfast.platforms.email.state import MailboxPosition
from holdfast.testing.conformance import (
    ChatKind,
    FaultProxy,
    NotSupported,
    Participant,
    PlatformHarness,
    VendorFault,
    VisibleMessage,
)

_FAULTS = {
    VendorFault.RATE_LIMIT: Fault.LATER,
    VendorFault.REFUSED: Fault.NOBODY,
    VendorFault.RECEIPT_LOST: Fault.CUT_AFTER,
}


class EmailGround(PlatformHarness):
    shows_replies = True

    def __init__(
        self,
        office: PostOffice,
        door: Platform,
        *,
        bot: str,
        folder: Path,
        secrets: dict[str, Secret],
        relay: Relay,
        lines: Sequence[FaultProxy],
    ) -> None:
        self.platform = door
        self._office = office
        self._bot = bot
        self._folder = folder
        self._secrets = secrets
        self._relay = relay
        self._lines = lines
        self._people = {who: office.person(who.name.lower()) for who in Participant}

    def address(self) -> Address:
        return address(self._people[Participant.ANN])

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
        if chat is ChatKind.GROUP:
            raise NotSupported("a mail is answered to its writer alone, whoever else reads it")
        said = mail(text, by=self._people[by], to=self._bot)
        for file in files:
            said.add_attachment(
                file.data, maintype="application", subtype="octet-stream", filename=file.name
            )
        await asyncio.to_thread(self._office.deliver, said, to=self._bot)
        return str(said["Message-ID"])

    async def bot_messages(self) -> Sequence[VisibleMessage]:
        """In the order in which they were said: a server may bring two of them in either."""
        mails = self._office.mails(self._people[Participant.ANN])
        order = self._relay.taken
        return [
            _shown(each) for each in sorted(mails, key=lambda it: order.index(it["Message-ID"]))
        ]

    async def acknowledged(self) -> int:
        """By what the door has written down: a mailbox has no other word for it."""
        (record,) = self._folder.glob("*.json")
        return msgspec.json.decode(record.read_bytes(), type=MailboxPosition).uid

    async def set_fault(self, fault: VendorFault) -> None:
        for line in self._lines:
            match fault:
                case VendorFault.UNREACHABLE:
                    line.refuse_connections()
                case VendorFault.HALF_OPEN:
                    line.go_silent()
                case VendorFault.NONE:
                    line.restore()
        if fault is VendorFault.BAD_CREDENTIALS:
            self._secrets["password"] = Secret("one that was changed meanwhile")
        elif fault is VendorFault.NONE:
            self._secrets["password"] = Secret(PASSWORD)
        elif fault in _FAULTS:
            self._relay.faults.append(_FAULTS[fault])


def _shown(message: Message) -> VisibleMessage:
    answers = message["In-Reply-To"]
    return VisibleMessage(
        text=words_of(message),
        chat=ChatKind.THREAD if answers else ChatKind.DM,
        files=tuple(_files(message)),
        reply_to=answers,
    )


def _files(message: Message) -> Sequence[OutboundFile]:
    found = [part for part in message.walk() if part.get_filename()]
    return [
        OutboundFile(name=str(part.get_filename()), data=bytes(part.get_payload(decode=True)))
        for part in found
    ]


@asynccontextmanager
async def mailbox(office: PostOffice, folder: Path) -> AsyncIterator[PlatformHarness]:
    bot = office.person("bot")
    settings, secrets = settings_for(office, bot), {"password": Secret(PASSWORD)}
    await known_to(settings, folder)
    async with (
        Relay(office.ports["smtp"]).serving() as relay,
        FaultProxy(office.ports["imap"]) as imap,
        FaultProxy(relay.port) as smtp,
    ):
        settings = settings_for(
            office, bot, imap_port=imap.port, smtp_port=smtp.port, copies=SentCopies.NONE
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

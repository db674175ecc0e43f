"""The conformance harness for email, with a mailbox on the real mail server."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from email.message import Message
from pathlib import Path

import msgspec
from tests.platforms.email.builders import (
    address,
    mail,
    new_platform,
    plain_text,
    settings_for,
    write_checkpoint,
)
from tests.platforms.email.mail_server import LARGEST_MAIL, PASSWORD, MailServer
from tests.platforms.email.smtp_proxy import SmtpFault, SmtpProxy

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
    VendorFault.RATE_LIMIT: SmtpFault.LATER,
    VendorFault.REFUSED: SmtpFault.NO_SUCH_USER,
    VendorFault.RECEIPT_LOST: SmtpFault.RESET_AFTER,
}


class EmailHarness(PlatformHarness):
    shows_replies = True

    def __init__(
        self,
        mail_server: MailServer,
        platform: Platform,
        *,
        bot: str,
        folder: Path,
        secrets: dict[str, Secret],
        smtp_proxy: SmtpProxy,
        proxies: Sequence[FaultProxy],
    ) -> None:
        self.platform = platform
        self._mail_server = mail_server
        self._bot = bot
        self._folder = folder
        self._secrets = secrets
        self._smtp_proxy = smtp_proxy
        self._proxies = proxies
        self._addresses = {who: mail_server.new_address(who.name.lower()) for who in Participant}

    def address(self) -> Address:
        return address(self._addresses[Participant.ANN])

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
            raise NotSupported("a mail is answered to its sender only")
        message = mail(text, by=self._addresses[by], to=self._bot)
        for file in files:
            message.add_attachment(
                file.data, maintype="application", subtype="octet-stream", filename=file.name
            )
        await asyncio.to_thread(self._mail_server.deliver, message, to=self._bot)
        return str(message["Message-ID"])

    async def bot_messages(self) -> Sequence[VisibleMessage]:
        """In the order in which they were sent; a server may deliver them in another."""
        mails = self._mail_server.mails(self._addresses[Participant.ANN])
        order = self._smtp_proxy.accepted
        return [
            _shown(each) for each in sorted(mails, key=lambda it: order.index(it["Message-ID"]))
        ]

    async def acknowledged(self) -> int:
        """By the checkpoint: a mailbox has no acknowledgement."""
        (record,) = self._folder.glob("*.json")
        return msgspec.json.decode(record.read_bytes(), type=MailboxPosition).uid

    async def too_large_file(self) -> OutboundFile:
        return OutboundFile(name="plan.txt", data=bytes(LARGEST_MAIL))

    async def set_fault(self, fault: VendorFault) -> None:
        for proxy in self._proxies:
            match fault:
                case VendorFault.UNREACHABLE:
                    proxy.refuse_connections()
                case VendorFault.HALF_OPEN:
                    proxy.go_silent()
                case VendorFault.NONE:
                    proxy.restore()
        if fault is VendorFault.BAD_CREDENTIALS:
            self._secrets["password"] = Secret("one that was changed meanwhile")
        elif fault is VendorFault.NONE:
            self._secrets["password"] = Secret(PASSWORD)
        elif fault in _FAULTS:
            self._smtp_proxy.faults.append(_FAULTS[fault])


def _shown(message: Message) -> VisibleMessage:
    answers = message["In-Reply-To"]
    return VisibleMessage(
        text=plain_text(message),
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
async def email_harness(mail_server: MailServer, folder: Path) -> AsyncIterator[PlatformHarness]:
    bot = mail_server.new_address("bot")
    settings, secrets = settings_for(mail_server, bot), {"password": Secret(PASSWORD)}
    await write_checkpoint(settings, folder)
    async with (
        SmtpProxy(mail_server.ports["smtp"]).serving() as smtp_proxy,
        FaultProxy(mail_server.ports["imap"]) as imap,
        FaultProxy(smtp_proxy.port) as smtp,
    ):
        settings = settings_for(
            mail_server, bot, imap_port=imap.port, smtp_port=smtp.port, copies=SentCopies.NONE
        )
        yield EmailHarness(
            mail_server,
            new_platform(settings, folder, secrets=secrets),
            bot=bot,
            folder=folder,
            secrets=secrets,
            smtp_proxy=smtp_proxy,
            proxies=(imap, smtp),
        )

"""The connection to both mail servers: all parts of an account that exist while it is connected.

Importing this module imports the mail libraries: import it lazily, in a thread.
"""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from holdfast.core.config.settings import account_table
from holdfast.core.errors import (
    AccountDisconnected,
    ConnectError,
    ConnectRefused,
    NotConnected,
    SendRejected,
)
from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import Address, Outbound, Receipt
from holdfast.core.ports.platform import Intake
from holdfast.core.ports.platform_plugin import PluginContext
from holdfast.platforms.email.client import ImapMailbox, make_tls_context, open_mailbox
from holdfast.platforms.email.credentials import (
    CredentialProvider,
    OAuthCredentials,
    PasswordCredentials,
)
from holdfast.platforms.email.events import (
    PLATFORM,
    EmailParser,
    ThreadFiles,
    digest,
    domain_of,
    message_id_of,
)
from holdfast.platforms.email.plugin import EmailSettings
from holdfast.platforms.email.receiver import EmailReceiver, MailProcessor
from holdfast.platforms.email.sender import SentFolder, SmtpClient, SmtpLoginRefused, compose
from holdfast.platforms.email.state import (
    LoopLimiter,
    MailboxCheckpoint,
    MailboxPosition,
    PoisonMails,
)

# ASCII, without brackets, spaces and a second @.
_SENDABLE_ADDRESS = re.compile(r"[!-;=?A-~]+@[!-;=?A-~]+")
_PROBE_TIMEOUT = 3.0  # seconds: the caller waits for it


class EmailConnection:
    """All parts of one connection. Owns the pending probes of the IMAP connection."""

    def __init__(
        self,
        context: PluginContext[EmailSettings],
        mailbox: ImapMailbox,
        *,
        sent_folder: SentFolder,
        smtp: SmtpClient,
    ) -> None:
        self._context = context
        self._mailbox = mailbox
        self._sent_folder = sent_folder
        self._smtp = smtp
        self._threads = ThreadFiles(context.folder / "threads")
        self._probes: list[asyncio.Future[None]] = []

    @property
    def can_look_up(self) -> bool:
        return self._sent_folder.proves_absence

    async def send(self, outbound: Outbound) -> Receipt:
        address, settings = outbound.address, self._context.settings
        if _SENDABLE_ADDRESS.fullmatch(address.chat_id) is None:
            raise SendRejected("{chat_id!r} is not a valid mail address", chat_id=address.chat_id)
        message_id = self._message_id(outbound.delivery_id, address)
        if outbound.may_be_duplicate and await self._has_stored_copy(
            message_id, outbound.delivery_id
        ):
            return Receipt(platform_message_id=message_id)
        thread = None
        if address.thread_id is not None:
            thread = await self._threads.get(address.chat_id, address.thread_id)
        now = self._context.clock.now()
        mail = await asyncio.to_thread(compose, outbound, thread, settings=settings, at=now)
        await self._smtp.submit(mail.source, to=address.chat_id)
        await self._sent_folder.store_copy(mail)
        return Receipt(platform_message_id=message_id)

    async def _has_stored_copy(self, message_id: str, delivery_id: DeliveryId) -> bool:
        """Our copy is stored after the mail was accepted: if it exists, the mail was sent."""
        return self._sent_folder.stores_copies and await self._sent_folder.contains(
            message_id, delivery_id
        )

    async def find_delivery(self, delivery_id: DeliveryId, address: Address) -> Receipt | None:
        message_id = self._message_id(delivery_id, address)
        found = await self._sent_folder.contains(message_id, delivery_id)
        return Receipt(platform_message_id=message_id) if found else None

    def login_refusal(self, error: NotConnected) -> ConnectRefused | None:
        """The error for the account, if a person has to fix the login; None if it is temporary."""
        return (
            login_refused_error(error, self._context.account)
            if isinstance(error, SmtpLoginRefused)
            else None
        )

    async def probe(self) -> None:
        """Wakes the receiver, which does a round trip on the connection."""
        probe = asyncio.get_running_loop().create_future()
        self._probes.append(probe)
        self._mailbox.wake()
        try:
            async with asyncio.timeout(_PROBE_TIMEOUT):
                await probe
        except TimeoutError:
            raise AccountDisconnected(
                "the IMAP server has not answered for {timeout:.0f} s", timeout=_PROBE_TIMEOUT
            ) from None

    def activity_seen(self) -> None:
        for probe in self._probes:
            if not probe.done():
                probe.set_result(None)
        self._probes.clear()

    def connection_lost(self, error: ConnectError) -> None:
        for probe in self._probes:
            if not probe.done():
                probe.set_exception(error)
        self._probes.clear()

    async def start_receiver(
        self, intake: Intake, limiter: LoopLimiter, poison_mails: PoisonMails
    ) -> tuple[EmailReceiver, list[int]]:
        """The receiver, and the UIDs of the mails that wait already."""
        context, settings = self._context, self._context.settings
        parser = EmailParser(settings, account=context.account)
        processor = MailProcessor(
            self._mailbox,
            parser,
            self._threads,
            limiter,
            intake=intake,
            max_bytes=settings.max_mail_mb * 2**20,
            pairing=settings.pairing,
        )
        checkpoint = MailboxCheckpoint(context.folder / f"{digest(parser.cursor_name)}.json")
        receiver = EmailReceiver(
            self._mailbox,
            processor,
            checkpoint,
            poison_mails,
            clock=context.clock,
            idle_seconds=settings.idle_seconds,
        )
        await self._threads.remove_stale(context.clock.now())
        cursor = await intake.cursor(PLATFORM, context.account, parser.cursor_name)
        return receiver, await receiver.start(settings.folder, MailboxPosition.parse(cursor))

    def _message_id(self, delivery_id: DeliveryId, address: Address) -> str:
        domain = domain_of(self._context.settings.address)
        return message_id_of(delivery_id, address.thread_id, domain=domain)


@asynccontextmanager
async def open_connection(
    plugin_context: PluginContext[EmailSettings],
    on_response: Callable[[], None],
    *,
    save_tokens: bool = True,
) -> AsyncIterator[EmailConnection]:
    """Logged in to both servers. Raises a `ConnectError`."""
    settings = plugin_context.settings
    tls_context = await asyncio.to_thread(make_tls_context, settings)
    credentials = make_credentials(plugin_context, tls_context, save_tokens=save_tokens)

    def open_another() -> AbstractAsyncContextManager[ImapMailbox]:
        return open_mailbox(settings, credentials, tls_context)

    async with open_mailbox(settings, credentials, tls_context, on_response) as mailbox:
        smtp = SmtpClient(settings, credentials, tls_context)
        await _check_smtp_login(plugin_context, smtp)
        sent_folder = await SentFolder.detect(mailbox, open_another, copies=settings.copies)
        yield EmailConnection(plugin_context, mailbox, sent_folder=sent_folder, smtp=smtp)


def make_credentials(
    plugin_context: PluginContext[EmailSettings],
    tls_context: ssl.SSLContext | None,
    *,
    save_tokens: bool,
) -> CredentialProvider:
    """With `save_tokens`, a refresh token that replaces another is saved."""
    if not plugin_context.settings.token_url:
        return PasswordCredentials(plugin_context.secrets["password"])
    return OAuthCredentials(
        plugin_context,
        tls_context,
        file=plugin_context.folder / "tokens.json" if save_tokens else None,
    )


async def _check_smtp_login(context: PluginContext[EmailSettings], smtp: SmtpClient) -> None:
    try:
        await smtp.check_login()
    except SmtpLoginRefused as error:
        raise login_refused_error(error, context.account) from error
    except NotConnected as error:
        raise AccountDisconnected("{error}", error=error) from error


def login_refused_error(error: SmtpLoginRefused, account: str) -> ConnectRefused:
    if error.remedy:
        return ConnectRefused("{error}", error=error, remedy=error.remedy)
    return ConnectRefused(
        "{error}: the password is not accepted",
        error=error,
        table=account_table(PLATFORM, account),
        remedy="Set {table}.password; if the server accepts this machine without a password, set "
        "smtp_login = false.",
    )

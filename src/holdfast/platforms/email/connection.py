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

_SENDABLE_ADDRESS = re.compile(
    r"[!-;=?A-~]+@[!-;=?A-~]+"
)  # ASCII, without brackets, blanks and another @
_PROBE_TIMEOUT = 3.0  # seconds: whoever asks waits for it


class EmailConnection:
    """Owns the line to the mailbox, and those who ask whether it lives."""

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
            raise SendRejected(f"{address.chat_id!r} is no address that mail can be sent to")
        name = self._message_id(outbound.delivery_id, address)
        if outbound.may_be_duplicate and await self._has_stored_copy(name, outbound.delivery_id):
            return Receipt(platform_message_id=name)
        thread = None
        if address.thread_id is not None:
            thread = await self._threads.get(address.chat_id, address.thread_id)
        now = self._context.clock.now()
        mail = await asyncio.to_thread(compose, outbound, thread, settings=settings, at=now)
        await self._smtp.submit(mail.source, to=address.chat_id)
        await self._sent_folder.store_copy(mail)
        return Receipt(platform_message_id=name)

    async def _has_stored_copy(self, message_id: str, delivery_id: DeliveryId) -> bool:
        """One of ours is made after the mail was taken: if it is there, that was."""
        return self._sent_folder.stores_copies and await self._sent_folder.contains(
            message_id, delivery_id
        )

    async def find_delivery(self, delivery_id: DeliveryId, address: Address) -> Receipt | None:
        name = self._message_id(delivery_id, address)
        found = await self._sent_folder.contains(name, delivery_id)
        return Receipt(platform_message_id=name) if found else None

    def login_refusal(self, error: NotConnected) -> ConnectRefused | None:
        """What it means for the account; None: nothing that would not pass."""
        return (
            login_refused_error(error, self._context.account)
            if isinstance(error, SmtpLoginRefused)
            else None
        )

    async def probe(self) -> None:
        """The line is asked by whoever listens to it, between two looks."""
        asking = asyncio.get_running_loop().create_future()
        self._probes.append(asking)
        self._mailbox.wake()
        try:
            async with asyncio.timeout(_PROBE_TIMEOUT):
                await asking
        except TimeoutError:
            raise AccountDisconnected(
                f"the IMAP server has not answered for {_PROBE_TIMEOUT:.0f} s"
            ) from None

    def activity_seen(self) -> None:
        for asking in self._probes:
            if not asking.done():
                asking.set_result(None)
        self._probes.clear()

    def connection_lost(self, error: ConnectError) -> None:
        for asking in self._probes:
            if not asking.done():
                asking.set_exception(error)
        self._probes.clear()

    async def start_receiver(
        self, intake: Intake, limiter: LoopLimiter, poison_mails: PoisonMails
    ) -> tuple[EmailReceiver, list[int]]:
        """How what is new is taken, and what waits already."""
        opening, settings = self._context, self._context.settings
        reader = EmailParser(settings, account=opening.account)
        taking = MailProcessor(
            self._mailbox,
            reader,
            self._threads,
            limiter,
            intake=intake,
            max_bytes=settings.max_mail_mb * 2**20,
            pairing=settings.pairing,
        )
        record = MailboxCheckpoint(opening.folder / f"{digest(reader.cursor_name)}.json")
        receiving = EmailReceiver(
            self._mailbox,
            taking,
            record,
            poison_mails,
            clock=opening.clock,
            idle_seconds=settings.idle_seconds,
        )
        await self._threads.remove_stale(opening.clock.now())
        cursor = await intake.cursor(PLATFORM, opening.account, reader.cursor_name)
        return receiving, await receiving.start(settings.folder, MailboxPosition.parse(cursor))

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
    """Both servers have let us in. Raises a `ConnectError`."""
    settings = plugin_context.settings
    context = await asyncio.to_thread(make_tls_context, settings)
    keys = make_credentials(plugin_context, context, save_tokens=save_tokens)

    def open_box() -> AbstractAsyncContextManager[ImapMailbox]:
        return open_mailbox(settings, keys, context)

    async with open_mailbox(settings, keys, context, on_response) as box:
        submitting = await _check_smtp_login(plugin_context, SmtpClient(settings, keys, context))
        sent = await SentFolder.detect(box, open_box, copies=settings.copies)
        yield EmailConnection(plugin_context, box, sent_folder=sent, smtp=submitting)


def make_credentials(
    plugin_context: PluginContext[EmailSettings],
    tls_context: ssl.SSLContext | None,
    *,
    save_tokens: bool,
) -> CredentialProvider:
    """`keeps`: a refresh token that follows another is kept."""
    if not plugin_context.settings.token_url:
        return PasswordCredentials(plugin_context.secrets["password"])
    return OAuthCredentials(
        plugin_context,
        tls_context,
        file=plugin_context.folder / "tokens.json" if save_tokens else None,
    )


async def _check_smtp_login(context: PluginContext[EmailSettings], smtp: SmtpClient) -> SmtpClient:
    try:
        await smtp.check_login()
    except SmtpLoginRefused as error:
        raise login_refused_error(error, context.account) from error
    except NotConnected as error:
        raise AccountDisconnected(str(error)) from error
    return smtp


def login_refused_error(error: SmtpLoginRefused, account: str) -> ConnectRefused:
    if error.remedy:
        return ConnectRefused(str(error), remedy=error.remedy)
    return ConnectRefused(
        f"{error}: the password is not taken",
        remedy=f"set {account_table(PLATFORM, account)}.password; where the server knows this machine "
        "without one, smtp_login = false",
    )

"""Builds an email platform for the mail server, and the mails that tests deliver to it."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.message import EmailMessage, Message
from email.utils import format_datetime
from itertools import count
from pathlib import Path
from typing import Any

from tests.platforms.email.mail_server import PASSWORD, MailServer

from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import Address, Outbound
from holdfast.core.ports.platform_plugin import PluginContext
from holdfast.core.secrets import Secret
from holdfast.platforms.email.events import EmailParser, digest
from holdfast.platforms.email.platform import EmailPlatform
from holdfast.platforms.email.plugin import ConnectionSecurity, EmailSettings
from holdfast.platforms.email.state import MailboxCheckpoint, MailboxPosition
from holdfast.system.clock import SystemClock

CHECKS = "mx.localhost"  # the server that adds Authentication-Results
SECRETS = {"password": Secret(PASSWORD)}
_NUMBERS = count(1)


def settings_for(mail_server: MailServer, bot: str, **more: Any) -> EmailSettings:
    usual = {
        "address": bot,
        "password": "env:PASSWORD",
        "imap_host": "127.0.0.1",
        "imap_port": mail_server.ports["imap"],
        "imap_security": ConnectionSecurity.PLAIN,
        "smtp_host": "127.0.0.1",
        "smtp_port": mail_server.ports["smtp"],
        "smtp_security": ConnectionSecurity.PLAIN,
        "smtp_login": False,
        "authserv_id": CHECKS,
    }
    return EmailSettings(**{**usual, **more})


def new_platform(
    settings: EmailSettings, folder: Path, *, secrets: Mapping[str, Secret] = SECRETS
) -> EmailPlatform:
    return EmailPlatform(
        PluginContext(
            account="default",
            settings=settings,
            secrets=secrets,
            folder=folder,
            clock=SystemClock(),
            new_id=lambda prefix: prefix,
        )
    )


def checkpoint_of(settings: EmailSettings, folder: Path) -> MailboxCheckpoint:
    """The checkpoint file of an account."""
    return MailboxCheckpoint(
        folder / f"{digest(EmailParser(settings, account='default').cursor_name)}.json"
    )


async def write_checkpoint(settings: EmailSettings, folder: Path) -> None:
    """Write a checkpoint with another UIDVALIDITY, so that all mail in the mailbox is read."""
    await checkpoint_of(settings, folder).save(
        MailboxPosition(validity=0, uid=0, at=SystemClock().now())
    )


def mail(
    text: str, *, by: str, to: str, checked: bool = True, subject: str = "", **headers: str
) -> EmailMessage:
    """As the receiving server leaves it. `In_Reply_To="…"` is a header."""
    message = EmailMessage()
    name = by.partition("@")[0].title()
    message["From"], message["To"] = f"{name} <{by}>", to
    if subject:
        message["Subject"] = subject
    if checked:
        message["Authentication-Results"] = f"{CHECKS}; dmarc=pass header.from=localhost"
    said = {header.replace("_", "-"): value for header, value in headers.items()}
    said.setdefault("Message-ID", f"<{next(_NUMBERS)}.{name}@localhost>")
    said.setdefault("Date", format_datetime(datetime.now(UTC)))
    for header, value in said.items():
        message[header] = value
    message.set_content(text)
    return message


def plain_text(message: Message) -> str:
    """The plain text that a person reads."""
    plain = next(part for part in message.walk() if part.get_content_type() == "text/plain")
    data = plain.get_payload(decode=True)
    assert isinstance(data, bytes)
    return data.decode().replace("\r\n", "\n").rstrip("\n")


def address(chat: str, thread: str | None = None) -> Address:
    return Address(platform="email", account="default", chat_id=chat, thread_id=thread)


def outbound(text: str, to: Address, *, delivery: str = "d1", **more: Any) -> Outbound:
    return Outbound(delivery_id=DeliveryId(delivery), address=to, text=text, **more)


async def until(fact: Callable[[], object]) -> None:
    """Wait for what another process does; the test's own timeout ends a wait for nothing."""
    while not fact():
        await asyncio.sleep(0.01)

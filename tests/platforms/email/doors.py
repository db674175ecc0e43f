"""An e-mail door to the post office, and the mail that tests write to it."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from email.message import EmailMessage, Message
from itertools import count
from pathlib import Path
from typing import Any

from tests.platforms.email.post_office import PASSWORD, PostOffice

from holdfast.core.door import Opening
from holdfast.core.ids import DeliveryId
from holdfast.core.outbox import Address, Outbound
from holdfast.core.secret import Secret
from holdfast.platforms.email.door import EmailSettings, Security
from holdfast.platforms.email.platform import EmailPlatform
from holdfast.service.clock import SystemClock

CHECKS = "mx.localhost"  # who has looked at what arrives
_NUMBERS = count(1)


def settings_for(office: PostOffice, bot: str, **more: Any) -> EmailSettings:
    usual = {
        "address": bot,
        "password": "env:PASSWORD",
        "imap_host": "127.0.0.1",
        "imap_port": office.ports["imap"],
        "imap_security": Security.PLAIN,
        "smtp_host": "127.0.0.1",
        "smtp_port": office.ports["smtp"],
        "smtp_security": Security.PLAIN,
        "smtp_login": False,
        "authserv_id": CHECKS,
    }
    return EmailSettings(**{**usual, **more})


def door_for(settings: EmailSettings, folder: Path, *, password: str = PASSWORD) -> EmailPlatform:
    return EmailPlatform(
        Opening(
            account="default",
            settings=settings,
            secrets={"password": Secret(password)},
            folder=folder,
            clock=SystemClock(),
            new_id=lambda prefix: prefix,
        )
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
    headers = {"Message-ID": f"<{next(_NUMBERS)}.{name}@localhost>", **headers}
    headers.setdefault("Date", datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S +0000"))
    for header, value in headers.items():
        message[header.replace("_", "-")] = value
    message.set_content(text)
    return message


def words_of(message: Message) -> str:
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

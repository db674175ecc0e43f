"""Tests sending mail: headers, and the outcome of each failure."""

import asyncio
from collections.abc import AsyncIterator
from email import message_from_bytes
from pathlib import Path

import msgspec
import pytest
from tests.platforms.email.builders import (
    SECRETS,
    address,
    new_platform,
    outbound,
    settings_for,
    until,
)
from tests.platforms.email.mail_server import PASSWORD, MailServer
from tests.platforms.email.smtp_proxy import SmtpFault, SmtpProxy

from holdfast.core.errors import (
    ConnectRefused,
    FileTooLarge,
    NotConnected,
    OutcomeUnknown,
    SendError,
    SendRejected,
    Throttled,
)
from holdfast.core.messages.outbox import OutboundFile
from holdfast.platforms.email.client import open_mailbox
from holdfast.platforms.email.credentials import PasswordCredentials
from holdfast.platforms.email.events import EmailThread
from holdfast.platforms.email.platform import capabilities_of
from holdfast.platforms.email.plugin import EmailSettings, SentCopies
from holdfast.platforms.email.sender import SentFolder, compose
from holdfast.testing.intake import RecordingIntake

SETTINGS = EmailSettings(
    address="bot@localhost",
    name="Der Böt",
    password="env:P",
    imap_host="localhost",
    smtp_host="localhost",
    trust_from=True,
)


@pytest.fixture
async def smtp_proxy(mail_server: MailServer) -> AsyncIterator[SmtpProxy]:
    async with SmtpProxy(mail_server.ports["smtp"]).serving() as smtp_proxy:
        yield smtp_proxy


async def test_each_smtp_failure_says_whether_the_mail_was_sent(
    mail_server: MailServer, smtp_proxy: SmtpProxy, tmp_path: Path
) -> None:
    """I2: 4xx → later; 5xx → never; cut before the mail was said → not sent; cut behind its final
    dot → unknown."""
    cases: list[tuple[SmtpFault, type[SendError]]] = [
        (SmtpFault.LATER, Throttled),
        (SmtpFault.FULL, Throttled),
        (SmtpFault.NO_SUCH_USER, SendRejected),
        (SmtpFault.TOO_LARGE, FileTooLarge),
        (SmtpFault.OVER_QUOTA, SendRejected),
        (SmtpFault.SPAM, SendRejected),
        (SmtpFault.RESET_BEFORE, NotConnected),
        (SmtpFault.RESET_AFTER, OutcomeUnknown),
    ]
    bot, ann = mail_server.new_address("bot"), mail_server.new_address("ann")
    platform = new_platform(settings_for(mail_server, bot, smtp_port=smtp_proxy.port), tmp_path)
    async with platform.connect(RecordingIntake()):
        for number, (fault, error) in enumerate(cases):
            smtp_proxy.faults.append(fault)
            with pytest.raises(error) as raised:
                await platform.send(outbound("hello", address(ann), delivery=f"d{number}"))
            assert isinstance(raised.value, FileTooLarge) == (error is FileTooLarge)
        with pytest.raises(SendRejected):
            await platform.send(outbound("hello", address("no address at all")))
    await until(
        lambda: len(mail_server.mails(ann)) == 2
    )  # of the last, and of what was called spam


async def test_an_unknown_outcome_is_resolved_in_the_sent_folder(mail_server: MailServer) -> None:
    """I2: exactly once where the server itself keeps what it has sent; by its name, or by our mark
    where the server has given it another one."""
    bot = mail_server.new_address("bot")
    settings = settings_for(mail_server, bot, copies=SentCopies.SERVER)
    waited: list[float] = []

    async def wait(seconds: float) -> None:
        waited.append(seconds)

    composed = compose(outbound("hello", address("ann@localhost")), None, settings=settings, at=0.0)
    renamed = composed.source.replace(composed.message_id.encode(), b"<0@outlook.example>")
    for source in (composed.source, renamed.replace(b"Delivery: d1", b"Delivery: d2")):
        await asyncio.to_thread(mail_server.add_sent_copy, source, of=bot)
    sent = SentFolder(
        lambda: open_mailbox(settings, PasswordCredentials(SECRETS["password"]), None),
        folder="Sent",
        copies=SentCopies.SERVER,
        sleep=wait,
    )
    assert await sent.contains(composed.message_id, "d1")
    assert await sent.contains("<2@localhost>", "d2")
    assert not await sent.contains("<3@localhost>", "d3")
    assert len(waited) == 3  # a server may take a moment to put it there


async def test_a_changed_password_is_reported_and_the_mail_stays_pending(
    mail_server: MailServer, smtp_proxy: SmtpProxy, tmp_path: Path
) -> None:
    """I2: nothing was sent, and a retry does not help until an operator has fixed it."""
    intake, ann = RecordingIntake(), mail_server.new_address("ann")
    smtp_proxy.password = PASSWORD
    settings = settings_for(
        mail_server, mail_server.new_address("bot"), smtp_port=smtp_proxy.port, smtp_login=True
    )
    platform = new_platform(settings, tmp_path)
    async with platform.connect(intake):
        smtp_proxy.password = "another"
        with pytest.raises(NotConnected):
            await platform.send(outbound("hello", address(ann)))
    assert [type(each) for each in intake.disconnects] == [ConnectRefused]
    assert PASSWORD not in str(intake.disconnects[0])


def test_lookup_is_declared_only_where_the_server_stores_sent_copies() -> None:
    """I2: declared, so that nothing is marked as repeated that is not."""
    by_server = msgspec.structs.replace(SETTINGS, copies=SentCopies.SERVER)
    assert capabilities_of(by_server).lookup
    assert not capabilities_of(SETTINGS).lookup


async def test_a_mail_whose_copy_is_there_is_not_sent_again(
    mail_server: MailServer, smtp_proxy: SmtpProxy, tmp_path: Path
) -> None:
    """I2: killed between the copy and the receipt."""
    bot, ann = mail_server.new_address("bot"), mail_server.new_address("ann")
    platform = new_platform(settings_for(mail_server, bot, smtp_port=smtp_proxy.port), tmp_path)
    async with platform.connect(RecordingIntake()):
        assert not platform.capabilities.lookup
        first = await platform.send(outbound("hello", address(ann)))
        again = await platform.send(outbound("hello", address(ann), may_be_duplicate=True))
    assert first == again
    assert smtp_proxy.accepted == [first.platform_message_id]
    (copy,) = mail_server.mails(bot, ".Sent")
    assert copy["Message-ID"] == first.platform_message_id


def test_a_reply_references_the_mail_it_answers() -> None:
    thread = EmailThread(subject="Grüße\r\nBcc: eve@example.org", references=("<1@x>", "<2@x>"))
    sent = compose(outbound("yes", address("ann@x", "a" * 24)), thread, settings=SETTINGS, at=0.0)
    read = message_from_bytes(sent.source)
    assert (read["In-Reply-To"], read["References"]) == ("<2@x>", "<1@x> <2@x>")
    assert read["Bcc"] is None
    assert read["Auto-Submitted"] == "auto-replied"
    assert read["Message-ID"] == f"<hf.d1.{'a' * 24}@localhost>"


def test_a_mail_outside_a_thread_has_a_subject_from_its_text() -> None:
    text = "# The disk is full\n\n" + "Look: " * 50
    sent = compose(outbound(text, address("ann@x")), None, settings=SETTINGS, at=0.0)
    assert b"\r\nSubject: The disk is full\r\n" in sent.source
    assert b"\r\nAuto-Submitted: auto-generated\r\n" in sent.source
    file = OutboundFile(name="plän.pdf", data=b"%PDF")
    bare = compose(outbound("", address("ann@x"), file=file), None, settings=SETTINGS, at=0.0)
    assert b"application/pdf" in bare.source


def test_no_text_of_an_agent_becomes_a_header_and_every_line_is_short_enough() -> None:
    """RFC 5322 2.1.1: 998 bytes a line; a lone dot, From at its beginning and half an emoji are
    words like any other."""
    text = f"Bcc: eve@example.org\n\n.\nFrom here {'x' * 5000} \ud83e"
    sent = compose(outbound(text, address("ann@x")), None, settings=SETTINGS, at=0.0)
    assert max(map(len, sent.source.split(b"\r\n"))) < 998
    assert b"\nBcc" not in sent.source.partition(b"\r\n\r\n")[0]
    assert b"\r\nFrom here" in sent.source

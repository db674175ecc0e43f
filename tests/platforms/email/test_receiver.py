"""Tests receiving mail from real servers: checkpoints, skipped mail and connections."""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from email.message import EmailMessage
from pathlib import Path

import pytest
from imap_tools import BaseMailBox
from tests.platforms.email.builders import (
    SECRETS,
    address,
    checkpoint_of,
    mail,
    new_platform,
    outbound,
    settings_for,
    until,
    write_checkpoint,
)
from tests.platforms.email.mail_server import PASSWORD, MailServer
from tests.platforms.email.smtp_proxy import SmtpProxy

from holdfast.core.errors import AccountDisconnected, ConnectRefused, NotAllowed
from holdfast.core.messages.inbox import Accepted, Inbound
from holdfast.core.messages.source import Attachment, AttachmentUnavailable
from holdfast.core.ports.platform_plugin import PluginContext
from holdfast.core.secrets import Secret
from holdfast.platforms.email import client as email_client
from holdfast.platforms.email.client import ImapMailbox, open_mailbox
from holdfast.platforms.email.credentials import MailCredential, PasswordCredentials
from holdfast.platforms.email.platform import EmailPlatform, check_account
from holdfast.platforms.email.plugin import ConnectionSecurity, EmailSettings
from holdfast.platforms.email.state import LoopLimiter
from holdfast.system.clock import SystemClock
from holdfast.testing.intake import RecordingIntake


class BotMailbox:
    """A bot's mailbox, and Ann who writes to it."""

    def __init__(self, mail_server: MailServer, folder: Path) -> None:
        self.mail_server = mail_server
        self.folder = folder
        self.bot, self.ann = mail_server.new_address("bot"), mail_server.new_address("ann")
        self.intake: RecordingIntake = RecordingIntake()

    def settings(self, **more: object) -> EmailSettings:
        return settings_for(self.mail_server, self.bot, **more)

    @asynccontextmanager
    async def connected(self, **more: object) -> AsyncIterator[EmailPlatform]:
        platform = new_platform(self.settings(**more), self.folder)
        async with platform.connect(self.intake):
            yield platform

    async def deliver_mail(
        self, message: EmailMessage | bytes | str, *, sender: str = "ann@localhost"
    ) -> None:
        if isinstance(message, str):
            message = mail(message, by=self.ann, to=self.bot)
        await asyncio.to_thread(self.mail_server.deliver, message, to=self.bot, sender=sender)

    async def wait_for_texts(self, *texts: str) -> None:
        await until(lambda: [each.text for each in self.intake.accepted] == list(texts))


@pytest.fixture
def box(mail_server: MailServer, tmp_path: Path) -> BotMailbox:
    return BotMailbox(mail_server, tmp_path)


async def test_mail_from_before_the_first_connection_is_skipped_and_later_mail_is_not(
    box: BotMailbox,
) -> None:
    """G1: also mail that arrives before the first connection."""
    await box.deliver_mail("from last year")
    async with box.connected():
        pass
    await box.deliver_mail("while away")
    async with box.connected():
        await box.wait_for_texts("while away")


async def test_skipped_mail_is_read_once(box: BotMailbox, caplog: pytest.LogCaptureFixture) -> None:
    """Loops and forgeries: a bounce, our own mail, mail without a verified sender and mail that
    cannot be parsed make no rows, and do not delay others; the checkpoint is behind them."""
    async with box.connected():
        with caplog.at_level(logging.INFO):
            await box.deliver_mail("bounced", sender="")
            await box.deliver_mail(mail("me", by=box.bot, to=box.bot))
            await box.deliver_mail(mail("forged", by=box.ann, to=box.bot, checked=False))
            await box.deliver_mail(b"\xff\xfe\x00 no mail at all\r\n\r\n")
            await box.deliver_mail("hello")
            await box.wait_for_texts("hello")
        mark = checkpoint_of(box.settings(), box.folder)
        while (position := await mark.load()) is None or position.uid < 5:
            await asyncio.sleep(0.01)
    for why in (
        "a report about",
        "this very mailbox",
        "does not confirm its sender",
        "whom it is from",
    ):
        assert why in caplog.text


async def test_a_new_uidvalidity_delivers_no_mail_twice(box: BotMailbox) -> None:
    """G1, G2: another UIDVALIDITY; what was taken is known by its headers."""
    async with box.connected():
        await box.deliver_mail("one")
        await box.wait_for_texts("one")
    box.mail_server.renumber(box.bot)
    await box.deliver_mail("two")
    async with box.connected():
        await box.wait_for_texts("one", "two")
        assert [each.text for each in box.intake.attempted] == ["one", "one", "two"]
        await box.deliver_mail("three")
        await box.wait_for_texts("one", "two", "three")


class UnavailableFilesIntake(RecordingIntake):
    """One that takes a message without the files that are not to be had, as a gateway does."""

    reasons: tuple[str, ...] = ()

    async def accept(self, inbound: Inbound, attachments: Sequence[Attachment] = ()) -> Accepted:
        for each in attachments:
            try:
                await each.fetch()
            except AttachmentUnavailable as why:
                self.reasons += (f"{each.name}: {why}",)
        return await super().accept(inbound)


async def test_only_the_beginning_of_a_mail_that_is_too_large_is_read(box: BotMailbox) -> None:
    """Attachments: beyond the limit no file, and the text all the same."""
    box.intake = intake = UnavailableFilesIntake()
    message = mail("look", by=box.ann, to=box.bot)
    message.add_attachment(b"\x00" * 2**21, maintype="image", subtype="png", filename="plän.png")
    async with box.connected(max_mail_mb=1):
        await box.deliver_mail(message)
        await until(lambda: intake.accepted)
    assert intake.accepted[0].text.startswith("look\n\n[This mail has 3 MB, and at most 1 MB")
    assert intake.reasons == ("plän.png: its mail is too large",)


async def test_a_mail_with_too_many_headers_is_skipped_and_no_other(
    box: BotMailbox, caplog: pytest.LogCaptureFixture
) -> None:
    """Bombs: of headers, too, only so many are asked for."""
    caplog.set_level("INFO")
    bomb = mail("boom", by=box.ann, to=box.bot)
    for number in range(400):
        bomb[f"X-Filler-{number}"] = "x" * 900
    async with box.connected():
        await box.deliver_mail(bomb)
        await box.deliver_mail("hello")
        await box.wait_for_texts("hello")
    assert "more headers than any program writes" in caplog.text


async def test_a_sender_over_the_hourly_limit_gets_no_reply_and_others_do(
    box: BotMailbox, caplog: pytest.LogCaptureFixture
) -> None:
    """Loops: a program that passes for a person."""
    async with box.connected(hourly_limit=2):
        for number in range(3):
            await box.deliver_mail(f"beep {number}")
        await box.deliver_mail(mail("hello", by=box.mail_server.new_address("bob"), to=box.bot))
        await box.wait_for_texts("beep 0", "beep 1", "hello")
    assert "sends so much" in caplog.text


def test_the_loop_limiter_accepts_a_sender_again_after_an_hour() -> None:
    guard = LoopLimiter(hourly_limit=1)
    guard.record("ann@localhost", at=1000.0)
    assert guard.is_over_limit("ann@localhost", at=4599.0)
    assert not guard.is_over_limit("bob@localhost", at=4599.0)
    assert not guard.is_over_limit("ann@localhost", at=4600.0)


async def test_nothing_is_stored_for_an_unknown_sender(box: BotMailbox) -> None:
    box.intake.fail_next(NotAllowed("not on the list"))
    async with box.connected():
        await box.deliver_mail("let me in")
        await box.deliver_mail("hello")
        await box.wait_for_texts("hello")
    assert len(list((box.folder / "threads").glob("*.json"))) == 1


@asynccontextmanager
async def encrypted_settings(
    mail_server: MailServer, *, by: ConnectionSecurity, password: str = PASSWORD
) -> AsyncIterator[dict[str, object]]:
    """The settings of two secret lines. OpenSMTPD of Debian 12 cannot use its own key, so that a
    relay in front of it has one, and asks for the password."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(mail_server.folder / "cert.pem", mail_server.folder / "key.pem")
    wrapped = by is ConnectionSecurity.TLS
    smtp_proxy = SmtpProxy(
        mail_server.ports["smtp"], context=context, wrapped=wrapped, password=password
    )
    async with smtp_proxy.serving():
        yield {
            "imap_host": "localhost",
            "imap_port": mail_server.ports["imaps" if wrapped else "imap"],
            "imap_security": by,
            "smtp_host": "localhost",
            "smtp_port": smtp_proxy.port,
            "smtp_security": by,
            "smtp_login": True,
            "ca_file": str(mail_server.folder / "cert.pem"),
        }


@pytest.mark.parametrize("by", [ConnectionSecurity.TLS, ConnectionSecurity.STARTTLS])
async def test_both_connections_are_encrypted(box: BotMailbox, by: ConnectionSecurity) -> None:
    async with (
        encrypted_settings(box.mail_server, by=by) as settings,
        box.connected(**settings) as platform,
    ):
        await box.deliver_mail("psst")
        await box.wait_for_texts("psst")
        await platform.send(outbound("psst", address(box.ann)))
        await until(lambda: box.mail_server.mails(box.ann))
        await platform.probe()


async def test_an_untrusted_certificate_is_rejected(box: BotMailbox) -> None:
    """An untrusted certificate ends it, before the password is sent."""
    async with encrypted_settings(box.mail_server, by=ConnectionSecurity.TLS) as settings:
        with pytest.raises(AccountDisconnected, match="certificate"):
            async with box.connected(**{**settings, "ca_file": ""}):
                pass


async def test_a_password_that_smtp_rejects_is_refused_permanently(
    box: BotMailbox,
) -> None:
    async with encrypted_settings(
        box.mail_server, by=ConnectionSecurity.TLS, password="another"
    ) as settings:
        with pytest.raises(ConnectRefused, match="password is not accepted") as raised:
            async with box.connected(**settings):
                pass
    assert "platforms.email.password" in str(raised.value.remedy)


async def test_setup_checks_the_account_without_writing_a_file(box: BotMailbox) -> None:
    def plugin_context(password: str) -> PluginContext[EmailSettings]:
        return PluginContext(
            account="default",
            settings=box.settings(),
            secrets={"password": Secret(password)},
            folder=box.folder,
            clock=SystemClock(),
            new_id=lambda prefix: prefix,
        )

    assert (await check_account(plugin_context(PASSWORD))).name == box.bot
    with pytest.raises(ConnectRefused, match="rejects the login"):
        await check_account(plugin_context("wrong"))
    assert list(box.folder.iterdir()) == []


async def test_a_missing_folder_is_named(box: BotMailbox) -> None:
    with pytest.raises(ConnectRefused, match="no folder 'Nowhere'"):
        async with box.connected(folder="Nowhere"):
            pass


async def test_an_idle_connection_is_checked_regularly(box: BotMailbox) -> None:
    """Law 9: IDLE is ended and begun anew, which is a round trip, long before a server hangs up;
    and what is written meanwhile is heard."""
    async with box.connected(idle_seconds=0.1):
        before = len(box.intake.confirmations)
        await until(lambda: len(box.intake.confirmations) > before + 6)
        await box.deliver_mail("still there?")
        await box.wait_for_texts("still there?")
    assert box.intake.disconnects == []


async def test_new_mail_announced_beside_another_answer_is_noticed(box: BotMailbox) -> None:
    """G1: a server announces new mail once, with any answer; a connection that idles after that
    would hear nothing until the next mail."""
    await box.deliver_mail("one")
    async with open_mailbox(
        box.settings(), PasswordCredentials(SECRETS["password"]), None
    ) as mailbox:
        await mailbox.select("INBOX")
        assert await mailbox.uids_since(0) == [1]
        await box.deliver_mail("two")
        async with asyncio.timeout(20):  # until the answer to another command announces it
            while "EXISTS" not in mailbox._box.client.untagged_responses:
                await mailbox.fetch_head(1)
        async with asyncio.timeout(20):
            await mailbox.wait_for_new_mail(60)
        assert await mailbox.uids_since(1) == [2]


async def test_a_mail_that_the_server_cannot_deliver_is_skipped_after_several_attempts(
    box: BotMailbox, caplog: pytest.LogCaptureFixture
) -> None:
    """G1: Dovecot hangs up over a mail that it cannot read; what came behind is taken at last."""
    await write_checkpoint(box.settings(), box.folder)
    await box.deliver_mail("broken")
    (broken,) = (
        box.mail_server.folder / "home" / box.bot.partition("@")[0] / "Maildir/new"
    ).iterdir()
    broken.chmod(0)
    await box.deliver_mail("hello")
    platform = new_platform(box.settings(), box.folder)
    connections = 0
    while not box.intake.accepted:
        connections += 1
        box.intake.disconnects.clear()
        async with platform.connect(box.intake):
            await until(lambda: box.intake.disconnects or box.intake.accepted)
    assert [each.text for each in box.intake.accepted] == ["hello"]
    assert connections > 2
    assert "Skipped mail" in caplog.text


async def test_a_server_without_idle_is_polled(box: BotMailbox) -> None:
    """Without IDLE; here the mailbox changes before the minute is over."""
    answers: list[None] = []
    sock = await email_client.open_socket("127.0.0.1", box.mail_server.ports["imap"])

    def enter() -> BaseMailBox:
        made = email_client.ImapBox(sock, box.settings(), None)
        email_client.log_in(made, box.settings(), MailCredential(secret=SECRETS["password"]))
        made.client.capabilities = ("IMAP4REV1",)
        return made

    client = await asyncio.to_thread(enter)
    mailbox = ImapMailbox(client, lambda: answers.append(None))
    mailbox.wake()
    await mailbox.wait_for_new_mail(30)
    assert len(answers) == 1
    email_client.abort_connection(client.client)


@pytest.mark.parametrize("by", [ConnectionSecurity.PLAIN, ConnectionSecurity.TLS])
async def test_a_cancelled_connection_attempt_ends_at_once(
    box: BotMailbox, by: ConnectionSecurity
) -> None:
    """C1: a stop waits for no server, and for no thread that waits for one."""
    called, left = asyncio.Event(), asyncio.Event()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        called.set()
        await reader.read()  # and says nothing
        left.set()
        writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    async def connect() -> None:
        async with box.connected(imap_port=port, imap_security=by):
            pass

    holding = asyncio.create_task(connect())
    async with asyncio.timeout(10):
        await called.wait()
        holding.cancel()
        await asyncio.wait([holding])
        await left.wait()
        await asyncio.get_running_loop().shutdown_default_executor()
    server.close()

"""Tests OAuth logins: tokens over real HTTP, used with a real Dovecot and over SMTP."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from tests.platforms.email.builders import (
    address,
    mail,
    new_platform,
    outbound,
    settings_for,
    until,
)
from tests.platforms.email.mail_server import MailServer
from tests.platforms.email.smtp_proxy import SmtpProxy
from tests.platforms.email.token_server import ID, SECRET, TokenServer

from holdfast.core.errors import AccountDisconnected, ConnectRefused, NotConnected
from holdfast.core.ports.platform_plugin import PluginContext
from holdfast.core.ports.runtime import Clock
from holdfast.core.secrets import Secret
from holdfast.platforms.email.credentials import OAuthCredentials
from holdfast.platforms.email.platform import EmailPlatform, check_account
from holdfast.platforms.email.plugin import EmailSettings
from holdfast.system.clock import SystemClock
from holdfast.testing.intake import RecordingIntake

REFRESH = {"refresh_token": Secret("r0")}


class FixedClock:
    """A clock that only the test advances."""

    def __init__(self) -> None:
        self.at = 1000.0

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at


class OAuthMailbox:
    """A mailbox, the server that gives tokens for it, and one that takes mail for them."""

    def __init__(self, mail_server: MailServer, folder: Path) -> None:
        self.mail_server = mail_server
        self.folder = folder
        self.bot, self.ann = mail_server.new_address("bot"), mail_server.new_address("ann")
        self.tokens = TokenServer(of=self.bot)
        self.smtp = SmtpProxy(mail_server.ports["smtp"], is_valid_token=self.tokens.is_valid_token)
        self.url = ""

    @asynccontextmanager
    async def open(self) -> AsyncIterator["OAuthMailbox"]:
        async with (
            self.tokens.serving(self.mail_server.ports["tokens"]) as self.url,
            self.smtp.serving(),
        ):
            yield self

    def settings(self, **more: object) -> EmailSettings:
        usual = {
            "password": "",
            "token_url": self.url,
            "client_id": ID,
            "refresh_token": "env:REFRESH",
            "smtp_port": self.smtp.port,
            "smtp_login": True,
        }
        return settings_for(self.mail_server, self.bot, **{**usual, **more})

    def platform(self, secrets: Mapping[str, Secret] = REFRESH, **more: object) -> EmailPlatform:
        return new_platform(self.settings(**more), self.folder, secrets=secrets)

    def plugin_context(
        self, clock: Clock | None = None, secrets: Mapping[str, Secret] = REFRESH, **more: object
    ) -> PluginContext[EmailSettings]:
        return PluginContext(
            account="default",
            settings=self.settings(**more),
            secrets=secrets,
            folder=self.folder,
            clock=clock or SystemClock(),
            new_id=lambda prefix: prefix,
        )

    def credentials(
        self, clock: Clock, secrets: Mapping[str, Secret] = REFRESH
    ) -> OAuthCredentials:
        return OAuthCredentials(
            self.plugin_context(clock, secrets), None, file=self.folder / "tokens.json"
        )


@pytest.fixture
async def oauth_mailbox(mail_server: MailServer, tmp_path: Path) -> AsyncIterator[OAuthMailbox]:
    async with OAuthMailbox(mail_server, tmp_path).open() as opened:
        yield opened


async def test_mail_is_read_and_answered_with_one_token(oauth_mailbox: OAuthMailbox) -> None:
    intake = RecordingIntake()
    platform = oauth_mailbox.platform()
    async with platform.connect(intake):
        oauth_mailbox.mail_server.deliver(
            mail("hello", by=oauth_mailbox.ann, to=oauth_mailbox.bot), to=oauth_mailbox.bot
        )
        await until(lambda: intake.accepted)
        await platform.send(outbound("hi", address(oauth_mailbox.ann)))
        await until(lambda: oauth_mailbox.mail_server.mails(oauth_mailbox.ann))
    assert [each["grant_type"] for each in oauth_mailbox.tokens.requests] == ["refresh_token"]
    assert oauth_mailbox.tokens.requests[0] == {
        "grant_type": "refresh_token",
        "client_id": ID,
        "refresh_token": "r0",
    }


async def test_an_app_can_log_in_with_client_credentials(oauth_mailbox: OAuthMailbox) -> None:
    """Microsoft: an app that an administrator has let into the mailbox has no refresh token."""
    known = await check_account(
        oauth_mailbox.plugin_context(
            secrets={"client_secret": Secret(SECRET)},
            refresh_token="",
            client_secret="env:SECRET",
            scope="https://outlook.office365.com/.default",
        )
    )
    assert known.name == oauth_mailbox.bot
    (asked,) = oauth_mailbox.tokens.requests
    assert asked["grant_type"] == "client_credentials"
    assert asked["scope"] == "https://outlook.office365.com/.default"


async def test_a_refused_token_refresh_blocks_the_account_with_a_remedy(
    oauth_mailbox: OAuthMailbox,
) -> None:
    oauth_mailbox.tokens.refresh_tokens.clear()
    with pytest.raises(
        ConnectRefused, match=r"invalid_grant \(AADSTS70008: it has expired.\)"
    ) as no:
        async with oauth_mailbox.platform().connect(RecordingIntake()):
            pass
    assert "log in at the provider again" in str(no.value.remedy)
    assert "platforms.email" in str(no.value.remedy)


async def test_a_failing_token_server_is_retried(oauth_mailbox: OAuthMailbox) -> None:
    for oauth_mailbox.tokens.status in (500, 503, 429):
        with pytest.raises(AccountDisconnected, match=f"answered {oauth_mailbox.tokens.status}"):
            await oauth_mailbox.credentials(FixedClock()).current()
    oauth_mailbox.tokens.status = 404
    with pytest.raises(ConnectRefused, match="answered 404"):
        await oauth_mailbox.credentials(FixedClock()).current()
    gone = OAuthCredentials(
        oauth_mailbox.plugin_context(FixedClock(), token_url="http://127.0.0.1:1/token"),
        None,
        file=None,
    )
    with pytest.raises(AccountDisconnected, match="issues no token"):
        await gone.current()


async def test_a_token_is_used_until_shortly_before_it_expires(oauth_mailbox: OAuthMailbox) -> None:
    """Providers write its life as a number or as a text."""
    clock = FixedClock()
    for oauth_mailbox.tokens.expires_in in (3600, "3600"):
        keys = oauth_mailbox.credentials(clock)
        first = await keys.current()
        clock.at += 3290
        assert await keys.current() == first
        clock.at += 20
        second = await keys.current()
        assert second.secret != first.secret
    assert len(oauth_mailbox.tokens.requests) == 4


async def test_a_revoked_token_is_replaced_and_a_new_one_is_not(
    oauth_mailbox: OAuthMailbox,
) -> None:
    clock = FixedClock()
    keys = oauth_mailbox.credentials(clock)
    first = await keys.current()
    clock.at += 600
    assert not keys.report_refused(first)
    second = await keys.current()
    assert second.secret != first.secret
    assert keys.report_refused(second)


async def test_a_token_of_another_mailbox_is_refused_with_a_remedy(
    oauth_mailbox: OAuthMailbox,
) -> None:
    """Real Dovecot: it says no behind an explanation that wants an empty answer."""
    oauth_mailbox.tokens.mailbox = oauth_mailbox.ann
    with pytest.raises(ConnectRefused, match="rejects the login") as no:
        async with oauth_mailbox.platform().connect(RecordingIntake()):
            pass
    assert "the app may read and send the mail of this mailbox" in str(no.value.remedy)
    assert oauth_mailbox.tokens.requests and "a1" not in str(no.value)


async def test_a_token_that_smtp_refuses_blocks_the_account(
    oauth_mailbox: OAuthMailbox,
) -> None:
    """Microsoft: SMTP may be switched off for a mailbox that IMAP is on for."""
    intake, platform = RecordingIntake(), oauth_mailbox.platform()
    async with platform.connect(intake):
        oauth_mailbox.tokens.access_tokens.clear()
        with pytest.raises(NotConnected, match="not accepted"):
            await platform.send(outbound("hi", address(oauth_mailbox.ann)))
        await intake.wait_for_disconnect()
    (loss,) = intake.disconnects
    assert isinstance(loss, ConnectRefused)
    assert "SMTP" in str(loss.remedy)


async def test_a_rotated_refresh_token_is_stored_until_a_new_one_is_configured(
    oauth_mailbox: OAuthMailbox,
) -> None:
    """Microsoft: each lives for 90 days from when it was given, and each use gives another."""
    oauth_mailbox.tokens.rotates = True
    for _ in range(2):
        await oauth_mailbox.credentials(FixedClock()).current()
    file = oauth_mailbox.folder / "tokens.json"
    assert file.stat().st_mode & 0o777 == 0o600
    oauth_mailbox.tokens.refresh_tokens.add("fresh")
    await oauth_mailbox.credentials(FixedClock(), {"refresh_token": Secret("fresh")}).current()
    assert [each["refresh_token"] for each in oauth_mailbox.tokens.requests] == [
        "r0",
        "r1",
        "fresh",
    ]
    file.write_bytes(b"{")
    await oauth_mailbox.credentials(FixedClock()).current()
    assert oauth_mailbox.tokens.requests[-1]["refresh_token"] == "r0"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"token_url": "http://example.org/token"}, "with https"),
        ({"client_id": ""}, "client_id is missing"),
        ({"refresh_token": ""}, "refresh_token is missing"),
        ({"password": "env:P"}, "exclude each other"),
    ],
)
def test_an_incomplete_login_is_named_with_a_remedy(change: dict[str, str], expected: str) -> None:
    whole = EmailSettings(
        address="bot@example.org",
        token_url="https://example.org/token",
        client_id="app",
        refresh_token="env:R",
        imap_host="imap.example.org",
        smtp_host="smtp.example.org",
        authserv_id="mx.example.org",
    )
    with pytest.raises(ValueError, match=expected):
        EmailSettings(**{**msgspec.structs.asdict(whole), **change})

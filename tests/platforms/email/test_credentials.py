"""A mailbox without a password: tokens over real HTTP, taken by a real Dovecot and over SMTP."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from tests.platforms.email.builders import address, door_for, mail, outbound, settings_for, until
from tests.platforms.email.mail_server import PostOffice
from tests.platforms.email.smtp_proxy import Relay
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


class Held:
    """A clock that stands until somebody moves it."""

    def __init__(self) -> None:
        self.at = 1000.0

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at


class House:
    """A mailbox, the server that gives tokens for it, and one that takes mail for them."""

    def __init__(self, office: PostOffice, folder: Path) -> None:
        self.office = office
        self.folder = folder
        self.bot, self.ann = office.person("bot"), office.person("ann")
        self.tokens = TokenServer(of=self.bot)
        self.smtp = Relay(office.ports["smtp"], knows=self.tokens.knows)
        self.url = ""

    @asynccontextmanager
    async def open(self) -> AsyncIterator["House"]:
        async with (
            self.tokens.serving(self.office.ports["tokens"]) as self.url,
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
        return settings_for(self.office, self.bot, **{**usual, **more})

    def door(self, secrets: Mapping[str, Secret] = REFRESH, **more: object) -> EmailPlatform:
        return door_for(self.settings(**more), self.folder, secrets=secrets)

    def opening(
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

    def source(self, clock: Clock, secrets: Mapping[str, Secret] = REFRESH) -> OAuthCredentials:
        return OAuthCredentials(
            self.opening(clock, secrets), None, file=self.folder / "tokens.json"
        )


@pytest.fixture
async def house(office: PostOffice, tmp_path: Path) -> AsyncIterator[House]:
    async with House(office, tmp_path).open() as opened:
        yield opened


async def test_mail_is_read_and_answered_with_one_token(house: House) -> None:
    intake = RecordingIntake()
    door = house.door()
    async with door.connect(intake):
        house.office.deliver(mail("hello", by=house.ann, to=house.bot), to=house.bot)
        await until(lambda: intake.accepted)
        await door.send(outbound("hi", address(house.ann)))
        await until(lambda: house.office.mails(house.ann))
    assert [each["grant_type"] for each in house.tokens.asked] == ["refresh_token"]
    assert house.tokens.asked[0] == {
        "grant_type": "refresh_token",
        "client_id": ID,
        "refresh_token": "r0",
    }


async def test_a_program_may_ask_in_its_own_name(house: House) -> None:
    """Microsoft: an app that an administrator has let into the mailbox has no refresh token."""
    known = await check_account(
        house.opening(
            secrets={"client_secret": Secret(SECRET)},
            refresh_token="",
            client_secret="env:SECRET",
            scope="https://outlook.office365.com/.default",
        )
    )
    assert known.name == house.bot
    (asked,) = house.tokens.asked
    assert asked["grant_type"] == "client_credentials"
    assert asked["scope"] == "https://outlook.office365.com/.default"


async def test_a_refresh_that_is_refused_parks_the_account_with_what_to_do(house: House) -> None:
    house.tokens.refresh.clear()
    with pytest.raises(
        ConnectRefused, match=r"invalid_grant \(AADSTS70008: it has expired.\)"
    ) as no:
        async with house.door().connect(RecordingIntake()):
            pass
    assert "log in at the provider again" in no.value.remedy
    assert "platforms.email" in no.value.remedy


async def test_a_token_server_that_is_not_well_is_asked_again(house: House) -> None:
    for house.tokens.status in (500, 503, 429):
        with pytest.raises(AccountDisconnected, match=f"answered {house.tokens.status}"):
            await house.source(Held()).current()
    house.tokens.status = 404
    with pytest.raises(ConnectRefused, match="answered 404"):
        await house.source(Held()).current()
    gone = OAuthCredentials(
        house.opening(Held(), token_url="http://127.0.0.1:1/token"), None, file=None
    )
    with pytest.raises(AccountDisconnected, match="gives no token"):
        await gone.current()


async def test_a_token_serves_until_shortly_before_its_end(house: House) -> None:
    """Providers write its life as a number or as a text."""
    clock = Held()
    for house.tokens.life in (3600, "3600"):
        keys = house.source(clock)
        first = await keys.current()
        clock.at += 3290
        assert await keys.current() == first
        clock.at += 20
        second = await keys.current()
        assert second.secret != first.secret
    assert len(house.tokens.asked) == 4


async def test_a_token_that_was_withdrawn_is_asked_for_anew_and_a_new_one_is_not(
    house: House,
) -> None:
    clock = Held()
    keys = house.source(clock)
    first = await keys.current()
    clock.at += 600
    assert not keys.report_refused(first)
    second = await keys.current()
    assert second.secret != first.secret
    assert keys.report_refused(second)


async def test_a_mailbox_that_is_not_the_tokens_own_is_refused_with_what_to_do(
    house: House,
) -> None:
    """Real Dovecot: it says no behind an explanation that wants an empty answer."""
    house.tokens.of = house.ann
    with pytest.raises(ConnectRefused, match="does not let") as no:
        async with house.door().connect(RecordingIntake()):
            pass
    assert "the app may read and send the mail of this mailbox" in no.value.remedy
    assert house.tokens.asked and "a1" not in str(no.value)


async def test_a_sender_whose_token_is_refused_parks_the_account(house: House) -> None:
    """Microsoft: SMTP may be switched off for a mailbox that IMAP is on for."""
    intake, door = RecordingIntake(), house.door()
    async with door.connect(intake):
        house.tokens.alive.clear()
        with pytest.raises(NotConnected, match="not accepted"):
            await door.send(outbound("hi", address(house.ann)))
        await intake.wait_for_disconnect()
    (loss,) = intake.disconnects
    assert isinstance(loss, ConnectRefused)
    assert "SMTP" in loss.remedy


async def test_the_refresh_token_that_follows_another_is_kept_until_a_new_one_is_set(
    house: House,
) -> None:
    """Microsoft: each lives for 90 days from when it was given, and each use gives another."""
    house.tokens.rotates = True
    for _ in range(2):
        await house.source(Held()).current()
    file = house.folder / "tokens.json"
    assert file.stat().st_mode & 0o777 == 0o600
    house.tokens.refresh.add("fresh")
    await house.source(Held(), {"refresh_token": Secret("fresh")}).current()
    assert [each["refresh_token"] for each in house.tokens.asked] == ["r0", "r1", "fresh"]
    file.write_bytes(b"{")
    await house.source(Held()).current()
    assert house.tokens.asked[-1]["refresh_token"] == "r0"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"token_url": "http://example.org/token"}, "with https"),
        ({"client_id": ""}, "client_id is missing"),
        ({"refresh_token": ""}, "refresh_token is missing"),
        ({"password": "env:P"}, "two ways to log in"),
    ],
)
def test_a_half_set_login_is_named_with_what_to_do(change: dict[str, str], told: str) -> None:
    whole = EmailSettings(
        address="bot@example.org",
        token_url="https://example.org/token",
        client_id="app",
        refresh_token="env:R",
        imap_host="imap.example.org",
        smtp_host="smtp.example.org",
        authserv_id="mx.example.org",
    )
    with pytest.raises(ValueError, match=told):
        EmailSettings(**{**msgspec.structs.asdict(whole), **change})

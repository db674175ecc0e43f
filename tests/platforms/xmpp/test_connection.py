"""Tests the connection to an XMPP server: encryption, credentials and errors."""

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.platforms.xmpp.builders import new_id, new_platform, settings_for, until
from tests.platforms.xmpp.prosody import Prosody
from tests.platforms.xmpp.users import BOT

from holdfast.core.errors import AccountInUse, ConnectError, ConnectRefused
from holdfast.core.ports.platform_plugin import PluginContext
from holdfast.core.secrets import Secret
from holdfast.platforms.xmpp.client import login_error
from holdfast.platforms.xmpp.events import make_ping
from holdfast.platforms.xmpp.platform import check_account, client_factory
from holdfast.system.clock import SystemClock
from holdfast.testing.intake import RecordingIntake


async def refused(server: Prosody, folder: Path, **settings: Any) -> ConnectError:
    with pytest.raises(ConnectError) as raised:
        async with new_platform(server, folder, **settings).connect(RecordingIntake()):
            pass
    return raised.value


async def test_a_connection_that_cannot_be_encrypted_is_refused(
    server: Prosody, tmp_path: Path
) -> None:
    """The password is not said, whatever the server would take."""
    error = await refused(server, tmp_path, jid="bot@bare.localhost", tls=True)
    assert isinstance(error, ConnectRefused)
    assert "offers no encryption" in str(error)
    assert "tls = false" in str(error.remedy)


async def test_a_certificate_is_trusted_only_from_a_known_authority(
    server: Prosody, tmp_path: Path
) -> None:
    """It may be renewed by others, so it is tried again."""
    error = await refused(server, tmp_path, tls=True)
    assert not isinstance(error, ConnectRefused)
    assert "ca_file" in str(error)
    platform = new_platform(server, tmp_path, tls=True, ca_file=str(server.certificate))
    async with platform.connect(intake := RecordingIntake()):
        await platform.probe()
    assert intake.disconnects == []
    nothing = await refused(server, tmp_path, tls=True, ca_file=str(tmp_path / "none.pem"))
    assert isinstance(nothing, ConnectRefused)
    assert "ca_file" in str(nothing.remedy)


async def test_a_domain_that_the_server_does_not_serve_is_refused_permanently(
    server: Prosody, tmp_path: Path
) -> None:
    error = await refused(server, tmp_path, jid="bot@elsewhere.example")
    assert isinstance(error, ConnectRefused)
    assert "bot@elsewhere.example" in str(error)


async def test_an_unreachable_port_is_retried(server: Prosody, tmp_path: Path) -> None:
    error = await refused(server, tmp_path, port=9)
    assert not isinstance(error, ConnectRefused)
    assert "127.0.0.1:9 cannot be reached" in str(error)


async def test_a_connection_replaced_by_another_reports_the_account_in_use(
    server: Prosody, tmp_path: Path
) -> None:
    """Two gateways, one account: the first hears why its line was closed."""
    first = RecordingIntake()
    one, two = new_platform(server, tmp_path / "one"), new_platform(server, tmp_path / "two")
    async with one.connect(first), two.connect(RecordingIntake()):
        await until(lambda: first.disconnects)
    (loss, *_) = first.disconnects
    assert isinstance(loss, AccountInUse)
    assert f"{BOT}/holdfast" in str(loss)


async def test_credentials_are_checked_without_presence_or_closing_another_connection(
    server: Prosody, tmp_path: Path
) -> None:
    """`holdfast setup` asks whose account that is; the gateway may be connected meanwhile."""

    def opening(password: str) -> PluginContext[Any]:
        return PluginContext(
            account="default",
            settings=settings_for(server),
            secrets={"password": Secret(password)},
            folder=tmp_path / "none",
            clock=SystemClock(),
            new_id=new_id,
        )

    intake = RecordingIntake()
    async with new_platform(server, tmp_path).connect(intake):
        known = await check_account(opening("pw-bot"))
        assert (known.name, known.chat_link) == (BOT, f"xmpp:{BOT}")
        with pytest.raises(ConnectRefused, match="rejects the login of bot@localhost"):
            await check_account(opening("wrong"))
        assert intake.disconnects == []
    assert not (tmp_path / "none").exists()


async def test_sent_stanzas_are_released_once_the_server_acknowledges_them(
    server: Prosody,
) -> None:
    """A line may be idle for weeks, but for the signs of life that it asks for."""
    settings = settings_for(server)
    client = client_factory(settings, account="default")(settings, Secret("pw-bot"), resource="")
    async with client.open_session():
        for _ in range(3):
            await client.request(make_ping())
        await until(lambda: not client.plugin["xep_0198"].unacked_queue)


def test_a_temporary_login_failure_is_retried() -> None:
    error = login_error(BOT, ["temporary-auth-failure"], encrypted=True, table="platforms.xmpp")
    assert not isinstance(error, ConnectRefused)
    wrong = login_error(
        BOT, ["not-authorized"], encrypted=True, table="platforms.xmpp.accounts.two"
    )
    assert isinstance(wrong, ConnectRefused)
    assert "platforms.xmpp.accounts.two.jid" in str(wrong.remedy)


async def test_a_library_that_is_not_installed_blocks_the_account_and_is_named(
    server: Prosody, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "slixmpp", None)  # what Python has of a module that is not
    monkeypatch.delitem(sys.modules, "holdfast.platforms.xmpp.client", raising=False)
    error = await refused(server, tmp_path)
    assert isinstance(error, ConnectRefused)
    assert "pip install 'holdfast[xmpp]'" in str(error.remedy)

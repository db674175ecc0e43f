"""Tests the settings of an IRC account, and the check of its credentials."""

from pathlib import Path

import pytest
from tests.platforms.irc.builders import settings_for
from tests.platforms.irc.fake_ircv3 import PASSWORD, FakeIrcServer
from tests.support.platform_gateway import open_accounts, write_config

from holdfast.config import ConfigError, load
from holdfast.core.config.settings import Settings
from holdfast.core.errors import ConnectRefused
from holdfast.core.ids import PrincipalId
from holdfast.core.jobs.job import RunSession
from holdfast.core.messages.source import Source
from holdfast.core.ports.platform_plugin import PluginContext
from holdfast.core.secrets import Secret
from holdfast.gateway.accounts.registry import PlatformRegistry
from holdfast.gateway.jobs.service import JobDestinations, JobRequester
from holdfast.gateway.live_settings import LiveSettings
from holdfast.gateway.notify.chat_addresses import find_chat
from holdfast.gateway.notify.home_channels import HomeChannels
from holdfast.platforms.irc.plugin import PLUGIN, IrcSettings
from holdfast.service.platforms import credential_identities
from holdfast.system.clock import SystemClock

TABLE = '[platforms.irc]\nhost = "irc.example.org"\n'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[platforms.irc]\n", "host is missing"),
        (f'{TABLE}nick = "9lives"\n', "nick"),
        (f'{TABLE}nick = "two words"\n', "nick"),
        (f'{TABLE}channels = ["team"]\n', "must begin with #"),
        (f'{TABLE}channels = ["#a,#b"]\n', "must begin with #"),
        (f'{TABLE}tls = false\npassword = "env:PW"\n', "in clear text"),
        (f'{TABLE}password = "secret"\n', "platforms.irc.password"),
        (f'{TABLE}ca_file = "server.pem"\n', "absolute path"),
        (f'{TABLE}[platforms.irc.locked."#ops"]\nkey = "plain"\n', "key"),
        (f'{TABLE}identify_by = "anybody"\n', "identify_by"),
        (f'{TABLE}allow = ["Ann!~a@Host"]\n', "write 'ann!~a@host' instead"),
        (f'{TABLE}identify_by = "nicks"\noperators = ["Ann"]\n', "operators: write 'ann'"),
        (
            f'{TABLE}[platforms.irc.chats."#Team"]\n[platforms.irc.chats."#team"]\n',
            "'#Team' occurs twice",
        ),
        (f'{TABLE}chanels = ["#a"]\n', "channels"),
    ],
)
def test_a_wrong_setting_is_named_with_a_remedy(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        load(write_config(tmp_path / "home", text), {"PW": "x"})


def test_a_channel_may_be_written_in_large_letters(tmp_path: Path) -> None:
    """`#Team` and `#team` are one on every network; on the wire they come as either."""
    text = f'{TABLE}home = "#Ops"\n[platforms.irc.chats."#Team"]\nanswers = "all"\n'
    settings = load(write_config(tmp_path / "home", text), {}).settings.platforms["irc"]
    assert (list(settings.chats), settings.home) == (["#team"], "#ops")


def test_a_channel_has_one_chat_id_in_any_spelling(
    tmp_path: Path,
) -> None:
    """One chat has one queue and one session, also if a job or the file names it in another
    case."""
    (platform,) = open_accounts(tmp_path / "home", TABLE, {})
    platforms = PlatformRegistry([platform], clock=SystemClock())
    found = [find_chat(platforms, f"irc:{each}") for each in ("#TEAM", "Ann")]
    assert [each.chat_id for each in found] == ["#team", "Ann"]
    settings = Settings(platforms={"irc": IrcSettings(host="irc.example.org", home="#Team")})
    homes = HomeChannels(LiveSettings(settings), platforms, reads=None)  # type: ignore[arg-type]  # it reads nothing
    assert [each.address.chat_id for each in homes.all()] == ["#team"]
    irc_user = JobRequester(
        source=Source(platform="irc", account="default", chat_id="ann", user_id="ann"),
        principal=PrincipalId("ann"),
        is_operator=True,
    )
    expected = JobDestinations(platforms, homes).check("irc:#Team", RunSession.FRESH, irc_user)
    assert expected is not None and expected.chat_id == "#team"


def test_an_account_is_written_as_it_was_registered(tmp_path: Path) -> None:
    """A network tells accounts with their large letters, and there they count."""
    load(write_config(tmp_path / "home", f'{TABLE}allow = ["Ann"]\n'), {})


def test_each_account_is_a_nick_of_its_own(tmp_path: Path) -> None:
    text = f"""{TABLE}
[platforms.irc.accounts.oftc]
host = "irc.oftc.net"
nick = "hold"
password = "env:PW"
[platforms.irc.accounts.old]
enabled = false
"""
    platforms = open_accounts(tmp_path / "home", text, {"PW": "x"})
    assert [(each.name, each.account) for each in platforms] == [
        ("irc", "default"),
        ("irc", "oftc"),
    ]
    config = load(tmp_path / "home", {"PW": "x"})
    assert credential_identities(config)["irc", "oftc"] == ("irc", "irc.oftc.net", "hold")


async def test_credentials_are_checked_without_joining_a_channel(
    server: FakeIrcServer, tmp_path: Path
) -> None:
    settings = settings_for(server.port, channels=("#team",))

    def opening(password: str) -> PluginContext[IrcSettings]:
        return PluginContext(
            account="default",
            settings=settings,
            secrets={"password": Secret(password)},
            folder=tmp_path / "nothing",
            clock=SystemClock(),
            new_id=lambda prefix: prefix,
        )

    assert PLUGIN.check is not None
    assert (await PLUGIN.check(opening(PASSWORD))).name == "holdfast on 127.0.0.1"
    with pytest.raises(ConnectRefused):
        await PLUGIN.check(opening("wrong"))
    assert not (tmp_path / "nothing").exists()

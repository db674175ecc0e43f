"""What can be set about a nick: checked as strictly as the rest, opened for each account, tried."""

from pathlib import Path

import pytest
from tests.platforms.irc.doors import settings_for
from tests.platforms.irc.ircv3 import PASSWORD, Server
from tests.platforms.stage import opened, written

from holdfast.config import ConfigError, load
from holdfast.core.door import Opening
from holdfast.core.errors import ConnectRefused
from holdfast.core.secret import Secret
from holdfast.platforms.irc.door import DOOR, IrcSettings
from holdfast.process.doors import identities
from holdfast.service.clock import SystemClock

TABLE = '[platforms.irc]\nhost = "irc.example.org"\n'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[platforms.irc]\n", "host is missing"),
        (f'{TABLE}nick = "9lives"\n', "nick"),
        (f'{TABLE}nick = "two words"\n', "nick"),
        (f'{TABLE}channels = ["team"]\n', "begins with #"),
        (f'{TABLE}channels = ["#a,#b"]\n', "begins with #"),
        (f'{TABLE}tls = false\npassword = "env:PW"\n', "everybody to read"),
        (f'{TABLE}password = "secret"\n', "platforms.irc.password"),
        (f'{TABLE}ca_file = "server.pem"\n', "whole path"),
        (f'{TABLE}[platforms.irc.locked."#ops"]\nkey = "plain"\n', "key"),
        (f'{TABLE}people = "anybody"\n', "people"),
        (f'{TABLE}allow = ["Ann!~a@Host"]\n', "write 'ann!~a@host' instead"),
        (f'{TABLE}people = "nicks"\noperators = ["Ann"]\n', "operators: write 'ann'"),
        (f'{TABLE}[platforms.irc.chats."#Team"]\n', "write '#team' instead"),
        (f'{TABLE}chanels = ["#a"]\n', "channels"),
    ],
)
def test_a_wrong_setting_is_named_with_what_to_do(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        load(written(tmp_path / "home", text), {"PW": "x"})


def test_an_account_is_written_as_it_was_registered(tmp_path: Path) -> None:
    """A network tells accounts with their large letters, and there they count."""
    load(written(tmp_path / "home", f'{TABLE}allow = ["Ann"]\n'), {})


def test_each_account_is_a_nick_of_its_own(tmp_path: Path) -> None:
    text = f"""{TABLE}
[platforms.irc.accounts.oftc]
host = "irc.oftc.net"
nick = "hold"
password = "env:PW"
[platforms.irc.accounts.old]
enabled = false
"""
    doors = opened(tmp_path / "home", text, {"PW": "x"})
    assert [(each.name, each.account) for each in doors] == [("irc", "default"), ("irc", "oftc")]
    config = load(tmp_path / "home", {"PW": "x"})
    assert identities(config)["irc", "oftc"] == ("irc", "irc.oftc.net", "hold")


async def test_credentials_are_tried_and_nothing_is_joined(server: Server, tmp_path: Path) -> None:
    settings = settings_for(server.port, channels=("#team",))

    def opening(password: str) -> Opening[IrcSettings]:
        return Opening(
            account="default",
            settings=settings,
            secrets={"password": Secret(password)},
            folder=tmp_path / "nothing",
            clock=SystemClock(),
            new_id=lambda prefix: prefix,
        )

    assert DOOR.check is not None
    assert (await DOOR.check(opening(PASSWORD))).name == "holdfast on 127.0.0.1"
    with pytest.raises(ConnectRefused):
        await DOOR.check(opening("wrong"))
    assert not (tmp_path / "nothing").exists()

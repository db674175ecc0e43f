"""Tests the settings of an XMPP account and their error messages."""

from pathlib import Path

import pytest
from tests.support.platform_gateway import open_accounts, write_config

from holdfast.config import ConfigError, load
from holdfast.platforms.xmpp.plugin import XmppSettings

ACCOUNT = '[platforms.xmpp]\njid = "bot@example.org"\npassword = "env:ONE"\n'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[platforms.xmpp]\npassword = "env:ONE"\n', r"jid = '' is not the address"),
        ('[platforms.xmpp]\njid = "bot@example.org/home"\npassword = "env:ONE"\n', "resource"),
        ('[platforms.xmpp]\njid = "bot@example.org"\n', "password is missing"),
        (ACCOUNT + 'rooms = ["team"]\n', "'team' is not the address of a room"),
        (ACCOUNT + "tls = false\n", "in clear text"),
        (ACCOUNT + 'tls = false\nhost = "10.0.0.7"\n', "on this machine"),
    ],
)
def test_a_missing_or_unsafe_setting_is_named(text: str, expected: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=expected):
        load(write_config(tmp_path / "home", text), {"ONE": "secret-one"})


def test_an_unencrypted_connection_is_allowed_only_to_this_machine() -> None:
    for host in ("127.0.0.1", "::1", "localhost"):
        XmppSettings(jid="bot@example.org", password="env:ONE", host=host, tls=False)


def test_each_account_has_its_own_platform(tmp_path: Path) -> None:
    text = f'{ACCOUNT}[platforms.xmpp.accounts.work]\njid = "b@work.org"\npassword = "env:TWO"\n'
    platforms = open_accounts(tmp_path / "home", text, {"ONE": "secret-one", "TWO": "secret-two"})
    assert [(each.name, each.account) for each in platforms] == [
        ("xmpp", "default"),
        ("xmpp", "work"),
    ]


def test_the_room_nick_defaults_to_the_name_of_the_address() -> None:
    named = XmppSettings(jid="bot@example.org", password="env:ONE", nick="robin")
    assert named.nickname == "robin"
    assert XmppSettings(jid="bot@example.org", password="env:ONE").nickname == "bot"

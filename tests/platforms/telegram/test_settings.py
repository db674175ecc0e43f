"""Tests the settings of a Telegram account."""

import logging
from pathlib import Path

import pytest
from tests.platforms.telegram.builders import new_platform, until
from tests.platforms.telegram.fake import FakeTelegram
from tests.support.platform_gateway import open_accounts, write_config

from holdfast.config import ConfigError, load
from holdfast.core.config.settings import ChatSettings, GroupReplyMode
from holdfast.testing.intake import RecordingIntake

ENVIRON = {"ONE": "123456:one", "TWO": "123457:two"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[platforms.telegram]\n", "token is missing: get one from @BotFather"),
        ('[platforms.telegram]\ntoken = "123456:ABC"\n', "platforms.telegram.token"),
        ('[platforms.telegram]\ntoken = "env:ONE"\nwebhok = "x"\n', "webhook"),
        ('[platforms.telegram]\ntoken = "env:ONE"\nwebhook = "http://x"\n', "is not an https URL"),
        ('[platforms.telegram]\ntoken = "env:ONE"\npoll_seconds = 99\n', "poll_seconds"),
    ],
)
def test_a_wrong_setting_is_named_with_a_remedy(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        load(write_config(tmp_path / "home", text), ENVIRON)


def test_each_account_is_a_bot_of_its_own(tmp_path: Path) -> None:
    text = """
[platforms.telegram]
token = "env:ONE"
[platforms.telegram.accounts.work]
token = "env:TWO"
webhook = "https://bot.example.org/"
[platforms.telegram.accounts.old]
enabled = false
"""
    platforms = open_accounts(tmp_path / "home", text, ENVIRON)
    assert [(each.name, each.account) for each in platforms] == [
        ("telegram", "default"),
        ("telegram", "work"),
    ]
    (route,) = platforms[1].routes()  # type: ignore[attr-defined]
    assert route.path == "/hooks/telegram/work"


async def test_privacy_mode_that_hides_group_messages_is_logged(
    vendor: FakeTelegram, base_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Privacy mode: Telegram gives a bot only commands and replies, unless it is switched off."""
    chats = {"-100500": ChatSettings(answers=GroupReplyMode.ALL)}
    for reads_all_messages in (False, True):
        caplog.clear()
        vendor.me["can_read_all_group_messages"] = reads_all_messages
        with caplog.at_level(logging.WARNING):
            async with new_platform(vendor, base_url, chats=chats).connect(RecordingIntake()):
                await until(lambda: "getupdates" in vendor.calls)
        assert ("/setprivacy" in caplog.text) is not reads_all_messages

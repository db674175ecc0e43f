"""Tests the settings of a Discord account and their error messages."""

import sys
from pathlib import Path

import pytest
from tests.platforms.discord.builders import new_platform
from tests.platforms.discord.fake import FakeDiscord
from tests.support.platform_gateway import open_accounts, write_config

from holdfast.config import ConfigError, load
from holdfast.core.errors import ConnectRefused
from holdfast.testing.intake import RecordingIntake


def test_a_token_that_is_missing_is_named_with_where_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"token is missing: get one at https://discord\.com/"):
        load(write_config(tmp_path / "home", "[platforms.discord]\n"), {})


def test_each_account_is_a_bot_of_its_own(tmp_path: Path) -> None:
    text = """
[platforms.discord]
token = "env:ONE"
[platforms.discord.accounts.work]
token = "env:TWO"
"""
    platforms = open_accounts(tmp_path / "home", text, {"ONE": "1", "TWO": "2"})
    assert [(each.name, each.account) for each in platforms] == [
        ("discord", "default"),
        ("discord", "work"),
    ]


async def test_a_library_that_is_not_installed_blocks_the_account_and_is_named(
    vendor: FakeDiscord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "discord", None)  # what Python has of a module that is not
    monkeypatch.delitem(sys.modules, "holdfast.platforms.discord.connection", raising=False)
    with pytest.raises(ConnectRefused) as raised:
        async with new_platform(vendor, tmp_path).connect(RecordingIntake()):
            pass
    assert "pip install 'holdfast[discord]'" in str(raised.value.remedy)

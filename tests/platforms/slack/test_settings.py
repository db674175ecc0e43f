"""Tests the settings of a Slack account."""

import sys
from pathlib import Path

import pytest
from tests.platforms.slack.builders import new_platform
from tests.platforms.slack.fake import FakeSlack
from tests.support.platform_gateway import open_accounts, write_config

from holdfast.config import ConfigError, load
from holdfast.core.errors import ConnectRefused
from holdfast.testing.intake import RecordingIntake

ENVIRON = {"BOT": "xoxb-1", "APP": "xapp-1", "SIGN": "0123"}
TABLE = '[platforms.slack]\ntoken = "env:BOT"\n'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[platforms.slack]\n", "token is missing"),
        (TABLE, "app_token is missing"),
        (f'{TABLE}app_token = "env:APP"\nsigning_secret = "env:SIGN"\n', "exclude each other"),
        (f'{TABLE}app_token = "xapp-1"\n', "platforms.slack.app_token"),
        (f'{TABLE}app_tokn = "env:APP"\n', "app_token"),
        (f'{TABLE}app_token = "env:APP"\nmax_file_mb = 5000\n', "max_file_mb"),
    ],
)
def test_a_wrong_setting_is_named_with_a_remedy(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        load(write_config(tmp_path / "home", text), ENVIRON)


def test_each_account_is_an_app_of_its_own(tmp_path: Path) -> None:
    text = f"""{TABLE}app_token = "env:APP"
[platforms.slack.accounts.work]
token = "env:BOT"
signing_secret = "env:SIGN"
[platforms.slack.accounts.old]
enabled = false
"""
    platforms = open_accounts(tmp_path / "home", text, ENVIRON)
    assert [(each.name, each.account) for each in platforms] == [
        ("slack", "default"),
        ("slack", "work"),
    ]
    (route,) = platforms[1].routes()  # type: ignore[attr-defined]
    assert route.path == "/hooks/slack/work"


async def test_without_the_library_the_account_is_refused_with_what_to_install(
    vendor: FakeSlack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is an extra: the rest of the gateway runs without it."""
    monkeypatch.setitem(sys.modules, "slack_sdk.web.async_client", None)
    with pytest.raises(ConnectRefused) as refused:
        async with new_platform(vendor, "http://127.0.0.1:1/api").connect(RecordingIntake()):
            pass
    assert "pip install 'holdfast[slack]'" in str(refused.value.remedy)

"""Tests the check of Slack tokens and scopes."""

import re
from pathlib import Path

import pytest
from tests.platforms.slack.builders import new_platform
from tests.platforms.slack.fake import SCOPES, FakeSlack

from holdfast.core.errors import ConnectRefused, SendError
from holdfast.core.ports.platform_plugin import PluginContext
from holdfast.core.secrets import Secret
from holdfast.gateway.accounts.registry import PlatformRegistry
from holdfast.platforms.slack import client
from holdfast.platforms.slack.plugin import PLUGIN, SlackSettings
from holdfast.system.clock import SystemClock
from holdfast.testing.intake import RecordingIntake

DOCS = Path(__file__).parents[3] / "docs"


def opening(base_url: str, **secrets: str) -> PluginContext[SlackSettings]:
    return PluginContext(
        account="default",
        settings=SlackSettings(token="env:A", app_token="env:B", base_url=base_url),
        secrets={key: Secret(value) for key, value in secrets.items()},
        folder=Path("/nowhere"),
        clock=SystemClock(),
        new_id=lambda prefix: prefix,
    )


async def test_both_tokens_are_checked_without_opening_a_socket(
    vendor: FakeSlack, base_url: str
) -> None:
    assert PLUGIN.check is not None
    right = opening(base_url, token=vendor.token, app_token=vendor.app_token)
    assert (await PLUGIN.check(right)).name.startswith("@")
    with pytest.raises(SendError):
        await PLUGIN.check(opening(base_url, token=vendor.token, app_token="xapp-wrong"))
    with pytest.raises(SendError):
        await PLUGIN.check(opening(base_url, token="xoxb-wrong", app_token=vendor.app_token))


async def test_each_missing_scope_is_named_with_what_does_not_work(
    vendor: FakeSlack, base_url: str
) -> None:
    """By what Slack says in the headers of its answers."""
    assert PLUGIN.check is not None
    right = opening(base_url, token=vendor.token, app_token=vendor.app_token)
    assert (await PLUGIN.check(right)).missing_grants == ()
    vendor.scopes = SCOPES.replace("files:write,", "").replace(",users:read", "")
    files, names = map(str, (await PLUGIN.check(right)).missing_grants)
    effect = "files from the agent are not sent"
    assert files.startswith(f"the scope files:write: {effect}; add it under")
    assert "users:read" in names
    vendor.scopes = "im:history"
    with pytest.raises(ConnectRefused, match="chat:write"):
        await PLUGIN.check(right)


async def test_a_check_of_a_connected_account_names_its_missing_scopes(
    vendor: FakeSlack, base_url: str
) -> None:
    platform = new_platform(vendor, base_url)
    registry = PlatformRegistry([platform], clock=SystemClock())
    async with platform.connect(RecordingIntake()):
        assert registry.status_of(platform).missing_grants == ()
        vendor.scopes = SCOPES.replace("commands,", "")
        await platform.probe()
        (lack,) = registry.status_of(platform).missing_grants
        assert "the scope commands: there is no /holdfast" in lack
        vendor.scopes = SCOPES  # the app was installed again
        await platform.probe()
        assert registry.status_of(platform).missing_grants == ()


def test_the_manifest_asks_for_what_is_needed_and_for_nothing_else() -> None:
    page = (DOCS / "slack.md").read_text()
    bot = page.partition("    bot:\n")[2].partition("settings:")[0]
    assert set(re.findall(r"- (\S+)", bot)) == client.SCOPES == set(SCOPES.split(","))
